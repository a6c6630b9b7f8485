"""The child's end of the socket."""

import socket
import threading
from typing import Any

from spark_bridge.session import wire


class Link:
    """Receives in one thread; sends from any, a message at a time."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        self._connection = connection
        self._sending = threading.Lock()

    def receive(self) -> wire.Message | None:
        """Wait for the next message; None once the other side has closed, or is dead."""
        header = self._read(wire.HEADER.size)
        body = None if header is None else self._read(wire.HEADER.unpack(header)[0])
        return None if body is None else wire.unpack(body)

    def send(self, kind: str, number: int, content: Any) -> None:
        """Send a message, and wait while the other side takes none: so what is emitted there is bounded. Raises TooLarge."""
        frame = wire.pack((kind, number, content))
        with self._sending:
            try:
                self._connection.sendall(frame)
            except OSError:
                return  # the other side is gone: the receiving thread ends this process

    def _read(self, length: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < length:
            try:
                part = self._connection.recv(min(length - len(parts), 2**20))
            except OSError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)
