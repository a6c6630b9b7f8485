"""Kills one exact topology again and again, and judges what each process has left in the store."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.checkpoint.record_entries import LEDGER
from engine.checkpoint.sources import SourceLayout, Sources
from engine.state import provider_of
from tests.checkpoint.exact.killing import Death
from tests.checkpoint.exact.plan import last_life
from tests.checkpoint.exact.topology import SOURCE_TASKS, TOPOLOGY, Places, counted, rows_before, write_files
from tests.checkpoint.stored_states import read_with_tools
from tests.kills.rounds import Killed, KilledTopology


class KilledExact(KilledTopology[Killed, Death]):
    """The processes of a round. After each one, the stored states must be the plain count of the rows before the stored positions."""

    module = "tests.checkpoint.exact.killing"
    places: Places

    def __init__(self, places: Places, seed: int) -> None:
        store = places.state.partition(":")[0]
        super().__init__(Killed(f"{places.source}, {places.bolts}, {store}"), places, Path(places.folder))
        self.to_its_end = last_life(random.Random(f"{seed} end"))  # type: ignore[misc]

    async def prepare(self) -> None:
        if self.places.source == "files":
            await asyncio.to_thread(write_files, self.places)

    async def after_life(self) -> None:
        """Compare positions and states, which must have become true in one write (EO-2)."""
        if not await self._has_begun():
            return
        positions = await self._stored_positions()
        expected = counted(rows_before(self.places, positions))
        self.killed.violations += [f"life {self.killed.lives}: {fault}" for fault in await self._faults(expected)]
        if self.places.source == "class":
            self.killed.violations += self._told_too_early(positions)

    async def judge(self) -> None:
        """Compare the states with the plain count of the whole input (EO-1)."""
        self.killed.violations += await self._faults(counted(range(self.places.rows)))

    async def _has_begun(self) -> bool:
        """Return whether a process has lived long enough to store something."""
        file = self.folder / "state.db"
        if self.places.state.startswith("sqlite:") and not await asyncio.to_thread(file.exists):
            return False
        return TOPOLOGY in await provider_of(self.places.state).inventory().topologies()

    async def _stored_positions(self) -> dict[int, Any]:
        source, tasks = self.places.source, SOURCE_TASKS.get(self.places.source, 1)
        sources = Sources(TOPOLOGY, [SourceLayout("numbers", tasks, source == "files")], None)
        async with provider_of(self.places.state).inventory().look(TOPOLOGY) as stored:
            sources.take_up(await stored.entries(LEDGER), has_state=False)
        return {task: sources.position_of("numbers", task) for task in range(tasks)}

    async def _faults(self, expected: Counter[int]) -> list[str]:
        found = await read_with_tools(self.places.state, TOPOLOGY)
        faults: list[str] = []
        for bolt in ("first", "second"):
            counts = Counter({key: value for (component_id, _, key), value in found.items() if component_id == bolt})
            faults += _differences(bolt, expected, counts)
        return faults

    def _told_too_early(self, stored: dict[int, Any]) -> Iterator[str]:
        lines = self.places.told.read_text().splitlines(keepends=True) if self.places.told.exists() else []
        for task, position in (map(int, line.split()) for line in lines if line.endswith("\n")):
            if position > (stored[task] or 0):
                yield f"task {task} was told that {position} is committed, and {stored[task]} is stored"


def _differences(bolt: str, expected: Counter[int], counts: Counter[int]) -> Iterator[str]:
    if lost := sorted((expected - counts).elements()):
        yield f"{bolt}: {len(lost)} rows are lost: {lost[:9]}"
    if doubled := sorted((counts - expected).elements()):
        yield f"{bolt}: {len(doubled)} rows are counted too often: {doubled[:9]}"
