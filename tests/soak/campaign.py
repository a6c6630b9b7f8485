"""Rounds of kills of one kind of topology, in the counts that a release shows: so many side by side, until enough has been killed.

A campaign says what a round is (`Campaign`); here it is played, counted, told, and made a command of.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

from tests.kills.rounds import AT_AN_INSTANT, Killed, KilledTopology

LANES: Final = 2
"""Rounds side by side."""
MOST_VIOLATIONS: Final = 5
LINE_EVERY_SECS: Final = 10.0

IsOver = Callable[[], bool]
ServersT = TypeVar("ServersT")
KilledT = TypeVar("KilledT", bound=Killed)
EachT = TypeVar("EachT")


@dataclass
class Played(Generic[KilledT]):
    """What came of all rounds."""

    seed: int
    count: int
    subject: str
    steps: Collection[str]
    rounds: int = 0
    lives: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    """By step, and `at an instant`."""
    by_combination: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    """Each with the command that replays it."""

    @property
    def kills(self) -> int:
        """Processes that were killed."""
        return self.deaths.total()

    def add(self, killed: KilledT) -> None:
        """Count a round."""
        self.rounds += 1
        self.lives += killed.lives
        self.deaths += killed.deaths
        self.by_combination[str(killed.combination)] += killed.deaths.total()
        self.violations += killed.violations

    def judged(self) -> str:
        """What was judged, for the line."""
        return ""

    def line(self) -> str:
        """One line of progress."""
        instants = self.deaths[AT_AN_INSTANT]
        struck = len(self.deaths.keys() & set(self.steps))
        return (
            f"{self.kills:,} processes {self.subject} killed in {self.rounds:,} rounds: {instants:,} at an instant, "
            f"{self.kills - instants:,} at {struck} of {len(self.steps)} steps, in {len(self.by_combination)} combinations; "
            f"{self.judged()}{len(self.violations)} violations"
        )

    def summary(self) -> str:
        """What it came to, with each step and each combination."""
        steps = "\n".join(f"  {count:5,}  {name}" for name, count in sorted(self.deaths.items()))
        combinations = "\n".join(f"  {count:5,}  {name}" for name, count in sorted(self.by_combination.items()))
        return "\n".join([f"seed {self.seed}: {self.line()}", "by step:", steps, "by combination:", combinations, *self.violations])


class Campaign(ABC, Generic[ServersT, KilledT]):
    """What a round of one kind of topology is; all of it drawn from a seed and the number of the round."""

    name: ClassVar[str]
    """As in `python -m tests.soak.NAME`."""
    full: ClassVar[int]
    """Processes that a release kills."""
    enough: ClassVar[int]
    """Kills after which each step must have been struck."""

    @abstractmethod
    def why_no(self) -> str | None:
        """Return why it cannot be had here, None where it can."""

    @abstractmethod
    def running(self, folder: Path) -> AbstractContextManager[ServersT]:
        """Have the servers of all rounds run, with their files in the folder."""

    @abstractmethod
    def begin(self, seed: int, count: int) -> Played[KilledT]:
        """Return the counts, all 0."""

    @abstractmethod
    def topology(self, servers: ServersT, seed: int, number: int, folder: Path) -> KilledTopology[KilledT, Any]:
        """Draw what is killed."""

    @abstractmethod
    def deaths(self, seed: int, number: int) -> Sequence[Any]:
        """Draw how its processes die: the next steps, all of which come before any comes again, and random instants."""

    def play(self, count: int, seed: int, is_over: IsOver = lambda: False, only: int | None = None) -> Played[KilledT]:
        """Kill so many processes, with lines of progress; or play one round."""
        played = self.begin(seed, count)
        folder = Path(tempfile.mkdtemp(prefix=f"soak-{self.name}-servers-"))
        try:
            with self.running(folder) as servers:
                asyncio.run(Rounds(self, servers, played, is_over).play(only))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return played


def drawn_in_turn(all_of: Sequence[EachT], seed: int, number: int) -> EachT:
    """Return one of them: each comes once, in a drawn order, before any comes again."""
    cycle, at = divmod(number, len(all_of))
    return random.Random(f"{seed} cycle {cycle}").sample(all_of, len(all_of))[at]


class Rounds(Generic[ServersT, KilledT]):
    """Rounds side by side, until enough has been killed."""

    def __init__(self, campaign: Campaign[ServersT, KilledT], servers: ServersT, played: Played[KilledT], is_over: IsOver) -> None:
        self._campaign, self._servers, self._played = campaign, servers, played
        self._is_over = is_over
        self._next = 0
        self._told = 0
        self._next_line = 0.0

    @property
    def _is_enough(self) -> bool:
        return self._is_over() or self._played.kills >= self._played.count or len(self._played.violations) >= MOST_VIOLATIONS

    async def play(self, only: int | None = None) -> None:
        """Play them, or one of them."""
        if only is not None:
            await self._round(only, lambda: False)
            return
        async with asyncio.TaskGroup() as lanes:
            for _ in range(LANES):
                lanes.create_task(self._lane())
        if self._played.kills >= self._campaign.enough:
            never = (name for name in self._played.steps if not self._played.deaths[name])
            self._played.violations += [f"{self._campaign.name}: no process died at the step {name!r}" for name in never]
            self._tell()

    async def _lane(self) -> None:
        while not self._is_enough:
            number, self._next = self._next, self._next + 1
            await self._round(number, lambda: self._is_enough)

    async def _round(self, number: int, is_over: IsOver) -> None:
        """Kill until the deaths, or what is to be done, are used up; then let one process live, and judge."""
        campaign, seed = self._campaign, self._played.seed
        folder = Path(tempfile.mkdtemp(prefix=f"soak-{campaign.name}-"))
        topology = campaign.topology(self._servers, seed, number, folder)
        await topology.prepare()
        for death in campaign.deaths(seed, number):
            if is_over() or not await topology.die(death):
                break
        killed = await topology.finish()
        if killed.violations:
            listed = "\n".join(f"  - {violation}" for violation in killed.violations)
            replay = f"python -m tests.soak.{campaign.name} {campaign.full} {seed} --round {number}"
            text = f"{campaign.name}, {killed.combination}, round {number}:\n{listed}\nIts files: {folder}\nReplay: {replay}"
            killed.violations = [text]
        else:
            shutil.rmtree(folder)
        self._played.add(killed)
        self._tell()

    def _tell(self) -> None:
        """Print violations at once, and a line now and then."""
        for violation in self._played.violations[self._told :]:
            print(violation, flush=True)
        self._told = len(self._played.violations)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_EVERY_SECS
            print(f"  {self._played.line()}", flush=True)


def command(campaign: Campaign[Any, Any]) -> int:
    """Kill as the command line says; status 1 where something is violated."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.soak.{campaign.name}", description="kill -9, again and again.")
    parser.add_argument("count", type=int, nargs="?", default=campaign.full, help=f"processes to kill (default {campaign.full:,})")
    parser.add_argument("seed", type=int, nargs="?", default=random.SystemRandom().getrandbits(40))
    parser.add_argument("--round", type=int, help="play this round alone")
    arguments = parser.parse_args()
    if reason := campaign.why_no():
        parser.error(reason)
    print(f"seed {arguments.seed}: {arguments.count:,} kills, Python {sys.version.split()[0]}", flush=True)
    began = time.monotonic()
    played = campaign.play(arguments.count, arguments.seed, only=arguments.round)
    print(f"\nafter {time.monotonic() - began:.0f} s, {played.summary()}")
    return 1 if played.violations else 0
