"""What a database has to do for a map of values: five calls on encoded rows. The rules are in `fence` and `OpenValues`, alike for all."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from engine.transactional.attempt import TransactionAttempt
from engine.transactional.values.fence import Fence, Writer

Raw: TypeAlias = Any
"""A key or a value as a database keeps it; None is no value."""


class RowCodec(Protocol):
    """How keys and values are written. Lists at once, since a batch has many."""

    def keys(self, keys: Sequence[object]) -> list[Raw]:
        """Return the stored form of each key, equal for equal keys; raise StateError, naming the key, for what is none."""

    def key(self, raw: Raw) -> object:
        """Return the key of a stored form."""

    def values(self, values: Sequence[object], keys: Sequence[object]) -> list[Raw]:
        """Return the stored form of each value, None for None; raise StateError, naming its key, for what cannot be stored."""

    def read(self, raws: Sequence[Raw]) -> list[Any]:
        """Return the value of each stored form; raise StateError where one cannot be read."""


class Found(NamedTuple):
    """What is stored of some keys: the fence, as of before, and three columns in the order of the keys."""

    fence: Fence | None
    txids: list[int]
    """Of which transaction the value is; 0 where nothing is stored."""
    values: list[Raw]
    previous: list[Raw]
    """What the value was before its transaction (opaque values)."""


def nothing(fence: Fence | None, keys: Sequence[Raw]) -> Found:
    """Return that nothing is stored."""
    return Found(fence, [0] * len(keys), [None] * len(keys), [None] * len(keys))


def in_order(fence: Fence | None, keys: Sequence[Raw], found: Sequence[Sequence[Any]]) -> Found:
    """Return what is stored of keys, from four columns in any order: those keys that are there, txids, values, previous."""
    place = dict(zip(found[0], range(len(found[0])), strict=True))
    if len(place) == len(keys):
        order = [place[key] for key in keys]
        return Found(fence, *([column[at] for at in order] for column in found[1:]))
    absent = len(found[0])
    places = [place.get(key, absent) for key in keys]
    txids, values, previous = ([*column, none] for column, none in zip(found[1:], (0, None, None), strict=True))
    return Found(fence, [txids[at] for at in places], [values[at] for at in places], [previous[at] for at in places])


class Changes(NamedTuple):
    """What one task writes in one attempt: three columns of the same length, each key once."""

    keys: list[Raw]
    values: list[Raw]
    previous: list[Raw]


class ValueStore(ABC):
    """One map in one database. Raises StateUnavailable for what may pass (it is tried again), StateError for what will not.

    A call that was given up may still take effect, at any time until the fence is raised beyond its attempt, and then never.
    """

    row_codec: RowCodec

    @abstractmethod
    async def fence(self) -> Fence | None:
        """Return the map's fence, None where there is no map."""

    @abstractmethod
    async def create(self, writer: Writer) -> None:
        """Make the map, empty; harmless where another was faster."""

    @abstractmethod
    async def look(self, keys: Sequence[Raw]) -> Found:
        """Return the fence, and what is stored of each key, as of then or later."""

    @abstractmethod
    async def undo(self, seen: Fence, attempt: TransactionAttempt, writer: Writer) -> None:
        """Raise the fence to this attempt of the same txid, and put back what older attempts of it have written.

        A row that is put back has its `previous` as its value; it is gone where that is None. Without effect where the fence is no longer
        as it was seen.
        """

    @abstractmethod
    async def write(self, seen: Fence, attempt: TransactionAttempt, changes: Changes, writer: Writer) -> bool:
        """Raise the fence to this attempt, and write these rows under its txid, durably; no rows only raise it.

        False, with nothing written, unless the fence is as it was seen, or at this attempt already.
        """

    @abstractmethod
    def rows(self) -> AsyncIterator[list[tuple[Raw, Raw]]]:
        """Yield key and value of all rows, in chunks; a change made meanwhile is seen or not."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the database."""
