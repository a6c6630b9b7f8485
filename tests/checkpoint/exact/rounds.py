"""Kills one exact topology again and again, and judges what each process has left in the store."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from engine.checkpoint.record_entries import LEDGER, StoredEntries
from engine.checkpoint.sources import Sources
from engine.checkpoint.staged_output import NOTHING
from engine.checkpoint.stored_positions import SourceLayout
from engine.state import ComponentSeal, provider_of
from engine.state.codec import MessagePack
from tests.checkpoint.exact import outputs
from tests.checkpoint.exact.killing import Death
from tests.checkpoint.exact.outputs import published
from tests.checkpoint.exact.plan import last_life
from tests.checkpoint.exact.topology import SOURCE_TASKS, TOPOLOGY, Places, counted, rows_before, write_files
from tests.checkpoint.stored_states import read_with_tools
from tests.kills.rounds import Killed, KilledTopology

UNREADABLE_SHARES: Final = frozenset({"kafka", "files", "spark"})
"""Kinds whose share in COMMITTING is not judged: their readers see nothing of a txid before all its tasks are done."""


class KilledExact(KilledTopology[Killed, Death]):
    """The processes of a round. After each one, the stored states must be the plain count of the rows before the stored positions."""

    module = "tests.checkpoint.exact.killing"
    places: Places
    committing = 0
    """Number of processes that have left an output in COMMITTING."""

    def __init__(self, places: Places, seed: int) -> None:
        store = places.state.partition(":")[0]
        named = [places.source, places.bolts, store, *([places.output] if places.output else [])]
        super().__init__(Killed(", ".join(named)), places, Path(places.folder))
        self.to_its_end = last_life(random.Random(f"{seed} end"))  # type: ignore[misc]

    async def prepare(self) -> None:
        if self.places.source == "files":
            await asyncio.to_thread(write_files, self.places)
        if self.places.output:
            await outputs.prepare(self.places.target)

    async def after_life(self) -> None:
        """Compare positions and states, which must have become true in one write (EO-2)."""
        if not await self._has_begun():
            return
        positions, owed = await self._stored_positions()
        expected = counted(rows_before(self.places, positions)) - owed
        self.killed.violations += [f"life {self.killed.lives}: {fault}" for fault in await self._faults(expected)]
        if self.places.output:
            self.killed.violations += [f"life {self.killed.lives}: {fault}" for fault in await self._output_faults(expected)]
        if self.places.source == "class":
            self.killed.violations += self._told_too_early(positions)

    async def judge(self) -> None:
        """Compare the states and the published output with the plain count of the whole input (EO-1)."""
        expected = counted(range(self.places.rows))
        self.killed.violations += await self._faults(expected)
        if self.places.output:
            due = _output_of(self.places.output, expected)
            self.killed.violations += _differences("the output", due, await published(self.places.target))

    async def _has_begun(self) -> bool:
        """Return whether a process has lived long enough to store something."""
        file = self.folder / "state.db"
        if self.places.state.startswith("sqlite:") and not await asyncio.to_thread(file.exists):
            return False
        return TOPOLOGY in await provider_of(self.places.state).inventory().topologies()

    async def _stored_positions(self) -> tuple[dict[int, Any], Counter[int]]:
        """Return the positions of the tasks, and the numbers of the owed rows."""
        source, tasks = self.places.source, SOURCE_TASKS.get(self.places.source, 1)
        sources = Sources(TOPOLOGY, [SourceLayout("numbers", tasks, source == "files")], None)
        async with provider_of(self.places.state).inventory().look(TOPOLOGY) as stored:
            sources.take_up(await stored.entries(LEDGER), has_state=False)
        owed = Counter(row.decode()[0][0] for task in range(tasks) for row in sources.owed.of("numbers", task))
        return {task: sources.positions.of_task("numbers", task) for task in range(tasks)}, owed

    async def _faults(self, expected: Counter[int]) -> list[str]:
        found = await read_with_tools(self.places.state, TOPOLOGY)
        faults: list[str] = []
        for bolt in ("first", "second"):
            counts = Counter({key: value for (component_id, _, key), value in found.items() if component_id == bolt})
            faults += _differences(bolt, expected, counts)
        return faults

    async def _output_faults(self, expected: Counter[int]) -> list[str]:
        """Compare what is published with the rows before the stored positions. In COMMITTING, shares may still be staged (EO-9)."""
        kind = self.places.output
        due, found = _output_of(kind, expected), await published(self.places.target)
        async with provider_of(self.places.state).inventory().look(TOPOLOGY) as stored:
            record = StoredEntries(await stored.entries(LEDGER), TOPOLOGY).record
            seal = ComponentSeal(TOPOLOGY, "output", keyed=False, txid=lambda: record.decided_txid, bare=False)
            staged = await stored.deltas("output") if record.phase == "committing" and kind not in UNREADABLE_SHARES else []
            shares = {
                task: _share(kind, seal.open_delta(delta, task).blobs)
                for task, delta in staged
                if record.is_committed(delta.txid, delta.round)
            }
        faults = [f"the output: {_few(found - due)} are not committed at {record}"] if found - due else []
        missing = due - found
        for task, share in shares.items():
            if share & missing:
                if not share <= missing:
                    faults.append(f"the output: task {task} has published a part, without {_few(share & missing)}")
                missing -= share
        if missing and not (record.phase == "committing" and kind in UNREADABLE_SHARES):
            faults.append(f"the output: {_few(missing)} are neither published nor staged at {record}")
        self.committing += record.phase == "committing"
        return faults

    def _told_too_early(self, stored: dict[int, Any]) -> Iterator[str]:
        lines = self.places.told.read_text().splitlines(keepends=True) if self.places.told.exists() else []
        for task, position in (map(int, line.split()) for line in lines if line.endswith("\n")):
            if position > (stored[task] or 0):
                yield f"task {task} was told that {position} is committed, and {stored[task]} is stored"


def _output_of(kind: str, expected: Counter[int]) -> Counter[Any]:
    """Return the output for these counts of the numbers."""
    if kind in outputs.MAPS:
        return expected
    return Counter((number, count) for number, most in expected.items() for count in range(1, most + 1))


def _share(kind: str, blobs: Iterable[bytes]) -> Counter[Any]:
    """Return the output that a task has staged."""
    share: Counter[Any] = Counter()
    for blob in blobs:
        if blob == NOTHING:
            continue
        decoded = MessagePack().decode(blob)
        if kind in outputs.MAPS:
            share.update(dict(decoded))
        else:
            share.update(tuple(row) for row in decoded[2])
    return share


def _few(rows: Counter[Any]) -> list[Any]:
    return sorted(rows.elements())[:9]


def _differences(bolt: str, expected: Counter[Any], counts: Counter[Any]) -> Iterator[str]:
    if lost := sorted((expected - counts).elements()):
        yield f"{bolt}: {len(lost)} rows are lost: {lost[:9]}"
    if doubled := sorted((counts - expected).elements()):
        yield f"{bolt}: {len(doubled)} rows are counted too often: {doubled[:9]}"
