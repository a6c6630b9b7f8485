"""Kills the processes of one kind of topology in parallel rounds, until enough of them were killed.

A `Campaign` defines a round. This module runs the rounds, counts and reports them, and makes a command of a campaign.
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

ROUNDS_AT_ONCE: Final = 2
"""Rounds that run at the same time."""
MOST_VIOLATIONS: Final = 5
LINE_EVERY_SECS: Final = 10.0

IsOver = Callable[[], bool]
ServersT = TypeVar("ServersT")
KilledT = TypeVar("KilledT", bound=Killed)


@dataclass
class KillsResult(Generic[KilledT]):
    """Counts of all rounds."""

    seed: int
    count: int
    subject: str
    steps: Collection[str]
    rounds: int = 0
    lives: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    """Killed processes by step; those outside of any step are under `at an instant`."""
    by_combination: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    """Violations, each with the command that replays it."""

    @property
    def kills(self) -> int:
        """Number of killed processes."""
        return self.deaths.total()

    def add(self, killed: KilledT) -> None:
        """Count a round."""
        self.rounds += 1
        self.lives += killed.lives
        self.deaths += killed.deaths
        self.by_combination[str(killed.combination)] += killed.deaths.total()
        self.violations += killed.violations

    def judged(self) -> str:
        """Say how much the judge checked, for the line of progress."""
        return ""

    def line(self) -> str:
        """Return one line of progress."""
        instants = self.deaths[AT_AN_INSTANT]
        struck = len(self.deaths.keys() & set(self.steps))
        return (
            f"{self.kills:,} processes {self.subject} killed in {self.rounds:,} rounds: {instants:,} at an instant, "
            f"{self.kills - instants:,} at {struck} of {len(self.steps)} steps, in {len(self.by_combination)} combinations; "
            f"{self.judged()}{len(self.violations)} violations"
        )

    def summary(self) -> str:
        """Return the totals, with each step and each combination."""
        steps = "\n".join(f"  {count:5,}  {name}" for name, count in sorted(self.deaths.items()))
        combinations = "\n".join(f"  {count:5,}  {name}" for name, count in sorted(self.by_combination.items()))
        return "\n".join([f"seed {self.seed}: {self.line()}", "by step:", steps, "by combination:", combinations, *self.violations])


class Campaign(ABC, Generic[ServersT, KilledT]):
    """Definition of the rounds for one kind of topology. A round depends only on the seed and its number."""

    name: ClassVar[str]
    """Name in `python -m tests.soak.NAME`."""
    full: ClassVar[int]
    """Number of processes to kill for a release."""
    enough: ClassVar[int]
    """Number of kills after which every step must have had a death."""

    @abstractmethod
    def why_not(self) -> str | None:
        """Return why this campaign cannot run here, or None."""

    @abstractmethod
    def running(self, folder: Path) -> AbstractContextManager[ServersT]:
        """Start the servers of all rounds, with their files in `folder`."""

    @abstractmethod
    def begin(self, seed: int, count: int) -> KillsResult[KilledT]:
        """Return empty counts."""

    @abstractmethod
    def topology(self, servers: ServersT, seed: int, number: int, folder: Path) -> KilledTopology[KilledT, Any]:
        """Draw the topology of a round."""

    @abstractmethod
    def deaths(self, seed: int, number: int) -> Sequence[Any]:
        """Draw the deaths of its processes: steps, each once before any repeats, and random instants."""

    def run(self, count: int, seed: int, is_over: IsOver = lambda: False, only: int | None = None) -> KillsResult[KilledT]:
        """Kill `count` processes, with lines of progress, or run one round alone."""
        result = self.begin(seed, count)
        folder = Path(tempfile.mkdtemp(prefix=f"soak-{self.name}-servers-"))
        try:
            with self.running(folder) as servers:
                asyncio.run(Rounds(self, servers, result, is_over).run(only))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return result


class Rounds(Generic[ServersT, KilledT]):
    """Rounds in parallel, until enough processes were killed."""

    def __init__(self, campaign: Campaign[ServersT, KilledT], servers: ServersT, result: KillsResult[KilledT], is_over: IsOver) -> None:
        self._campaign, self._servers, self._result = campaign, servers, result
        self._is_over = is_over
        self._next = 0
        self._printed = 0
        self._next_line = 0.0

    @property
    def _is_enough(self) -> bool:
        return self._is_over() or self._result.kills >= self._result.count or len(self._result.violations) >= MOST_VIOLATIONS

    async def run(self, only: int | None = None) -> None:
        """Run all rounds, or one of them."""
        if only is not None:
            await self._run_round(only, lambda: False)
            return
        async with asyncio.TaskGroup() as group:
            for _ in range(ROUNDS_AT_ONCE):
                group.create_task(self._run_rounds())
        if self._result.kills >= self._campaign.enough:
            never = (name for name in self._result.steps if not self._result.deaths[name])
            self._result.violations += [f"{self._campaign.name}: no process died at the step {name!r}" for name in never]
            self._report()

    async def _run_rounds(self) -> None:
        while not self._is_enough:
            number, self._next = self._next, self._next + 1
            await self._run_round(number, lambda: self._is_enough)

    async def _run_round(self, number: int, is_over: IsOver) -> None:
        """Kill until the deaths or the input are used up. Then let one process run to the end, and judge."""
        campaign, seed = self._campaign, self._result.seed
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
        self._result.add(killed)
        self._report()

    def _report(self) -> None:
        """Print new violations at once, and a line of progress every ten seconds."""
        for violation in self._result.violations[self._printed :]:
            print(violation, flush=True)
        self._printed = len(self._result.violations)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_EVERY_SECS
            print(f"  {self._result.line()}", flush=True)


def command(campaign: Campaign[Any, Any]) -> int:
    """Run the campaign of the command line; status 1 after a violation."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.soak.{campaign.name}", description="kill -9, again and again.")
    parser.add_argument("count", type=int, nargs="?", default=campaign.full, help=f"processes to kill (default {campaign.full:,})")
    parser.add_argument("seed", type=int, nargs="?", default=random.SystemRandom().getrandbits(40))
    parser.add_argument("--round", type=int, help="run this round alone")
    arguments = parser.parse_args()
    if reason := campaign.why_not():
        parser.error(reason)
    print(f"seed {arguments.seed}: {arguments.count:,} kills, Python {sys.version.split()[0]}", flush=True)
    began = time.monotonic()
    result = campaign.run(arguments.count, arguments.seed, only=arguments.round)
    print(f"\nafter {time.monotonic() - began:.0f} s, {result.summary()}")
    return 1 if result.violations else 0
