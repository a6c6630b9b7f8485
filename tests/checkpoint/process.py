"""Processes of a simulated topology: each runs on a slow store, and ends or dies as its plan says."""

import asyncio
import random
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeAlias

from engine import ComponentError, Config, Run, StateError, Topology
from engine.testing import Fault, RunUnfinished, VirtualLoopError, run_topology
from tests.checkpoint.slow_store import IN_USE, Conditions, Disk, SlowProvider, StoreStrike

Outcome: TypeAlias = Literal["complete", "killed", "stopped", "drained", "gave up", "unfinished"]

PROVIDER: Final = "tests.checkpoint.slow_store:provider?simulated"
MOST_SHOWN: Final = 20


@dataclass(frozen=True, kw_only=True)
class ProcessPlan:
    """Settings and faults of one process."""

    config: Config
    scale_secs: float
    failure_chance: float
    outages: Sequence[tuple[float, float]]
    strikes: Sequence[StoreStrike]
    kills: Sequence[tuple[float, tuple[str | None, int]]]
    """Time in seconds, and the killed component and task index; (None, 0) is the whole process."""
    ending: tuple[Literal["stop", "drain"], float] | None
    """How and when the host ends it."""


@dataclass
class Simulated:
    """Result of one simulated topology."""

    subject: ClassVar[str]
    module: ClassVar[str]
    """Module whose command replays a seed."""
    seed: int
    outcomes: list[Outcome] = field(default_factory=list)
    """End of each process."""
    strikes: Counter[str] = field(default_factory=Counter)
    """Faults that took place, by kind."""
    unavailable: int = 0
    """Number of calls that the store did not answer."""
    secs: float = 0.0
    violations: list[str] = field(default_factory=list)
    options: str = ""
    """Further arguments of the command that replays the seed."""

    def describe(self) -> str:
        """Return the violations, and the command that replays the run."""
        lines = "\n".join(f"  - {violation}" for violation in self.violations[:MOST_SHOWN])
        found = f"{self.subject}, seed {self.seed}: {len(self.violations)} violations"
        return f"{found}\n{lines}\nReplay: python -m {self.module} {self.seed}{self.options}"


class Process(ABC):
    """One process of the topology, from its start to its end or death."""

    limit_secs: ClassVar[float]

    def __init__(self, plan: ProcessPlan, number: int, simulated: Simulated, add_violation: Callable[[str], None]) -> None:
        self.number, self.simulated, self.add_violation = number, simulated, add_violation
        self._plan = plan
        self._died = asyncio.Event()
        self.run: Run | None = None
        draws = random.Random(f"{simulated.seed} weather {number}")
        self.conditions = Conditions(draws, plan.scale_secs, plan.failure_chance, plan.outages, plan.strikes, self.strike)

    @abstractmethod
    def kind_of(self, component_id: str) -> str:
        """Return the kind of a killed component, under which the kill is counted."""

    @abstractmethod
    def is_expected(self, text: str) -> bool:
        """Whether an error of a component may occur."""

    def on_start(self, run: Run) -> None:  # noqa: B027
        """Called when the run has started."""

    def on_complete(self) -> None:  # noqa: B027
        """Called when the run is complete, before it is closed."""

    def play(self, topology: Topology, disk: Disk, *, resident: bool = False, faults: Sequence[Fault] = ()) -> Outcome:
        """Run the topology; return how the process ended."""
        IN_USE["simulated"] = SlowProvider(disk, self.conditions, resident=resident)
        try:
            finished = run_topology(
                topology,
                self._plan.config,
                faults=faults,
                during=self._script,
                shuffle=True,
                limit_secs=self.limit_secs,
                real_limit_secs=600,
            )
        except (ComponentError, StateError) as error:
            return self._end_by(error)
        except (RunUnfinished, VirtualLoopError) as error:
            self.add_violation(f"process {self.number} did not end: {error}")
            return "unfinished"
        finally:
            IN_USE.clear()
            self.simulated.unavailable += self.conditions.unavailable
        self.simulated.secs += finished.secs
        self.simulated.strikes.update(type(strike.fault).__name__ for strike in finished.strikes)
        if self.conditions.is_dead:
            return "killed"
        assert finished.state in ("complete", "stopped", "drained"), finished.state
        return finished.state

    def _end_by(self, error: Exception) -> Outcome:
        """Classify an error that ended the process: expected, or a violation."""
        if self.conditions.is_dead:
            return "killed"
        tried = re.search(r"tried for ([\d.]+) s", str(error))
        if not (tried and float(tried[1]) >= self._plan.config.state_timeout_secs - 0.05 and self.store_may_fail):
            self.add_violation(f"process {self.number} failed: {error!r}")
        return "gave up"

    @property
    def store_may_fail(self) -> bool:
        """Whether the plan has failures of the store."""
        return bool(self._plan.outages or self._plan.failure_chance)

    async def _script(self, run: Run) -> None:
        """Watch the run, and inject the faults of its plan in time."""
        self.run = run
        self.on_start(run)
        run.on_report.append(self._on_report)
        loop, plan = asyncio.get_running_loop(), self._plan
        timers = [loop.call_later(secs, self.strike, StoreStrike("at a time", 0, *victim)) for secs, victim in plan.kills]
        ended, died = map(asyncio.ensure_future, (run.completed(), self._died.wait()))
        try:
            await asyncio.wait([ended, died], timeout=plan.ending[1] if plan.ending else None, return_when=asyncio.FIRST_COMPLETED)
            if ended.done() and not ended.cancelled() and ended.exception() is None:
                self.on_complete()
            if plan.ending and not ended.done() and not died.done():
                await (run.stop() if plan.ending[0] == "stop" else run.drain())
        finally:
            ended.cancel()
            died.cancel()
            await asyncio.gather(ended, died, return_exceptions=True)
            for timer in timers:
                timer.cancel()
        if self.conditions.is_dead:
            await run.stop()

    def strike(self, strike: StoreStrike) -> None:
        """Kill a task, or the process."""
        if strike.victim is None:
            self.kill_process()
        else:
            self.kill_later(strike.victim, strike.task_index)

    def kill_process(self) -> None:
        """Kill the process: its actions have no effect from now on."""
        self.conditions.is_dead = True
        self._died.set()
        self.simulated.strikes["process"] += 1

    def kill_later(self, component_id: str, task_index: int) -> None:
        """Kill a task in the next turn of the loop."""
        run = self.run
        if run is not None and run.state in ("starting", "running", "draining"):
            tasks = run.task_ids(component_id)
            asyncio.get_running_loop().call_soon(self._kill, run, tasks[task_index % len(tasks)])
            self.simulated.strikes[self.kind_of(component_id)] += 1

    def _kill(self, run: Run, task_id: int) -> None:
        if run.state in ("starting", "running", "draining"):
            run.kill_task(task_id)

    def _on_report(self, report: Any) -> None:
        if not self.is_expected(report.text):
            self.add_violation(f"process {self.number}: {report.text}")
