"""Simulates one transactional topology under the virtual clock, through all its processes, and judges it."""

import asyncio
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from engine import ComponentError, Run, StateError
from engine.testing import ACKER, RunUnfinished, VirtualLoopError, run_topology
from tests.checkpoint.slow_store import IN_USE, Conditions, Disk, SlowProvider, StoreStrike
from tests.simulation.complaints import report_complaints
from tests.transactional.model.bolts import ProcessState, topology_of
from tests.transactional.model.faults import Faults
from tests.transactional.model.judge import judge_outcome, watch_runners
from tests.transactional.model.plan import Plan, ProcessPlan, draw_plan
from tests.transactional.model.source import Source
from tests.transactional.model.stores import Files, Server, ValueMap
from tests.transactional.model.witness import Witness

LIMIT_SECS: Final = 20_000.0
EXPECTED_ERRORS: Final = ("InjectedError", "StateUnavailable", "was killed", "Refused", "CancelledError")
Outcome: TypeAlias = Literal["complete", "killed", "stopped", "drained", "gave up", "unfinished"]


@dataclass
class Simulated:
    """Result of one simulated topology."""

    seed: int
    outcomes: list[Outcome] = field(default_factory=list)
    """End of each process."""
    strikes: Counter[str] = field(default_factory=Counter)
    """Faults that took place, by kind."""
    kind: str = ""
    batches: int = 0
    """Number of committed batches."""
    replayed: int = 0
    """Number of attempts beyond the first of a txid."""
    unavailable: int = 0
    """Number of calls that the store did not answer."""
    refused: int = 0
    """Number of writes of values that came too late and were refused."""
    landed_late: int = 0
    """Number of writes that took effect after their caller had given up."""
    secs: float = 0.0
    violations: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """Return the violations, and the command that replays the run."""
        lines = "\n".join(f"  - {violation}" for violation in self.violations[:20])
        return (
            f"transactions, seed {self.seed}: {len(self.violations)} violations\n{lines}\n"
            f"Replay: python -m tests.transactional.model {self.seed}"
        )


class Simulation:
    """A topology, its disk, its stores of values, and the witness that judges it."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.shape = plan, plan.shape
        self.disk = Disk()
        self.witness = Witness(plan.shape)
        self.disk.on_written = self.witness.on_written
        draws = random.Random(f"{plan.seed} values")
        self.server = Server(random.Random(f"{plan.seed} server"))
        transactional = self.shape.kind != "opaque"
        self.values = {
            bolt.name: ValueMap("transactional" if transactional and draws.random() < 0.5 else "opaque")
            for bolt in self.shape.bolts
            if bolt.keeps == "values"
        }
        self.files = {bolt.name: Files() for bolt in self.shape.bolts if bolt.keeps == "files"}
        self.simulated = Simulated(plan.seed, kind=self.shape.kind, violations=self.witness.violations)

    def simulate(self) -> Simulated:
        """Run all processes, and judge the final state."""
        simulated, witness = self.simulated, self.witness
        for number, process in enumerate(self.plan.processes):
            outcome = Process(self, process, number).simulate()
            simulated.outcomes.append(outcome)
            if outcome == "unfinished" or (outcome == "complete" and witness.in_commit is None):
                break
        simulated.batches, simulated.replayed = witness.committed, witness.replayed
        simulated.refused, simulated.landed_late = self.server.refused, self.server.landed_late
        if simulated.outcomes[-1] != "complete":
            witness.add_violation(f"the topology is not complete: {simulated.outcomes}")
        else:
            self.server.land()
            simulated.violations += judge_outcome(self.shape, witness, self.values, self.files)
        if self.plan.is_calm and simulated.replayed:
            witness.add_violation("nothing went wrong, and batches were replayed")
        return simulated


class Process:
    """One process of the topology, from its start to its end or death."""

    def __init__(self, simulation: Simulation, plan: ProcessPlan, number: int) -> None:
        self.simulation, self.plan, self.number = simulation, plan, number
        self.witness = simulation.witness
        self.run: Run | None = None
        self.died = asyncio.Event()
        seed = simulation.plan.seed
        self.conditions = Conditions(
            random.Random(f"{seed} weather {number}"),
            plan.scale_secs,
            plan.failure_chance,
            plan.outages,
            plan.store_strikes,
            self.store_strike,
        )
        self.faults = Faults(
            random.Random(f"{seed} trouble {number}"), plan.faults, plan.waits, plan.longest_secs, self.kill_later, self.kill_process
        )
        source = Source(simulation.shape, self.witness, self.faults, random.Random(f"{seed} source {number}"), plan.source_is_slow)
        self.components = ProcessState(source, self.witness, self.faults, simulation.server, simulation.values, simulation.files)

    def simulate(self) -> Outcome:
        """Run the process; return how it ended."""
        simulated, plan = self.simulation.simulated, self.plan
        self.witness.begins_process()
        IN_USE["simulated"] = SlowProvider(self.simulation.disk, self.conditions, resident=False)
        try:
            finished = run_topology(
                topology_of(self.components, plan.emitters, plan.most_open),
                plan.config,
                during=self.script,
                shuffle=True,
                limit_secs=LIMIT_SECS,
                real_limit_secs=600,
            )
        except (ComponentError, StateError) as error:
            return self._ended_by(error)
        except (RunUnfinished, VirtualLoopError) as error:
            self.witness.add_violation(f"process {self.number} did not end: {error}")
            return "unfinished"
        finally:
            IN_USE.clear()
            simulated.unavailable += self.conditions.unavailable
            simulated.strikes.update(self.faults.struck)
        simulated.secs += finished.secs
        if self.conditions.is_dead:
            return "killed"
        assert finished.state in ("complete", "stopped", "drained"), finished.state
        # a coordinator that is killed last cannot save any more
        spared = not (plan.outages or plan.failure_chance or self.faults.struck["kill"])
        if self.witness.in_commit is not None and finished.state == "complete" and spared:
            self.witness.add_violation(f"process {self.number} is complete, and txid {self.witness.in_commit} is not saved as committed")
        return finished.state

    def _ended_by(self, error: Exception) -> Outcome:
        """Classify an error that ended the process: expected, or a violation."""
        if self.conditions.is_dead:
            return "killed"
        tried = re.search(r"tried for ([\d.]+) s", str(error))
        if not (
            tried and float(tried[1]) >= self.plan.config.state_timeout_secs - 0.05 and (self.plan.outages or self.plan.failure_chance)
        ):
            self.witness.add_violation(f"process {self.number} failed: {error!r}")
        return "gave up"

    # During the run

    async def script(self, run: Run) -> None:
        """Watch the run, and inject the faults of its plan in time."""
        self.run = self.components.run = run
        left: list[str] = []
        watch_runners(run, self.plan.most_open, left)
        run.on_report.append(self.on_report)
        loop, plan = asyncio.get_running_loop(), self.plan
        timers = [loop.call_later(secs, self.store_strike, StoreStrike("at a time", 0, *victim)) for secs, victim in plan.kills]
        ended, died = map(asyncio.ensure_future, (run.completed(), self.died.wait()))
        try:
            await asyncio.wait([ended, died], timeout=plan.ending[1] if plan.ending else None, return_when=asyncio.FIRST_COMPLETED)
            if ended.done() and not ended.cancelled() and ended.exception() is None:
                self.witness.violations += left
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

    def store_strike(self, strike: StoreStrike) -> None:
        """Kill a task, or the process."""
        if strike.victim is None:
            self.kill_process()
        else:
            self.kill_later(strike.victim, strike.task_index)

    def kill_process(self) -> None:
        """Kill the process: its actions have no effect from now on."""
        self.conditions.is_dead = self.witness.is_deaf = self.components.is_dead = True
        self.died.set()
        self.simulation.simulated.strikes["process"] += 1

    def kill_later(self, component: str, task_index: int) -> None:
        """Kill a task in the next turn of the loop."""
        run = self.run
        if run is not None and run.state in ("starting", "running", "draining"):
            tasks = run.task_ids(component)
            asyncio.get_running_loop().call_soon(self._kill, run, tasks[task_index % len(tasks)])
            kinds = {"s": "emitter", "s/coordinator": "coordinator", ACKER: "acker"}
            self.simulation.simulated.strikes[kinds.get(component, "bolt")] += 1

    def _kill(self, run: Run, task_id: int) -> None:
        if run.state in ("starting", "running", "draining"):
            run.kill_task(task_id)

    def on_report(self, report: Any) -> None:
        """Check an error of a component: only injected ones may occur."""
        store_away = "close() did not return" in report.text and (self.plan.outages or self.plan.failure_chance)
        if not store_away and not any(name in report.text for name in EXPECTED_ERRORS):
            self.witness.add_violation(f"process {self.number}: {report.text}")


def simulate(seed: int, *, is_calm: bool | None = None, quiet: bool = True) -> Simulated:
    """Simulate the plan of a seed. `is_calm` means without faults; by default one run in ten is calm. `quiet` turns the engine's log
    off.
    """
    simulation = Simulation(draw_plan(seed, is_calm=is_calm))
    with report_complaints(simulation.witness.add_violation, quiet=quiet):
        simulated = simulation.simulate()
    if "killed" in simulated.outcomes:  # such a process leaves unfinished coroutines
        simulated.violations[:] = [each for each in simulated.violations if not each.startswith("LeftoverTaskWarning")]
    return simulated
