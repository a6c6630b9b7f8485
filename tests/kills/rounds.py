"""One topology that is killed and restarted until it is complete, and then judged."""

import asyncio
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

from tests.kills.forks import start_forked
from tests.kills.lives import BEGINS, RUNS, Death, told

AT_AN_INSTANT: Final = "at an instant"
MISSED: Final = "a process did not come to its death"
MOST_ROUNDS: Final = 3
"""Rounds of a test in which a process is complete before its death, which depends on the load of the machine."""
MOST_SECS: Final = 60.0
"""Limit for a process. A longer run hangs."""
TAIL_CHARACTERS: Final = 3000


@dataclass
class Killed:
    """Result of a round."""

    combination: Any
    deaths: Counter[str] = field(default_factory=Counter)
    """Number of deaths by step, and by `at an instant`."""
    lives: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def has_missed(self) -> bool:
        """True if nothing is wrong but that a process was complete before its death."""
        return bool(self.violations) and all(text.startswith(MISSED) for text in self.violations)


KilledT = TypeVar("KilledT", bound=Killed)
DeathT = TypeVar("DeathT", bound=Death)


class KilledTopology(ABC, Generic[KilledT, DeathT]):
    """The processes of one round, one after the other, in one folder."""

    module: ClassVar[str]
    """Program of a process. Its argument has its folder and its death."""
    to_its_end: ClassVar[Any]
    """Death of the last process: none."""

    def __init__(self, killed: KilledT, places: Any, folder: Path) -> None:
        self.killed = killed
        self.places = places
        self.folder = folder
        self._log = folder / "log"
        self._log_begins = 0

    async def prepare(self) -> None:
        """Put the input into its place."""

    async def after_life(self) -> None:
        """Inspect the files that a process left."""

    def may_end_with(self, said: str) -> bool:
        """Tell from its output whether a process without a kill may end with an error. The default is no."""
        return False

    @abstractmethod
    async def judge(self) -> None:
        """Note violated promises after the last process is complete."""

    async def die(self, death: DeathT) -> bool:
        """Run a process until its death. Returns False if it was complete before."""
        status = await self._live(death)
        if status == -signal.SIGKILL:
            self.killed.deaths[death.step or AT_AN_INSTANT] += 1
        elif status != 0 and not self.may_end_with(self.said()):
            self._violated(f"a process ended with status {status}, and was not killed")
        await self.after_life()
        return status == -signal.SIGKILL

    async def finish(self) -> KilledT:
        """Run a process to its end, and judge."""
        status = await self._live(self.to_its_end)
        if status != 0:
            self._violated(f"the last process ended with status {status}")
            return self.killed
        await self.after_life()
        await self.judge()
        return self.killed

    async def _live(self, death: DeathT) -> int | None:
        """Start a process and let it die. Returns its exit status."""
        self.killed.lives += 1
        with self._log.open("ab") as log:
            self._log_begins = log.tell()
            process = await start_forked(self.module, told(self.places, death, self.killed.lives), stderr=log)
        may_live: float | None = None
        try:
            async with asyncio.timeout(MOST_SECS):
                while await process.stdout.readline() not in (BEGINS if death.from_the_beginning else RUNS, b""):
                    pass
            may_live = death.secs
            async with asyncio.timeout(MOST_SECS if may_live is None else may_live):
                await process.wait()
        except TimeoutError:
            if may_live is None:  # it ends by itself, or it has not begun
                self._violated(f"a process was not over after {MOST_SECS:g} s, and was killed")
        finally:
            process.kill()
            await process.close()
        return process.returncode

    def said(self) -> str:
        """Return the standard error of the last process."""
        return self._log.read_bytes()[self._log_begins :].decode(errors="replace")

    def _violated(self, text: str) -> None:
        self.killed.violations.append(f"{text}\n{self.said()[-TAIL_CHARACTERS:]}")


async def play(topology: KilledTopology[KilledT, DeathT], deaths: Iterable[DeathT]) -> KilledT:
    """Let processes die at all named steps, let one end by itself, and judge."""
    await topology.prepare()
    for death in deaths:
        if not await topology.die(death) and death.step is not None:
            topology.killed.violations.append(f"{MISSED}: {death}")
            return topology.killed
    return await topology.finish()


async def play_until_met(begin: Callable[[Path], Awaitable[KilledT]], folder: Path) -> KilledT:
    """Play a round in a folder of its own, and another one if it has missed a death. begin: plays it."""
    for number in range(1, MOST_ROUNDS):
        killed = await begin(_made(folder, number))
        if not killed.has_missed:
            return killed
    return await begin(_made(folder, MOST_ROUNDS))


def _made(folder: Path, number: int) -> Path:
    made = folder / f"round-{number}"
    made.mkdir()
    return made
