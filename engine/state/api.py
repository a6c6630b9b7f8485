"""Interfaces of stores of state (CP-7, CP-8). Bolts use `KeyValueState`.

For a database, a `StateProvider` makes task stores and `Ledger`s, which store rows, deltas and entries as bytes. Layers, codec, cache and
key groups belong to the engine (`LayeredState`), so they are the same for all providers.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final, NamedTuple, TypeAlias, cast

from engine.errors import StateError
from engine.kernel import key_group
from engine.state.namespaces import FIRST_BYTE, stored_prefix


@dataclass(frozen=True, slots=True)
class StatePlace:
    """A stateful task and its slots (CP-9).

    keyed: True if only fields groupings feed the component. Then a slot is a key group. Otherwise the task has one slot, its index.
    """

    component_id: str
    task_index: int
    tasks: int
    keyed: bool
    key_groups: int

    @property
    def slots(self) -> range:
        """The slots of the task. With `keyed` they are the key groups g with g * tasks // key_groups == task_index, otherwise its index.

        >>> [StatePlace("count", index, 3, True, 128).slots for index in range(3)]
        [range(0, 43), range(43, 86), range(86, 128)]
        """
        if not self.keyed:
            return range(self.task_index, self.task_index + 1)
        return range(self._first_group(self.task_index), self._first_group(self.task_index + 1))

    def _first_group(self, task_index: int) -> int:
        return -(-task_index * self.key_groups // self.tasks)

    def slot_of(self, grouped_by: object) -> int:
        """Return the slot of the grouping value of a key. A 1-tuple counts as its item, as in a fields grouping. Raises TypeError."""
        return key_group(grouped_by, self.key_groups) if self.keyed else self.task_index

    def __str__(self) -> str:
        return f"{self.component_id!r} (task index {self.task_index})"


def slot_text(slot: int, *, keyed: bool) -> str:
    """Return the name of a slot for error texts.

    >>> slot_text(7, keyed=True)
    'key group 7'
    """
    return f"{'key group' if keyed else 'task'} {slot}"


class Row(NamedTuple):
    """One stored key: its slot (key group or task index), and the encoded key and value. A value of None means deleted."""

    slot: int
    key: bytes
    value: bytes | None


row_of: Final = cast("Callable[[tuple[int, bytes, bytes | None]], Row]", partial(tuple.__new__, Row))
"""Makes a row of its fields, in C."""


@dataclass(frozen=True, slots=True)
class StagedDelta:
    """Changes that one task staged for one round of a txid."""

    txid: int
    round: int
    blobs: tuple[bytes, ...]


class StagingStore(ABC):
    """One task's part of a store, which is a `LookupStore` or a `ResidentStore`. Only its task calls it, from the loop's thread.

    Raises StateUnavailable for errors that may pass (the engine retries), otherwise StateError. If another process claims a ledger of the
    topology, `stage`, `fold` and `drop` of this process must raise StateFenced from then on. Otherwise late folds of this process would
    overwrite newer rows.
    """

    drops_prefixes: bool = False
    """True if the store has `drop_prefixes`, and a lookup store also `prefixes` and `scan_prefix`, without reading other rows.

    Otherwise the engine deletes the rows of a dropped namespace one by one, with `fold`.
    """

    async def drop_prefixes(self, prefixes: Sequence[bytes]) -> None:
        """Delete the rows of the task's slots whose keys begin with one of the prefixes, which no other rows have.

        The engine calls this before the `fold` of the deltas that drop namespaces. Need not be atomic, because after a crash in between the
        engine calls both again. Must raise StateFenced as `fold` does.
        """
        raise NotImplementedError(f"{type(self).__name__} sets drops_prefixes, and has no drop_prefixes()")

    @abstractmethod
    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        """Stage a delta durably and atomically. The call replaces the delta of the same txid and round, and commits nothing.

        An abandoned call may arrive late, after a fold of its txid. Then the delta is dropped.
        """

    @abstractmethod
    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        """Write rows, each key once, then drop all deltas with a txid up to upto_txid.

        Need not be atomic, but must drop the deltas last. After a crash in between, the engine folds all deltas again.
        """

    @abstractmethod
    async def deltas(self) -> list[StagedDelta]:
        """Return all staged deltas by (txid, round), each with its blobs in order. Called once, at the start."""

    @abstractmethod
    async def drop(self, after_txid: int) -> None:
        """Drop all deltas with a txid greater than after_txid, because they were rolled back."""


class LookupStore(StagingStore):
    """A store with fast point reads, for a state larger than memory. The task reads single rows through a bounded cache.

    Both methods may block for one bounded read.
    """

    @abstractmethod
    def read(self, slot: int, key: bytes) -> bytes | None:
        """Return the value of a row, None if it is missing."""

    @abstractmethod
    def scan(self) -> Iterator[Row]:
        """Yield all rows of the task's slots. Concurrent changes may be missing."""

    def prefixes(self) -> Iterator[bytes | None]:
        """Yield the prefix of each namespace with rows in the task's slots, at least once. Also yield None between bounded reads."""
        for row in self.scan():
            yield stored_prefix(row.key) or None

    def scan_prefix(self, prefix: bytes) -> Iterator[Row]:
        """Yield the rows of the task's slots whose keys begin with a prefix. Concurrent changes may be missing."""
        return (row for row in self.scan() if row.key.startswith(prefix))


class ResidentStore(StagingStore):
    """A store whose rows are loaded into memory when the task starts."""

    @abstractmethod
    def load(self) -> AsyncIterator[list[Row]]:
        """Yield all rows of the task's slots in chunks. Called once, before the task starts."""


TaskStore: TypeAlias = LookupStore | ResidentStore
"""The store of a task."""


class Ledger(ABC):
    """A small durable map with a fencing epoch, for the progress of a coordinator or a checkpoint spout (CP-8)."""

    most_bytes: ClassVar[int | None] = None
    """Bytes of dead letters that may be stored here beside the other entries. None: the store has no such bound."""

    @abstractmethod
    async def claim(self) -> int:
        """Raise the epoch by one and return it. Earlier claimers cannot write from then on."""

    @abstractmethod
    async def read(self) -> dict[str, object]:
        """Return all entries. Values are None, bool, int, float, str, bytes, and lists and dicts of these."""

    @abstractmethod
    async def write(self, changes: Mapping[str, object]) -> None:
        """Set entries (None removes one) in one atomic, durable step.

        Raises StateFenced if another process has claimed the ledger since.
        """


# For tools


class TaskDelta(NamedTuple):
    """A delta and the index of the task that staged it."""

    task_index: int
    delta: StagedDelta


class StoredTopology(ABC):
    """Stored data of one topology, valid within `StateInventory.look`. Raises StateError for unreadable data.

    `engine.checkpoint.stored` decides which of the data is committed.
    """

    @abstractmethod
    async def entries(self, ledger: str) -> dict[str, object]:
        """Return all entries of a ledger, none if the ledger does not exist."""

    async def epoch(self, ledger: str) -> int | None:
        """Return the epoch of a ledger, None if it is unknown."""
        return None

    async def holder(self) -> str | None:
        """Return the name of the process that runs the topology, or "a process". Return "" if none runs it, None if this is unknown."""
        return None

    @abstractmethod
    async def components(self) -> list[str]:
        """Return the components with stored data, sorted."""

    @abstractmethod
    async def row_sizes(self, component_id: str) -> tuple[int, int]:
        """Return the number of rows of a component, and the bytes of their keys and values."""

    @abstractmethod
    def rows(self, component_id: str) -> AsyncIterator[list[Row]]:
        """Yield all rows of a component, each once, in chunks of bounded size."""

    async def namespace_rows(self, component_id: str) -> AsyncIterator[list[Row]]:
        """Yield the rows of a component that belong to namespaces (`stored_prefix`), in chunks of bounded size."""
        async for rows in self.rows(component_id):
            yield [row for row in rows if row.key[:1] == FIRST_BYTE]

    @abstractmethod
    async def present(self, component_id: str, places: Sequence[tuple[int, bytes]]) -> int:
        """Return how many of these slots and keys have a row."""

    @abstractmethod
    async def deltas(self, component_id: str) -> list[TaskDelta]:
        """Return all staged deltas of a component that are not folded, by task, txid and round."""

    @abstractmethod
    async def version(self) -> object:
        """Return a value that changes when rows may have changed. The value is constant if the store reads a snapshot.

        `components` and `deltas` may return the data of their first call.
        """


class StateInventory(ABC):
    """Stored data of all topologies, for tools. Only `remove` changes anything, and no method waits for a run."""

    removes_by: ClassVar[str] = ""
    """Text of the question before a removal. The text names the effect on a process that runs the topology."""

    @abstractmethod
    async def topologies(self) -> list[str]:
        """Return the names of topologies with stored data, sorted."""

    @abstractmethod
    def look(self, topology_name: str) -> AbstractAsyncContextManager[StoredTopology]:
        """Open one topology for reading, also one without stored data. Raises StateError for a newer format."""

    @abstractmethod
    def remove(self, component_id: str | None) -> AsyncIterator[int]:
        """Remove the data of a component, or (None) of the topology with its ledgers. Yield the number of rows of each bounded step.

        The provider must be open for the topology, and must have claimed a ledger. The last step removes all ledgers. The call can be
        repeated after a crash.
        """


class StateProvider(ABC):
    """Stores the state of one topology. `engine.testing.StateProviderSuite` tests an implementation.

    The engine calls `stand_by` first, if the topology runs with standby, then `open` once, and `close` last. In between it uses stores and
    ledgers concurrently.
    """

    async def stand_by(self, topology_name: str, on_waiting: Callable[[str], None]) -> None:
        """Wait until no process runs the topology, and block other standby processes. The engine calls `open` next.

        Calls `on_waiting` once with the name of the process that runs the topology, or with "" if the name is unknown. Leaves nothing open
        if it raises or is cancelled.
        """
        raise StateError(
            f"{type(self).__name__} cannot tell whether another process runs the topology",
            hint="Leave standby off. A provider that supports it implements stand_by(): see engine/state/api.py.",
        )

    @abstractmethod
    async def open(self, topology_name: str) -> None:
        """Connect to the store for this topology. Raises StateError if another process holds the topology."""

    @abstractmethod
    async def close(self) -> None:
        """Release all resources. Stored data stays."""

    @abstractmethod
    def ledger(self, name: str) -> Ledger:
        """Return the ledger of this name, always the same object."""

    @abstractmethod
    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore:
        """Return the store of one task.

        The store has the deltas of the task's component and index, and the rows of the component in the task's slots.
        """

    def inventory(self) -> StateInventory:
        """Return the inventory for tools (`python -m engine state`). The provider need not be open, and a run does not call this method."""
        raise StateError(f"{type(self).__name__} has no inventory", hint="A provider implements inventory(): see engine/state/api.py.")
