"""Interface of a database for maps of values: calls on encoded rows. `fence` and `OpenValues` have the rules."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from engine.transactional.attempt import TransactionAttempt
from engine.transactional.values.fence import Fence, Writer

Raw: TypeAlias = Any
"""A key or value as the database stores it. None: no value."""


class RowCodec(Protocol):
    """Encodes keys and values. It works on lists, since a batch has many."""

    def keys(self, keys: Sequence[object]) -> list[Raw]:
        """Encode keys. Equal keys have equal codes. Raises StateError with the key if one cannot be encoded."""

    def key(self, raw: Raw) -> object:
        """Decode a key."""

    def values(self, values: Sequence[object], keys: Sequence[object]) -> list[Raw]:
        """Encode values, None as None. Raises StateError with the key if one cannot be encoded."""

    def read(self, raws: Sequence[Raw]) -> list[Any]:
        """Decode values. Raises StateError if one cannot be decoded."""


class Found(NamedTuple):
    """Stored rows of some keys: the fence, read before them, and three columns in the order of the keys."""

    fence: Fence | None
    txids: list[int]
    """The txid of each value, 0 if there is none."""
    values: list[Raw]
    previous: list[Raw]
    """Opaque values: the value before its transaction."""


def nothing(fence: Fence | None, keys: Sequence[Raw]) -> Found:
    """Return the answer for keys without stored rows."""
    return Found(fence, [0] * len(keys), [None] * len(keys), [None] * len(keys))


def in_order(fence: Fence | None, keys: Sequence[Raw], found: Sequence[Sequence[Any]]) -> Found:
    """Sort stored rows by keys. found: four columns in any order: keys, txids, values, previous values."""
    place = dict(zip(found[0], range(len(found[0])), strict=True))
    if len(place) == len(keys):
        order = [place[key] for key in keys]
        return Found(fence, *([column[at] for at in order] for column in found[1:]))
    absent = len(found[0])
    places = [place.get(key, absent) for key in keys]
    txids, values, previous = ([*column, none] for column, none in zip(found[1:], (0, None, None), strict=True))
    return Found(fence, [txids[at] for at in places], [values[at] for at in places], [previous[at] for at in places])


class Changes(NamedTuple):
    """Rows that a task writes in an attempt: three columns of the same length, each key once."""

    keys: list[Raw]
    values: list[Raw]
    previous: list[Raw]


class ValueStore(ABC):
    """One map in one database. Raises StateUnavailable for errors that may pass (the call is retried), else StateError.

    An abandoned call may still take effect until the fence is raised beyond its attempt, and never after that.
    """

    row_codec: RowCodec

    @abstractmethod
    async def fence(self) -> Fence | None:
        """Return the map's fence, None if there is no map."""

    @abstractmethod
    async def create(self, writer: Writer) -> None:
        """Create an empty map, unless another task was faster."""

    @abstractmethod
    async def look(self, keys: Sequence[Raw]) -> Found:
        """Return the fence, and the stored rows of keys, read at the same time or later."""

    @abstractmethod
    async def undo(self, seen: Fence, attempt: TransactionAttempt, writer: Writer) -> None:
        """Raise the fence to this attempt, and restore the rows that older attempts of its txid have written.

        A restored row has its `previous` as its value, and is deleted if that is None. No effect if the fence is not `seen` any more.
        """

    @abstractmethod
    async def write(self, seen: Fence, attempt: TransactionAttempt, changes: Changes, writer: Writer) -> bool:
        """Raise the fence to this attempt, and write rows under its txid, durably. Without rows only raise the fence.

        Return False and write nothing, unless the fence is still `seen`, or at this attempt already.
        """

    @abstractmethod
    def rows(self) -> AsyncIterator[list[tuple[Raw, Raw]]]:
        """Yield key and value of all rows, in chunks. Concurrent changes may be missing."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""
