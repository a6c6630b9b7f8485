"""Interface of a database for maps of values (TX-8). The interface has calls on encoded rows, and the fence against old writers.

`engine.transactional.values` has the rules. A store knows nothing about topologies, only the numbers of an attempt.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from engine.errors import FatalError, StateDamaged, StateError

ValueKind: TypeAlias = Literal["transactional", "opaque"]
"""The rule for the values of a map."""
AttemptId: TypeAlias = tuple[int, int]
"""Txid and attempt id. A `TransactionAttempt` is one."""
Raw: TypeAlias = Any
"""A key or value as the database stores it. None: no value."""
RESTORE: Final = "Restore the database from a copy, or give the map a new name and begin anew."


class ValuesMismatch(StateError, FatalError):
    """The map refuses the values, because its content is newer, or has another kind or owner. A retry cannot succeed."""


class ValueRefused(StateError):
    """A key or value of user code cannot be encoded. The batch fails, as after any other error of user code."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Owner and newest attempt of a map, stored beside its values."""

    kind: ValueKind
    topology: str
    component: str = ""
    """The component that wrote in the newest attempt."""
    attempt: AttemptId = (0, 0)
    """The newest attempt that wrote. (0, 0): none yet."""
    is_undoing: bool = False
    """True while values of an older attempt of the same txid are being restored."""

    @property
    def txid(self) -> int:
        """The txid of the newest attempt that wrote."""
        return self.attempt[0]


def fence_of(kind: Any, topology: Any, component: Any, txid: Any, attempt_id: Any) -> Fence:
    """Return the fence of a row with these columns. Raises StateDamaged if they cannot be a fence."""
    numbers_fit = type(txid) is type(attempt_id) is int and min(txid, attempt_id) >= 0
    if not numbers_fit or not all(type(text) is str for text in (kind, topology, component)):
        written = f"kind {kind!r}, topology {topology!r}, component {component!r}, txid {txid!r}, attempt {attempt_id!r}"
        raise StateDamaged(f"the fence of a map of values is damaged: {written}"[:400], hint=RESTORE)
    return Fence(kind, topology, component, (txid, attempt_id))


@dataclass(frozen=True, slots=True)
class Writer:
    """The task that writes."""

    where: str
    """Names the map in errors."""
    kind: ValueKind
    topology: str
    component: str
    task_index: int


def may_write(fence: Fence | None, seen: Fence, attempt: AttemptId, writer: Writer) -> bool:
    """Return whether the fence is unchanged, or raised to this attempt by another task of the component."""
    return fence is not None and (fence == seen or (fence.attempt == attempt and fence.component == writer.component))


class KeyCodec(Protocol):
    """Encodes keys. A codec works on lists, because a batch has many keys."""

    def keys(self, keys: Sequence[object]) -> list[Raw]:
        """Encode keys. Equal keys have equal codes. Raises ValueRefused with the key if one cannot be encoded."""

    def key(self, raw: Raw) -> object:
        """Decode a key."""


class RowCodec(KeyCodec, Protocol):
    """Encodes keys and values."""

    def values(self, values: Sequence[object], keys: Sequence[object]) -> list[Raw]:
        """Encode values, None as None. Raises ValueRefused with the key if one cannot be encoded."""

    def read(self, raws: Sequence[Raw]) -> list[Any]:
        """Decode values. Raises StateError if one cannot be decoded."""


class Found(NamedTuple):
    """Stored rows of some keys, and the fence that was read before the rows. The three columns are in the order of the keys."""

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
    """Rows that a task writes in an attempt. The first three columns have the same length, and each key occurs once."""

    keys: list[Raw]
    values: list[Raw]
    previous: list[Raw]
    deleted: Sequence[Raw] = ()
    """Keys whose rows are deleted. Transactional values only, because an undo could not restore them."""


class ValueStore(ABC):
    """One map in one database. Raises StateUnavailable for errors that may pass (the call is retried), else StateError (the run ends).

    An abandoned call may still take effect until the fence is raised beyond its attempt, and never after that.
    """

    row_codec: RowCodec

    @property
    def lacks_key_columns(self) -> bool:
        """True if `create` has to be called before a key can be written."""
        return False

    @property
    def is_older(self) -> bool:
        """True if the map has one encoded column for its keys, and a new map would have a typed column for each field."""
        return False

    async def key_codec(self, fields: Sequence[str], keys: Sequence[object]) -> KeyCodec:
        """Return the codec of the keys: that of the map, or the one that `create` will give a new map.

        fields: names of the fields of each key, if known. keys: the keys to write, whose first one decides the types of a new map.
        """
        return self.row_codec

    @abstractmethod
    async def fence(self) -> Fence | None:
        """Return the map's fence, None if there is no map."""

    @abstractmethod
    async def create(self, writer: Writer) -> None:
        """Create an empty map, with keys in the form of the last `key_codec`, unless another task was faster."""

    @abstractmethod
    async def look(self, keys: Sequence[Raw]) -> Found:
        """Return the fence, and the stored rows of keys, read at the same time or later."""

    @abstractmethod
    async def undo(self, seen: Fence, attempt: AttemptId, writer: Writer) -> None:
        """Raise the fence to this attempt, and restore the rows that older attempts of its txid have written.

        A restored row has its `previous` as its value, and is deleted if that is None. No effect if the fence is not `seen` any more.
        """

    @abstractmethod
    async def write(self, seen: Fence, attempt: AttemptId, changes: Changes, writer: Writer) -> bool:
        """Raise the fence to this attempt, and write rows under its txid, durably. Without rows only raise the fence.

        Return False and write nothing, unless the fence is still `seen`, or at this attempt already.
        """

    @abstractmethod
    async def forget(self) -> bool:
        """Lower the fence to no attempt, in an empty map. Return False and change nothing if the map has values."""

    @abstractmethod
    def rows(self) -> AsyncIterator[list[tuple[Raw, Raw]]]:
        """Yield key and value of all rows, in chunks. Concurrent changes may be missing."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""
