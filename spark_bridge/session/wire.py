"""What the two processes say to each other: messages in frames, over one socket. Both sides import this; it imports neither.

To the child: `start` (settings), `call` (number, function and arguments), `stop-call`, `cancel` (number), `stop`.
From it: `ready` (facts), `refused` (a Refusal), `event`, `result`, `error` (number, what), `died` (text).
"""

import pickle
import struct
from dataclasses import dataclass
from typing import Any, Final

Message = tuple[str, int, Any]
"""What it is, the number of its call (0 for none), and what it says: bytes of the users', or plain values."""

HEADER: Final = struct.Struct("!I")
MOST_BYTES: Final = 16 * 2**20
"""What a message may hold. Larger things go by files."""


class TooLarge(ValueError):
    """A message would be longer than `MOST_BYTES`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no session came to be."""

    passes: bool
    """True where another try may do better."""
    message: str
    hint: str | None = None
    shows_log: bool = False
    """True where the end of the log says more."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a called function raised."""

    message: str
    condition: str | None = None
    place: str | None = None
    hint: str | None = None


def pack(message: Message) -> bytes:
    """Return a message as a frame; raise TooLarge."""
    body = pickle.dumps(message, protocol=5)
    if len(body) > MOST_BYTES:
        raise TooLarge(f"{len(body):,} bytes, and a message to or from Spark's process has at most {MOST_BYTES:,}")
    return HEADER.pack(len(body)) + body


def unpack(body: bytes) -> Message:
    """Return the message of a frame without its header."""
    message: Message = pickle.loads(body)
    return message
