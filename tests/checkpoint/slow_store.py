"""A store for the virtual clock: all calls take random time and sometimes fail. Its disk outlives the runs.

Usage:

    IN_USE["mine"] = SlowProvider(disk, conditions, resident=False)
    Config(state_provider="tests.checkpoint.slow_store:provider?mine")
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from engine import StateError
from engine.errors import StateFenced, StateUnavailable
from engine.state import Ledger, LookupStore, ResidentStore, Row, StagedDelta, StateProvider, TaskStore
from engine.state.api import StagingStore

LONGEST_SECS: Final = 8.0
T = TypeVar("T")


@dataclass
class Disk:
    """Rows by component, slot and key, deltas by component, task index, txid and round, and ledgers by name."""

    rows: dict[tuple[str, int, bytes], bytes] = field(default_factory=dict)
    deltas: dict[tuple[str, int, int, int], tuple[bytes, ...]] = field(default_factory=dict)
    ledgers: dict[str, dict[str, object]] = field(default_factory=dict)
    epochs: Counter[str] = field(default_factory=Counter)
    on_written: Callable[[dict[str, object]], None] = lambda entries: None
    """Called with the entries of a ledger at the moment a write takes effect."""


@dataclass(frozen=True)
class StoreStrike:
    """A fault at the n-th time of a step of the store ("before stage", "within fold", "after write")."""

    step: str
    number: int
    victim: str | None
    """Component whose task dies; None is the whole process."""
    task_index: int = 0


@dataclass
class Conditions:
    """Conditions of a store during one process: delays, failures, outages, and faults."""

    draws: random.Random
    scale_secs: float = 0.0
    failure_chance: float = 0.0
    """Chance that a step raises StateUnavailable, before or after its effect."""
    outages: Sequence[tuple[float, float]] = ()
    """Begin and end of each outage, on the loop's clock."""
    strikes: Sequence[StoreStrike] = ()
    on_strike: Callable[[StoreStrike], None] = lambda strike: None
    is_dead: bool = False
    """The process was killed, so its calls have no effect."""
    reached: Counter[str] = field(default_factory=Counter)
    unavailable: int = 0

    async def step(self, name: str) -> None:
        """Take time at a step, and maybe fail."""
        self._check()
        self.reached[name] += 1
        for strike in self.strikes:
            if (strike.step, strike.number) == (name, self.reached[name]):
                self.on_strike(strike)
        await self.pass_time()
        chance = self.failure_chance / 10 if name.startswith("within") else self.failure_chance  # a call has many steps within
        if self.draws.random() < chance or self._is_out():
            self.unavailable += 1
            raise StateUnavailable(f"{name}: the store did not answer")

    async def pass_time(self) -> None:
        """Take a random time: often none, mostly short, seldom long."""
        if self.scale_secs and self.draws.random() < 0.7:
            await asyncio.sleep(min(LONGEST_SECS, self.scale_secs * self.draws.paretovariate(1.2)))
        self._check()

    def _is_out(self) -> bool:
        now = asyncio.get_running_loop().time()
        return any(begin <= now < end for begin, end in self.outages)

    def _check(self) -> None:
        if self.is_dead:
            raise StateError("the process is dead")

    async def around(self, what: str, effect: Callable[[], T]) -> T:
        """Apply one effect, with time before and after it."""
        await self.step(f"before {what}")
        result = effect()
        await self.step(f"after {what}")
        return result


class SlowStore(StagingStore):
    """One task's part of a disk."""

    def __init__(self, disk: Disk, conditions: Conditions, component_id: str, task_index: int, slots: range) -> None:
        self._disk, self._conditions = disk, conditions
        self._component_id, self._task_index, self._slots = component_id, task_index, slots
        self._folded_upto = -1

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        await self._conditions.step("before stage")
        collected = []
        async for blob in blobs:
            collected.append(blob)
            await self._conditions.step("within stage")
        if txid > self._folded_upto:
            self._disk.deltas[self._component_id, self._task_index, txid, round_] = tuple(collected)
        await self._conditions.step("after stage")

    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        await self._conditions.step("before fold")
        async for chunk in rows:
            for row in chunk:  # one row at a time, because a fold may stop anywhere
                await self._conditions.step("within fold")
                if row.value is None:
                    self._disk.rows.pop((self._component_id, row.slot, row.key), None)
                else:
                    self._disk.rows[self._component_id, row.slot, row.key] = row.value
        await self._conditions.step("within fold")
        self._folded_upto = max(self._folded_upto, upto_txid)
        self._forget(lambda txid: txid <= upto_txid)
        await self._conditions.step("after fold")

    async def deltas(self) -> list[StagedDelta]:
        return await self._conditions.around("deltas", self._staged)

    async def drop(self, after_txid: int) -> None:
        await self._conditions.around("drop", lambda: self._forget(lambda txid: txid > after_txid))

    def _staged(self) -> list[StagedDelta]:
        own = (self._component_id, self._task_index)
        return [StagedDelta(*name[2:], blobs) for name, blobs in sorted(self._disk.deltas.items()) if name[:2] == own]

    def _forget(self, is_meant: Callable[[int], bool]) -> None:
        for delta in self._staged():
            if is_meant(delta.txid):
                del self._disk.deltas[self._component_id, self._task_index, delta.txid, delta.round]

    def _own_rows(self) -> list[Row]:
        return [
            Row(slot, key, value)
            for (component_id, slot, key), value in self._disk.rows.items()
            if component_id == self._component_id and slot in self._slots
        ]


class SlowLookupStore(SlowStore, LookupStore):
    """A store with lookups, which take no virtual time, because they block."""

    def read(self, slot: int, key: bytes) -> bytes | None:
        return self._disk.rows.get((self._component_id, slot, key))

    def scan(self) -> Iterator[Row]:
        return iter(self._own_rows())


class SlowResidentStore(SlowStore, ResidentStore):
    """A store that is loaded row by row."""

    async def load(self) -> AsyncIterator[list[Row]]:
        await self._conditions.step("before load")
        for row in self._own_rows():
            yield [row]
            await self._conditions.step("within load")


class SlowLedger(Ledger):
    """One ledger of a disk."""

    def __init__(self, disk: Disk, conditions: Conditions, name: str) -> None:
        self._disk, self._conditions, self._name = disk, conditions, name
        self._claimed = 0

    async def claim(self) -> int:
        return await self._conditions.around("claim", self._raise_epoch)

    def _raise_epoch(self) -> int:
        self._disk.epochs[self._name] += 1
        self._claimed = self._disk.epochs[self._name]
        return self._claimed

    async def read(self) -> dict[str, object]:
        return await self._conditions.around("read", lambda: dict(self._disk.ledgers.get(self._name, {})))

    async def write(self, changes: Mapping[str, object]) -> None:
        await self._conditions.around("write", lambda: self._set(changes))

    def _set(self, changes: Mapping[str, object]) -> None:
        if not self._claimed or self._claimed != self._disk.epochs[self._name]:
            raise StateFenced("this ledger was not claimed, or another process has claimed it")
        entries = {**self._disk.ledgers.get(self._name, {}), **changes}
        self._disk.ledgers[self._name] = {name: value for name, value in entries.items() if value is not None}
        self._disk.on_written(self._disk.ledgers[self._name])


class SlowProvider(StateProvider):
    """Access of one process to a disk."""

    def __init__(self, disk: Disk, conditions: Conditions, *, resident: bool) -> None:
        self._disk, self._conditions, self._resident = disk, conditions, resident
        self._ledgers: dict[str, SlowLedger] = {}

    async def open(self, topology_name: str) -> None:
        await self._conditions.pass_time()

    async def close(self) -> None:
        return None

    def ledger(self, name: str) -> Ledger:
        return self._ledgers.setdefault(name, SlowLedger(self._disk, self._conditions, name))

    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore:
        await self._conditions.step("before store")
        kind = SlowResidentStore if self._resident else SlowLookupStore
        return kind(self._disk, self._conditions, component_id, task_index, slots)


IN_USE: dict[str, SlowProvider] = {}
"""Providers by the name in the text of `state_provider`."""


def provider(name: str) -> SlowProvider:
    """Provider for the run's state_provider."""
    return IN_USE[name]
