"""A process of a topology with state, which dies by kill -9 at a named step of a checkpoint.

`python -m tests.checkpoint.killing TOLD` starts it. Like a broker, its source records on disk the numbers that it emitted and those that
were acked. Its bolts count every number.
"""

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import engine
from engine import Config, Fields, Spout, SpoutExhausted, TopologyBuilder
from engine.api import FieldsGrouping
from engine.state import Ledger, LookupStore, ResidentStore, Row, StagedDelta, StateProvider, TaskStore, provider_of
from engine.state.api import StagingStore
from tests.checkpoint.killed_bolts import VARIANTS, Death
from tests.kills import lives

TOPOLOGY: Final = "killed"
FOLD_STEPS = ("before fold", "within fold", "after fold")
"""Steps that a short run reaches only once, at its end."""
STEPS = (
    *(
        f"{when} {what}"
        for what in ("stage", "preparing", "committing", "committed", "pre_prepare", "pre_commit")
        for when in ("before", "after")
    ),
    "within stage",
    *FOLD_STEPS,
)
"""Steps to die at: before, after and within writes of the store and the ledger, and around the hooks."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Files, size and store of one topology, shared by all its processes."""

    folder: str
    messages: int
    state: str
    """URL of the store."""
    bolts: str = "plain"
    """Variant of the bolts."""


class DeadlyStore(StagingStore):
    """Wraps a store, and dies in its calls."""

    def __init__(self, store: StagingStore, death: Death) -> None:
        self._store, self._death = store, death

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        self._death.at("before stage")
        await self._store.stage(txid, round_, self._within(blobs, "within stage"))
        self._death.at("after stage")

    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        self._death.at("before fold")
        await self._store.fold(self._within(rows, "within fold"), upto_txid)
        self._death.at("after fold")

    async def _within(self, parts: AsyncIterable[Any], step: str) -> AsyncIterator[Any]:
        async for part in parts:
            yield part
            self._death.at(step)

    async def deltas(self) -> list[StagedDelta]:
        return await self._store.deltas()

    async def drop(self, after_txid: int) -> None:
        await self._store.drop(after_txid)


class DeadlyLookupStore(DeadlyStore, LookupStore):
    """Wraps a store with lookups."""

    def __init__(self, store: LookupStore, death: Death) -> None:
        super().__init__(store, death)
        self._rows = store

    def read(self, slot: int, key: bytes) -> bytes | None:
        return self._rows.read(slot, key)

    def scan(self) -> Iterator[Row]:
        return self._rows.scan()


class DeadlyResidentStore(DeadlyStore, ResidentStore):
    """Wraps a store that is loaded at once."""

    def __init__(self, store: ResidentStore, death: Death) -> None:
        super().__init__(store, death)
        self._rows = store

    def load(self) -> AsyncIterator[list[Row]]:
        return self._rows.load()


class DeadlyLedger(Ledger):
    """Wraps a ledger, and dies before or after the write of each phase."""

    def __init__(self, ledger: Ledger, death: Death) -> None:
        self._ledger, self._death = ledger, death

    async def claim(self) -> int:
        return await self._ledger.claim()

    async def read(self) -> dict[str, object]:
        return await self._ledger.read()

    async def write(self, changes: Mapping[str, object]) -> None:
        record: Any = changes.get("record")
        if record is None:  # a row that goes alone, or the mark of an orderly end
            await self._ledger.write(changes)
            return
        self._death.at(f"before {record[0]}")
        await self._ledger.write(changes)
        self._death.at(f"after {record[0]}")


class DeadlyProvider(StateProvider):
    """Wraps a provider, and dies in its calls."""

    def __init__(self, provider: StateProvider, death: Death) -> None:
        self._provider, self._death = provider, death

    async def open(self, topology_name: str) -> None:
        await self._provider.open(topology_name)

    async def close(self) -> None:
        await self._provider.close()

    def ledger(self, name: str) -> Ledger:
        return DeadlyLedger(self._provider.ledger(name), self._death)

    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore:
        store = await self._provider.store(component_id, task_index, slots)
        return DeadlyLookupStore(store, self._death) if isinstance(store, LookupStore) else DeadlyResidentStore(store, self._death)


def deadly_provider(argument: str) -> DeadlyProvider:
    """Provider for the run's state_provider; the argument holds step, number, and the URL of the wrapped provider."""
    step, number, url = argument.split("|")
    return DeadlyProvider(provider_of(url), Death(step, int(number)))


class DurableSource(Spout):
    """Emits numbers from 0 on, and never an acked one again. Its history is in files that survive the process."""

    output_fields = Fields("number")

    def __init__(self, folder: Path, messages: int) -> None:
        self.folder, self.messages = folder, messages

    def open(self) -> None:
        acked = lines_of(self.folder / "acked")
        self.waiting = [number for number in range(self.messages) if number not in acked]
        self.waiting.reverse()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.emitted, self.acked = os.open(self.folder / "emitted", flags), os.open(self.folder / "acked", flags)

    def next_tuple(self) -> None:
        if not self.waiting:
            raise SpoutExhausted
        number = self.waiting.pop()
        os.write(self.emitted, f"{number}\n".encode())
        self.collector.emit((number,), number)

    def ack(self, message_id: Any) -> None:
        os.write(self.acked, f"{message_id}\n".encode())

    def fail(self, message_id: Any) -> None:
        self.waiting.append(message_id)

    def close(self) -> None:
        os.close(self.emitted)
        os.close(self.acked)


def lines_of(path: Path) -> set[int]:
    """Numbers in a file. A last line that was cut off does not count."""
    return {int(line) for line in path.read_text().split("\n")[:-1]} if path.exists() else set()


def counting_topology(folder: Path, messages: int, death: Death, *, tasks: int = 2, variant: str = "plain") -> engine.Topology:
    """Build source → pass on → count → count: two states, one behind the other."""
    bolts, builder = VARIANTS[variant], TopologyBuilder(TOPOLOGY)
    builder.set_spout("numbers", lambda: DurableSource(folder, messages), max_spout_pending=64)
    for name, before in (("pass", "numbers"), ("first", "pass"), ("second", "first")):
        factory: Any = bolts.passes if name == "pass" else partial(bolts.counts, death)
        declarer = builder.set_bolt(name, factory, 2 if name == "pass" else tasks, processes=name in bolts.processes)
        if name == "pass":
            declarer.shuffle_grouping(before)
        else:
            declarer.fields_grouping(before, "number")
    topology = builder.build()
    assert isinstance(topology.components["first"].subscriptions[0].grouping, FieldsGrouping)
    return topology


async def main() -> None:
    """Run to the end, or to the death."""
    places, told, _ = lives.heard(Places, lives.Death)
    death = Death(told.step, told.at)
    config = Config(
        state_provider=f"tests.checkpoint.killing:deadly_provider?{death.step}|{death.number}|{places.state}",
        state_checkpoint_interval_ms=100,
    )
    topology = counting_topology(Path(places.folder), places.messages, death, variant=places.bolts)
    await lives.live(topology, config, told, dict.fromkeys(STEPS, death))


if __name__ == "__main__":
    asyncio.run(main())
