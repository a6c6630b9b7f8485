from typing import Any, NoReturn

from _native.bolt import BoltCore
from _native.burst import Burst
from _native.queues import Mailbox, SignalRing
from _native.tuples import Source, Tuple

def rows_of(burst: Burst) -> list[tuple[Source, int, list[tuple[Any, ...]]]]:
    """Return the rows of a burst in order, as a list of (Source, kind, list of values)."""

def kind_of(tup: Tuple) -> int:
    """Return the kind of a row with this tuple. The kinds are: of no tree, of trees, and control tuple."""

def origin_of(tup: Tuple) -> Source:
    """Return the Source of a tuple."""

def emit_rows(
    core: BoltCore,
    stream: str,
    rows: list[tuple[Any, ...]],
    anchors: list[int | tuple[int, ...]],
    taken: dict[int, Tuple],
    target: int | None,
) -> list[tuple[int | tuple[int, ...], Exception]]:
    """Emit rows of a child. anchors: of each row, its number, a tuple of numbers, or 0 for none. taken: the inputs by number.

    target: task id for a direct stream, else None. Returns (number, error) for each row that could not be emitted.
    """

def ack_rows(core: BoltCore, numbers: list[int], taken: dict[int, Tuple]) -> None:
    """Ack the inputs with these numbers, and remove them from `taken`. Ignores unknown numbers."""

def post_numbered(box: Mailbox, origin: Source, kind: int, rows: list[tuple[Any, ...]], first: int) -> None:
    """Post rows as tuples of trees whose roots are the numbers from `first` on, or of no tree. Never stops a sender."""

def first_waiting(core: BoltCore, posted: int) -> int:
    """Return the number of the first row that waits in the mailbox, is held back, or has to run again. `posted` + 1 if none does."""

def take_emits(box: Mailbox, most: int) -> list[tuple[Source, list[tuple[Any, ...]], list[int | tuple[int, ...]]]]:
    """Take up to `most` tuples as a list of (Source, rows, anchors). An anchor is a root, a tuple of roots, or 0."""

def are_plain(rows: list[tuple[Any, ...]], first: int = 0) -> bool:
    """Return True if each value, from the `first` of its row on, is of a built-in type that always loads."""

def take_verdicts(ring: SignalRing) -> tuple[list[int], list[tuple[int, Any]]]:
    """Take all signals as (numbers of the acks, list of (number, Failure)). The Failure is None if the timeout is reset."""

def exit_at_hangup(connection: int, parent: int, status: int) -> NoReturn:
    """Wait until the other end of a socket or a process is gone, then end this process at once. Needs no GIL, so no code can delay it.

    parent: pidfd of the process, or -1. A process that the parent has forked may hold the other end of the socket open.
    """
