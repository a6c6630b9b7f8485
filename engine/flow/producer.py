"""`FlowProducer` is the user's source of records for a flow-control spout."""

import copy
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterator
from datetime import datetime
from typing import Any, Final, TypeAlias

from engine.api import TaskContext
from engine.errors import EngineError, Failure
from engine.safe_text import safe_repr

Yielded: TypeAlias = tuple[Any, Any] | None
"""(position, record), or None if the source has nothing at the moment."""

_BYTES_OF_OTHERS: Final = 64
IMMUTABLE: Final = frozenset((bool, int, float, str, bytes, datetime, type(None)))


class FlowProducer(ABC):
    """Yields records with their positions. Each task of the spout has a producer of its own.

    A position tells how far the source was read, so that reading can continue there. For example, a position is an offset, a line number, a
    time, or a list of these. The parts of a position are bool, int, float, str, bytes, datetime, and tuples, lists and dicts of these. The
    engine copies a position, so a list may change after the yield. The engine passes a record to the bolt without a copy, so a record must
    not change.
    """

    context: TaskContext
    """Set before `open`."""

    def open(self) -> Awaitable[None] | None:
        """Prepare the source. Called once, before `records`."""
        return None

    @abstractmethod
    def records(self, after: Any) -> Iterator[Yielded] | AsyncIterator[Yielded]:
        """Yield `(position, record)` for each record after the position `after`, in order. None: all records.

        The method is a generator or an async generator, and returns at the end of the source. `yield None` means that no record is
        available at the moment. A generator that blocks stops the whole run. If the method raised, the engine may call it again with the
        last position that it yielded. If several records can have the same position, such as a time in seconds, begin *with* the records at
        `after`. Otherwise records are lost.
        """

    def size_of(self, record: Any) -> int:
        """Return the approximate bytes of a record. `FlowSettings.pack_bytes` bounds the sum over a pack."""
        return record_bytes(record)

    def give_up(self, position: Any, record: Any, failure: Failure) -> None:
        """Handle a record that has used up `FlowSettings.max_retries`, and counts as done. The default reports an error."""
        raise EngineError(
            f"the record at {safe_repr(position)} was given up: {failure.describe()}",
            hint="Override FlowProducer.give_up() to keep such records, or leave max_retries at none.",
        )

    def close(self) -> Awaitable[None] | None:
        """Release the resources of `open`. Called last."""
        return None


def own_position(position: Any) -> Any:
    """Return a copy of a position, or the position itself if it is immutable."""
    # A producer may change the list that it has yielded. Without a copy, the recorded position could be ahead of records that are not done.
    kind = type(position)
    if kind in IMMUTABLE or (kind is tuple and all(type(part) in IMMUTABLE for part in position)):
        return position
    try:
        return copy.deepcopy(position)
    except Exception:  # noqa: BLE001 - such a position cannot be stored either; the write refuses it and names its type
        return position


def record_bytes(record: Any) -> int:
    """Return the bytes of strings, bytes and collections of these. Any other object counts as 64.

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
