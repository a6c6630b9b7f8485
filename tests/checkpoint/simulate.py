"""Simulates one topology with state under the virtual clock, through all its processes. A model checks it."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from engine import ComponentError, Run, StateError
from engine.checkpoint.checkpoints import LEDGER
from engine.state import layered
from engine.testing import ACKER, RunUnfinished, VirtualLoopError, run_topology
from tests.checkpoint.judge import judge_ack, judge_counts, judge_cuts
from tests.checkpoint.model import BarrierModel
from tests.checkpoint.plan import Plan, ProcessPlan, draw_plan
from tests.checkpoint.slow_store import IN_USE, Conditions, Disk, SlowProvider, StoreStrike
from tests.checkpoint.world import Chance, World
from tests.simulation.complaints import report_complaints

LIMIT_SECS: Final = 50_000.0
EXPECTED_ERRORS: Final = ("InjectedError", "StateUnavailable", "was killed")
Outcome: TypeAlias = Literal["complete", "killed", "stopped", "drained", "gave up", "unfinished"]


@dataclass
class Simulated:
    """Result of one simulated topology."""

    seed: int
    outcomes: list[Outcome] = field(default_factory=list)
    """End of each process."""
    strikes: Counter[str] = field(default_factory=Counter)
    """Faults that took place, by kind."""
    cuts: int = 0
    """Number of committed checkpoints."""
    rolled_back: int = 0
    """Number of states that were compared after a ROLLBACK."""
    unavailable: int = 0
    """Number of calls that the store did not answer."""
    replayed: int = 0
    secs: float = 0.0
    violations: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """Return the violations, and the command that replays the run."""
        lines = "\n".join(f"  - {violation}" for violation in self.violations)
        return f"state, seed {self.seed}: {len(self.violations)} violations\n{lines}\nReplay: python -m tests.checkpoint {self.seed}"


class Simulation:
    """A topology, its disk, and the model that checks it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world: World = plan.world
        self.disk = Disk()
        self.model = BarrierModel(self.disk, LEDGER)
        self.simulated = Simulated(plan.seed, violations=self.model.violations)

    def simulate(self) -> Simulated:
        """Run all processes, and judge the final state."""
        simulated = self.simulated
        for number, process in enumerate(self.plan.processes):
            outcome = Process(self, process, number).simulate()
            simulated.outcomes.append(outcome)
            if outcome in ("complete", "unfinished"):
                break
        simulated.cuts, simulated.rolled_back = len(self.model.cuts), self.model.rolled_back
        simulated.replayed = sum(len(source.replayed) for source in self.world.sources)
        if simulated.outcomes[-1] != "complete":
            simulated.violations.append(f"the topology is not complete: {simulated.outcomes}")
        else:
            simulated.violations += [*judge_counts(self.world, self.model), *judge_cuts(self.world, self.model.cuts)]
        if self.plan.is_calm and simulated.replayed:
            simulated.violations.append("nothing went wrong, and messages were replayed")
        return simulated


class Process:
    """One process of the topology, from its start to its end or death."""

    def __init__(self, simulation: Simulation, plan: ProcessPlan, number: int) -> None:
        self.simulation, self.plan, self.number = simulation, plan, number
        self.world, self.model = simulation.world, simulation.model
        self.run: Run | None = None
        self.died = asyncio.Event()
        self.conditions = Conditions(
            random.Random(f"{simulation.plan.seed} conditions {number}"),
            plan.scale_secs,
            plan.failure_chance,
            plan.outages,
            plan.strikes,
            self.strike,
        )

    def simulate(self) -> Outcome:
        """Run the process; return how it ended."""
        simulation, plan = self.simulation, self.plan
        chance = Chance(random.Random(f"{simulation.plan.seed} chance {self.number}"), plan.fails, plan.waits)
        self.model.begins(self.world.layouts(plan.tasks, plan.config.key_groups))
        for source in self.world.sources:
            source.is_gone = False
            source.on_acked = self.judge_ack
        IN_USE["simulated"] = SlowProvider(simulation.disk, self.conditions, resident=simulation.plan.resident)
        try:
            finished = run_topology(
                self.world.topology(self.model, chance, plan.tasks),
                plan.config,
                faults=plan.faults,
                during=self.script,
                shuffle=True,
                limit_secs=LIMIT_SECS,
                real_limit_secs=600,
            )
        except (ComponentError, StateError) as error:
            return self._ended_by(error)
        except (RunUnfinished, VirtualLoopError) as error:
            simulation.simulated.violations.append(f"process {self.number} did not end: {error}")
            return "unfinished"
        finally:
            IN_USE.clear()
            simulation.simulated.unavailable += self.conditions.unavailable
            if self.run is not None:
                self.model.check_disk()
        simulation.simulated.secs += finished.secs
        simulation.simulated.strikes.update(type(strike.fault).__name__ for strike in finished.strikes)
        for source in self.world.sources:
            source.is_gone = True
        if self.conditions.is_dead:
            return "killed"
        assert finished.state in ("complete", "stopped", "drained"), finished.state
        return finished.state

    def _ended_by(self, error: Exception) -> Outcome:
        """Classify an error that ended the process: expected, or a violation."""
        if self.conditions.is_dead:
            return "killed"
        tried = re.search(r"tried for ([\d.]+) s", str(error))
        if not (
            tried and float(tried[1]) >= self.plan.config.state_timeout_secs - 0.05 and (self.plan.outages or self.plan.failure_chance)
        ):
            self.simulation.simulated.violations.append(f"process {self.number} failed: {error!r}")
        for source in self.world.sources:
            source.is_gone = True
        return "gave up"

    # During the run

    async def script(self, run: Run) -> None:
        """Watch the run, and inject the faults of its plan in time."""
        self.run = run
        run.on_report.append(self.on_report)
        loop, plan = asyncio.get_running_loop(), self.plan
        timers = [loop.call_later(secs, self.strike, StoreStrike("at a time", 0, *victim)) for secs, victim in plan.kills]
        ended, died = map(asyncio.ensure_future, (run.completed(), self.died.wait()))
        try:
            await asyncio.wait([ended, died], timeout=plan.ending[1] if plan.ending else None, return_when=asyncio.FIRST_COMPLETED)
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

    def judge_ack(self, message: str) -> None:
        """Check that the message is committed."""
        self.model.violations += judge_ack(self.world, self.model.last_cut, message)

    def strike(self, strike: StoreStrike) -> None:
        """Kill a task, or the process."""
        run = self.run
        if strike.victim is None:
            self.conditions.is_dead = True
            self.died.set()
            for source in self.world.sources:
                source.is_gone = True
            self.simulation.simulated.strikes["process"] += 1
        elif run is not None and run.state in ("starting", "running", "draining"):
            tasks = run.task_ids(strike.victim)
            asyncio.get_running_loop().call_soon(self._kill, run, tasks[strike.task_index % len(tasks)])
            self.simulation.simulated.strikes["acker" if strike.victim == ACKER else strike.victim.rstrip("0123456789")] += 1

    def _kill(self, run: Run, task_id: int) -> None:
        if run.state in ("starting", "running", "draining"):
            run.kill_task(task_id)

    def on_report(self, report: Any) -> None:
        """Check an error of a component: only injected ones may occur."""
        expected = any(name in report.text for name in EXPECTED_ERRORS)
        if not self.conditions.is_dead and not expected:
            self.simulation.simulated.violations.append(f"process {self.number}: {report.text}")


@contextmanager
def small_folds(txids: int) -> Iterator[None]:
    """Let states fold after few checkpoints, and at a start with more of them."""
    before = layered.FOLD_TXIDS, layered.MOST_TAKEN_UP
    layered.FOLD_TXIDS = layered.MOST_TAKEN_UP = txids  # type: ignore[misc]
    try:
        yield
    finally:
        layered.FOLD_TXIDS, layered.MOST_TAKEN_UP = before  # type: ignore[misc]


def simulate(seed: int, *, is_calm: bool | None = None, quiet: bool = True) -> Simulated:
    """Simulate the plan of a seed. `is_calm` means without faults; by default one run in five is calm. `quiet` turns the engine's log
    off.
    """
    simulation = Simulation(draw_plan(seed, is_calm=is_calm))
    with small_folds(simulation.plan.fold_txids), report_complaints(simulation.model.add_violation, quiet=quiet):
        return simulation.simulate()
