"""`memory://`: the state of one run, gone with it. For tests, and for bolts that may forget at the end of the process (CP-7)."""

from collections.abc import AsyncIterable, AsyncIterator, Mapping

from engine.errors import StateFenced
from engine.state.api import Ledger, ResidentStore, Row, StagedDelta, StateProvider


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


class MemoryLedger(Ledger):
    """A dict with an epoch."""

    def __init__(self) -> None:
        self._entries: dict[str, object] = {}
        self._epoch = self._claimed = 0

    async def claim(self) -> int:
        self._epoch += 1
        self._claimed = self._epoch
        return self._epoch

    async def read(self) -> dict[str, object]:
        return dict(self._entries)

    async def write(self, changes: Mapping[str, object]) -> None:
        if self._claimed != self._epoch or not self._epoch:
            raise StateFenced("this ledger was not claimed, or another has claimed it since")
        for name, value in changes.items():
            if value is None:
                self._entries.pop(name, None)
            else:
                self._entries[name] = value


class MemoryProvider(StateProvider):
    """What `memory://` means."""

    def __init__(self) -> None:
        self._ledgers: dict[str, MemoryLedger] = {}

    async def open(self, topology_name: str) -> None:
        return None

    async def close(self) -> None:
        return None

    def ledger(self, name: str) -> Ledger:
        return self._ledgers.setdefault(name, MemoryLedger())

    async def store(self, component_id: str, task_index: int, slots: range) -> MemoryStore:
        return MemoryStore()
