"""Messages between the engine's process and Spark's process, in frames over one socket. Both processes import this module.

To the child: `start` (settings), `call` (number, function and arguments), `stop-call`, `cancel` (number), `stop`.
From the child: `ready` (facts), `refused` (StartFailure), `event`, `result`, `error` (number, content), `died` (text).
A frame is the length of the body in 4 bytes, then the pickled message.
"""

import pickle
import socket
import struct
import threading
from dataclasses import dataclass
from typing import Any, Final

Message = tuple[str, int, Any]
"""Kind, number of the call (0 if none), and content (bytes of the user's values, or plain values)."""

HEADER: Final = struct.Struct("!I")
MAX_BYTES: Final = 16 * 2**20
"""Largest message. Larger values must go through files."""


class MessageTooLarge(ValueError):
    """A message is longer than `MAX_BYTES`."""


@dataclass(frozen=True, slots=True)
class StartFailure:
    """Reason why the child could not open a session."""

    is_temporary: bool
    """True if another attempt may succeed."""
    message: str
    hint: str | None = None
    shows_log: bool = False
    """True if the error must show the end of the log."""
    is_death: bool = False
    """True if a signal ended the JVM. Says nothing about the master or the configuration."""


@dataclass(frozen=True, slots=True)
class CallFailure:
    """Error of a called function."""

    message: str
    condition: str | None = None
    place: str | None = None
    hint: str | None = None


def encode_frame(message: Message) -> bytes:
    """Return a message as a frame. Raise MessageTooLarge."""
    body = pickle.dumps(message, protocol=5)
    if len(body) > MAX_BYTES:
        raise MessageTooLarge(f"{len(body):,} bytes; a message to or from Spark's process has at most {MAX_BYTES:,}")
    return HEADER.pack(len(body)) + body


def decode_body(body: bytes) -> Message:
    """Return the message of a frame. `body`: the frame without its header."""
    message: Message = pickle.loads(body)
    return message


class MessageSocket:
    """The child's end of the socket. One thread receives, and any thread may send."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        self._connection = connection
        self._send_lock = threading.Lock()

    def receive_message(self) -> Message | None:
        """Wait for the next message. Return None after the engine's process has closed its end or died."""
        header = self._read_exactly(HEADER.size)
        body = None if header is None else self._read_exactly(HEADER.unpack(header)[0])
        return None if body is None else decode_body(body)

    def send_message(self, kind: str, number: int, content: Any) -> None:
        """Send a message. Blocks while the engine's process reads nothing, so the events in flight are bounded. Raises MessageTooLarge."""
        frame = encode_frame((kind, number, content))
        with self._send_lock:
            try:
                self._connection.sendall(frame)
            except OSError:
                return  # the engine's process has ended; the receiving thread also notices, and ends this process

    def _read_exactly(self, length: int) -> bytes | None:
        content = bytearray()
        while len(content) < length:
            try:
                part = self._connection.recv(min(length - len(content), 2**20))
            except OSError:
                return None
            if not part:
                return None
            content += part
        return bytes(content)
