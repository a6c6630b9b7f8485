"""What state is: `KeyValueState` for bolts; `StateProvider`, its stores and `Ledger` for whoever keeps it (CP-6 to CP-8).

A provider is three small things; layers, codec, cache and key groups are the engine's (`LayeredState`), alike for all.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar, overload

from engine.errors import StateError

if TYPE_CHECKING:
    from engine.state.inventory import StateInventory

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class KeyValueState(ABC, Generic[K, V]):
    """What a stateful bolt keeps: values by key, as of the last commit and with its own changes since.

    Keys are None, bool, int, float, str, bytes, datetime, Decimal, UUID, and tuples of these; equal keys are one key, and `items` may give
    it in another of its forms (1 for True, UTC for another zone, a tuple for a named one). A value belongs to the state as it is when it
    is put: to change a list or a dict, get it, change it, put it again.
    """

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    @abstractmethod
    def get(self, key: K, default: object = None) -> object:
        """Return the value of key, else the default. Sees the task's own uncommitted changes. Raises StateError for what is no key."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of key.

        Raises StateError for a key of another task's key group, one that is no key, or a value that cannot be stored.
        """

    @abstractmethod
    def delete(self, key: K) -> None:
        """Forget key; without effect where it is not there."""

    @abstractmethod
    def items(self) -> Iterator[tuple[K, V]]:
        """Yield each key once with its value, in no order. A change made meanwhile is seen or not."""

    @abstractmethod
    def __contains__(self, key: object) -> bool: ...

    @abstractmethod
    async def prepare_commit(self, txid: int) -> None:
        """Set what has changed aside and make it durable; later changes belong to the next txid.

        Raises StateError where txid is committed already.
        """

    @abstractmethod
    async def commit(self, txid: int) -> None:
        """Let what `prepare_commit(txid)` set aside count; harmless where it does already.

        Raises StateError where it was never prepared.
        """

    @abstractmethod
    async def rollback(self) -> None:
        """Drop all that is not committed."""


class Row(NamedTuple):
    """One stored key: its slot (key group, or task index), its canonical key and its value, encoded; None: deleted."""

    slot: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class StagedDelta:
    """What one task staged for one round of a txid."""

    txid: int
    round: int
    blobs: tuple[bytes, ...]


class StagingStore(ABC):
    """One task's part of a store: a `LookupStore` or a `ResidentStore`. Only its task calls it, from the loop's thread.

    Raises StateUnavailable for what may pass (the engine tries again), StateError for what will not. Where a second process can take the
    topology over, by the claim of a ledger, `stage`, `fold` and `drop` of the first raise StateFenced from then on: rows that it folds late
    would undo newer ones.
    """

    @abstractmethod
    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        """Make a delta durable as a whole; what was staged for the same txid and round is replaced. Nothing counts by it.

        A delta of a txid up to the last fold's may come late, from a try that was given up: it is let go of.
        """

    @abstractmethod
    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        """Write rows, each key once, then drop every delta of a txid up to upto_txid.

        Need not be atomic, but the deltas go last: after a crash in between they are folded again, as a whole.
        """

    @abstractmethod
    async def deltas(self) -> list[StagedDelta]:
        """Return all that is staged, ordered by (txid, round), each with its blobs in their order; asked once, at start."""

    @abstractmethod
    async def drop(self, after_txid: int) -> None:
        """Drop every delta of a txid greater than after_txid: it was undone."""


class LookupStore(StagingStore):
    """A store that answers at once, for a state larger than memory: the task reads rows as it needs them, through a bounded cache.

    Both methods may block, for one bounded read.
    """

    @abstractmethod
    def read(self, slot: int, key: bytes) -> bytes | None:
        """Return the row's value."""

    @abstractmethod
    def scan(self) -> Iterator[Row]:
        """Yield all rows of the task's slots, as they are or become meanwhile."""


class ResidentStore(StagingStore):
    """A store whose rows are in memory while the task lives."""

    @abstractmethod
    def load(self) -> AsyncIterator[list[Row]]:
        """Yield all rows of the task's slots in chunks, once, before the task begins."""


TaskStore: TypeAlias = LookupStore | ResidentStore
"""What a provider gives a task."""


class Ledger(ABC):
    """A small durable map with a fencing epoch: what a coordinator or a checkpoint spout must not forget (CP-8)."""

    @abstractmethod
    async def claim(self) -> int:
        """Raise the epoch by one and return it; whoever claimed before can write no more."""

    @abstractmethod
    async def read(self) -> dict[str, object]:
        """Return all entries, with values equal to those written: of None, bool, int, float, str, bytes, and lists and dicts of these."""

    @abstractmethod
    async def write(self, changes: Mapping[str, object]) -> None:
        """Set entries (None removes one) in one atomic, durable step. Raises StateFenced where another has claimed since."""


class StateProvider(ABC):
    """Keeps the state of one topology. `engine.testing.StateProviderSuite` says whether one does it right.

    `open` comes first, `close` last, both once; in between, stores and ledgers are used side by side. Before `open` may come `stand_by`.
    """

    async def stand_by(self, topology_name: str, on_waiting: Callable[[str], None]) -> None:
        """Wait until no process runs the topology, and keep others that stand by from it; `open` comes next.

        `on_waiting` is told once which process runs it, "" where that is not known. Raised or cancelled, nothing is left to close.
        """
        raise StateError(
            f"{type(self).__name__} cannot tell whether another process runs the topology",
            hint="Leave standby off. A provider offers it by stand_by(): see engine/state/api.py.",
        )

    @abstractmethod
    async def open(self, topology_name: str) -> None:
        """Reach the store, and take this topology's part of it; raise StateError where another process has it."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything; what was written stays."""

    @abstractmethod
    def ledger(self, name: str) -> Ledger:
        """Return the ledger of this name; the same one for the same name."""

    @abstractmethod
    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore:
        """Return the part of one task: deltas are its own, by component and task index; rows are its component's, those of its slots."""

    def inventory(self) -> "StateInventory":
        """Return what tools look into the store with (`python -m engine state`); the provider need not be open. Runs do not need it."""
        raise StateError(
            f"{type(self).__name__} cannot be looked into", hint="A provider offers that by inventory(): see engine/state/inventory.py."
        )
