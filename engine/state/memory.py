"""`memory://`: the state of one run, gone with it. For tests, and for bolts that may forget at the end of the process (CP-7)."""

from collections.abc import AsyncIterable, AsyncIterator, Callable

from engine.errors import StateError
from engine.state.api import Ledger, ResidentStore, Row, StagedDelta, StateProvider
from engine.state.inventory import StateInventory
from engine.state.value_ledger import Change, ValueLedger


class MemoryStore(ResidentStore):
    """Keeps nothing: all rows are in the state of its task, which outlives instances."""

    async def load(self) -> AsyncIterator[list[Row]]:
        yield []

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        async for _ in blobs:  # so that what no store could keep is told here too
            pass

    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        return None

    async def deltas(self) -> list[StagedDelta]:
        return []

    async def drop(self, after_txid: int) -> None:
        return None


class MemoryLedger(ValueLedger):
    """Its value is here."""

    def __init__(self) -> None:
        super().__init__()
        self._value: bytes | None = None

    async def change(self, change: Change) -> None:
        self._value = change(self._value)


class MemoryProvider(StateProvider):
    """What `memory://` means."""

    def __init__(self) -> None:
        self._ledgers: dict[str, MemoryLedger] = {}

    async def stand_by(self, topology_name: str, on_waiting: Callable[[str], None]) -> None:
        raise StateError("memory:// is of one process: there is nothing to stand by for", hint="A store for it: sqlite:///counts.db")

    async def open(self, topology_name: str) -> None:
        return None

    async def close(self) -> None:
        return None

    def ledger(self, name: str) -> Ledger:
        return self._ledgers.setdefault(name, MemoryLedger())

    async def store(self, component_id: str, task_index: int, slots: range) -> MemoryStore:
        return MemoryStore()

    def inventory(self) -> StateInventory:
        raise StateError(
            "memory:// keeps nothing beyond its process: there is nothing to look into", hint="State that can be: sqlite:///counts.db"
        )
