"""One topology that is killed again and again, and started again until it is complete; then its journal is judged."""

import asyncio
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.flow.position_keeper import ledger_name, stored_position
from engine.state import provider_of
from tests.flow.kills.combinations import Combination
from tests.flow.kills.journal import Journal, notes_in
from tests.flow.kills.judge import judge
from tests.flow.kills.killing import BEGINS, RUNS, Life
from tests.flow.kills.numbering import NAME, NUMBERS, Places, write_files
from tests.flow.kills.steps import Step

MOST_SECS: Final = 30.0
"""What takes longer hangs."""
AT_AN_INSTANT: Final = "at an instant"
TAIL_CHARACTERS: Final = 3000


@dataclass(frozen=True, kw_only=True)
class Death:
    """How one process ends: at a step for the n-th time, or, without one, so many seconds after it began, or after it ran."""

    step: str | None = None
    at: int = 1
    secs: float = MOST_SECS
    from_the_beginning: bool = False
    pending: int = 200
    interval_ms: float = 5.0
    flight_secs: float = 0.0005

    def life(self, places: Places, number: int) -> Life:
        """The process that ends so."""
        return Life(
            places=places,
            number=number,
            pending=self.pending,
            interval_ms=self.interval_ms,
            step=self.step,
            at=self.at,
            flight_secs=self.flight_secs,
        )


def death_at(step: Step, draws: random.Random) -> Death:
    """Return a death at a step, with the rest of it drawn."""
    return _drawn(draws, step=step.name, at=1 if step.is_rare else draws.choice([1, 2, 5]))


def death_at_an_instant(draws: random.Random, most_secs: float) -> Death:
    """Return a death while it starts, or while it runs."""
    return _drawn(draws, secs=draws.uniform(0, most_secs), from_the_beginning=draws.random() < 0.2)


def _drawn(draws: random.Random, **death: object) -> Death:
    fields = {
        "pending": draws.choice([20, 200, 2000]),
        "interval_ms": draws.choice([1.0, 5.0, 30.0]),
        "flight_secs": draws.choice([0.0, 0.0003, 0.001, 0.003]),
    }
    return Death(**{**fields, **death})  # type: ignore[arg-type]


@dataclass
class Killed:
    """What came of a round."""

    combination: Combination
    deaths: Counter[str] = field(default_factory=Counter)
    """By step, and `at an instant`."""
    lives: int = 0
    records: int = 0
    repeats: int = 0
    most_repeats: int = 0
    violations: list[str] = field(default_factory=list)


class KilledTopology:
    """The processes of one round, one after the other, in a folder of their own; `redis` is the URL of a server, with a prefix."""

    def __init__(self, combination: Combination, redis: str, folder: Path, count: int) -> None:
        self.killed = Killed(combination, records=count * combination.tasks)
        self.folder = folder
        self.places = Places(
            folder=str(folder),
            state=redis if combination.state == "redis" else f"sqlite:///{folder}/state.db",
            positions=combination.positions,
            producer=combination.producer,
            tasks=combination.tasks,
            count=count,
        )
        if combination.positions == "line":
            write_files(self.places)

    async def die(self, death: Death) -> bool:
        """Have a process live until its death, and note what is stored then; tell whether it died so. One that was complete did not."""
        status = await self._live(death)
        if status == -signal.SIGKILL:
            self.killed.deaths[death.step or AT_AN_INSTANT] += 1
        elif status != 0:
            self._violated(f"a process ended with status {status}, and was not killed")
        await self._note_stored()
        return status == -signal.SIGKILL

    async def finish(self) -> Killed:
        """Have a process live to its end, and judge."""
        status = await self._live(Death())
        if status != 0:
            self._violated(f"the last process ended with status {status}")
            return self.killed
        await self._note_stored()
        judged = judge(notes_in(self.places.journal), self.places.tasks, self.places.count)
        self.killed.violations += judged.violations
        self.killed.repeats, self.killed.most_repeats = judged.repeats, judged.most_repeats
        return self.killed

    async def _note_stored(self) -> None:
        journal = Journal(self.places.journal, self.killed.lives)
        provider = provider_of(self.places.state)
        await provider.open(NAME)
        try:
            for task in range(self.places.tasks):
                entries = await provider.ledger(ledger_name(NUMBERS, task)).read()
                stored = stored_position(entries, NUMBERS, self.places.tasks)
                journal.note("stored", task, self.places.number_of(stored.position), stored.records)
        finally:
            await provider.close()
            journal.close()

    async def _live(self, death: Death) -> int | None:
        """Start a process, and have it die; return its exit status."""
        self.killed.lives += 1
        written = death.life(self.places, self.killed.lives).written()
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.flow.kills.killing", written, stdin=PIPE, stdout=PIPE, stderr=log
            )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(MOST_SECS):
                while await process.stdout.readline() not in (BEGINS if death.from_the_beginning else RUNS, b""):
                    pass
            async with asyncio.timeout(death.secs):
                await process.wait()
        except TimeoutError:
            if death.secs == MOST_SECS:
                self._violated(f"a process was not over after {MOST_SECS:g} s, and was killed")
        finally:
            if process.returncode is None:
                os.kill(process.pid, signal.SIGKILL)  # process.kill() would reap one that ends just then, and its status be lost
            await process.communicate()
        return process.returncode

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _violated(self, text: str) -> None:
        said = self._log.read_text(errors="replace")[-TAIL_CHARACTERS:]
        self.killed.violations.append(f"{text}\n{said}")


async def play(topology: KilledTopology, deaths: Iterable[Death]) -> Killed:
    """Have processes die, at all steps that are named, then one live to the end, and judge it."""
    for death in deaths:
        if not await topology.die(death) and death.step is not None:
            topology.killed.violations.append(f"a process did not come to its death: {death}")
            return topology.killed
    return await topology.finish()
