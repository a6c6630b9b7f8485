"""Kills a flow with windows again and again, and compares what it has published with a plain computation (WI-1)."""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.checkpoint.exact.steps import output_steps, steps_of
from tests.kills.rounds import Killed, KilledTopology
from tests.streams.killed.killing import SPECS, Death, Places, row_at, write_files
from tests.streams.random_windows.judge import plain

ROWS_A_DEATH: Final = 500
MOST_INSTANT_SECS: Final = 0.4
NAMES: Final = tuple(
    step.name
    for step in {step.name: step for step in (*steps_of("files"), *output_steps("sqlite values"))}.values()
    if not (step.needs_failures or step.needs_owed_rows or step.is_of_before)
)
"""Steps that a process reaches without failures."""


class KilledWindows(KilledTopology[Killed, Death]):
    """The processes of a round. After each one, each published window is right and complete, as far as the input goes."""

    module = "tests.streams.killed.killing"
    to_its_end = Death(pace_secs=0.0001)
    places: Places

    def __init__(self, places: Places) -> None:
        super().__init__(Killed(f"{places.windows}, {places.state.partition(':')[0]}"), places, Path(places.folder))

    async def prepare(self) -> None:
        await asyncio.to_thread(write_files, self.places)

    async def after_life(self) -> None:
        """What is published must be right after each death: a window is published once, when it is complete."""
        found, due = await self._published("out"), self._due()
        self.killed.violations += [f"life {self.killed.lives}: {fault}" for fault in _faults(found, {key: due.get(key) for key in found})]

    async def judge(self) -> None:
        self.killed.violations += _faults(await self._published("out"), self._due())
        if late := await self._published("late"):
            self.killed.violations.append(f"rows {sorted(late)} came within the bound, and are late (ET-2)")

    def _due(self) -> dict[Any, Any]:
        rows = [(row.key, row.at * 1000, row.number) for row in map(row_at, range(self.places.rows))]
        due = plain(SPECS[self.places.windows], rows)
        value_of: Any = sum if self.places.windows == "session" else json.dumps
        return {f"{key} {start} {end}": value_of(numbers) for (key, start), (end, numbers) in due.items()}

    async def _published(self, name: str) -> dict[Any, Any]:
        if not await asyncio.to_thread(Path(self.folder, f"{name}.db").exists):
            return {}
        async with self.places.values(name).reader() as reader:
            return {key: value async for key, value in reader.items()}


def _faults(found: dict[Any, Any], due: dict[Any, Any]) -> Iterator[str]:
    for key in sorted(found.keys() | due.keys()):
        if found.get(key) != due.get(key):
            yield f"the window {key} has {found.get(key)}, and should have {due.get(key)}"


def death_at(step: str | None, draws: random.Random) -> Death:
    """Return a death at a step, or at an instant."""
    where: dict[str, Any] = {"step": step, "at": 1 if step.startswith("start: ") else draws.choice([1, 1, 2, 3])} if step else {}
    if step is None:
        where = {"secs": draws.uniform(0, MOST_INSTANT_SECS), "from_the_beginning": draws.random() < 0.2}
    return Death(
        **where,
        tasks=draws.choice([1, 2, 3]),
        file_tasks=draws.choice([1, 2, 3]),
        output_tasks=draws.choice([1, 2]),
        interval_ms=draws.choice([5.0, 20.0, 50.0]),
        flight_secs=draws.choice([0.0, 0.0003, 0.001, 0.003]),
    )


