"""`FlowProducer`: the source of a flow-control spout, as a user writes it."""

import copy
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterator
from datetime import datetime
from typing import Any, Final, TypeAlias

from engine.errors import EngineError, Failure
from engine.topology import TaskContext

Yielded: TypeAlias = tuple[Any, Any] | None
"""(position, record), or None: nothing just now."""

_BYTES_OF_OTHERS: Final = 64
_UNCHANGING: Final = frozenset((bool, int, float, str, bytes, datetime, type(None)))


class FlowProducer(ABC):
    """Yields records with their positions; each task of the spout has its own.

    A position says how far the source is read, in whatever way the source can find again: an offset, a line, a time, a list of
    these. It is made of bool, int, float, str, bytes, datetime, and of tuples, lists and dicts; it comes back as it was. A list
    may be changed after it was yielded, the engine has a copy; a record may not, which is handed to the bolt as it is.
    """

    context: TaskContext
    """Set before `open`."""

    def open(self) -> Awaitable[None] | None:
        """Get ready; called first."""
        return None

    @abstractmethod
    def records(self, after: Any) -> Iterator[Yielded] | AsyncIterator[Yielded]:
        """Yield `(position, record)` for each record behind the position `after`, in order; from the beginning where that is None.

        A generator or an async generator; `yield None` says that there is nothing just now (a generator that blocks would hold the
        whole run). It returns where the source ends. After it raised it may be called again, with the last position that it yielded.
        Records that share a position, such as a second, cannot be told apart by it: begin *with* `after` then, or some are lost.
        """

    def size_of(self, record: Any) -> int:
        """Return the bytes of a record, about; `FlowSettings.pack_bytes` bounds their sum."""
        return record_bytes(record)

    def give_up(self, position: Any, record: Any, failure: Failure) -> None:
        """Learn that a record is not tried again (`FlowSettings.max_retries`), and counts as done. By default it is reported."""
        raise EngineError(
            f"the record at {position!r} was given up: {failure.describe()}",
            hint="Override FlowProducer.give_up() to keep such records, or leave max_retries at none.",
        )

    def close(self) -> Awaitable[None] | None:
        """Give back what `open` took; called last."""
        return None


def own_position(position: Any) -> Any:
    """Return a position that nobody else can change: a copy where it is mutable, or has such a part.

    A producer may go on changing the list that it yielded; recorded, that would pass records that are not done.
    """
    kind = type(position)
    if kind in _UNCHANGING or (kind is tuple and all(type(part) in _UNCHANGING for part in position)):
        return position
    try:
        return copy.deepcopy(position)
    except Exception:  # noqa: BLE001 - what cannot be copied cannot be kept either, and is refused with its type when it is written
        return position


def record_bytes(record: Any) -> int:
    """Return the bytes of texts, bytes and what holds them; anything else counts as 64.

    >>> record_bytes(("GET", b"/index"))
    9
    """
    kind = type(record)
    if kind is str or kind is bytes:
        return len(record)
    if kind is int or kind is float:
        return _BYTES_OF_OTHERS
    if isinstance(record, (str, bytes, bytearray, memoryview)):
        return len(record)
    if isinstance(record, (list, tuple, set, frozenset)):
        return sum(map(record_bytes, record))
    if isinstance(record, dict):
        return sum(map(record_bytes, record)) + sum(map(record_bytes, record.values()))
    return _BYTES_OF_OTHERS
