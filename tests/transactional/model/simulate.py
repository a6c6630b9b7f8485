"""One simulated transactional topology, through its processes: drawn from a seed, played under the virtual clock, judged."""

import asyncio
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from engine import ComponentError, Run, StateError
from engine.testing import ACKER, RunUnfinished, VirtualLoopError, run_topology
from tests.checkpoint.slow_store import IN_USE, Disk, SlowProvider, StoreStrike, Weather
from tests.simulation.complaints import report_complaints
from tests.transactional.model.bolts import Play, topology_of
from tests.transactional.model.judge import judge_outcome, watch_runners
from tests.transactional.model.kept import Files, Server, ValueMap
from tests.transactional.model.plan import Plan, ProcessPlan, draw_plan
from tests.transactional.model.source import Source
from tests.transactional.model.trouble import Trouble
from tests.transactional.model.witness import Witness

LIMIT_SECS: Final = 20_000.0
EXPECTED_ERRORS: Final = ("InjectedError", "StateUnavailable", "was killed", "Refused", "CancelledError")
Outcome: TypeAlias = Literal["complete", "killed", "stopped", "drained", "gave up", "unfinished"]


@dataclass
class Simulated:
    """What one simulated topology showed."""

    seed: int
    outcomes: list[Outcome] = field(default_factory=list)
    """How each of its processes ended."""
    strikes: Counter[str] = field(default_factory=Counter)
    """Faults that came true, by kind."""
    kind: str = ""
    batches: int = 0
    """Committed ones."""
    replayed: int = 0
    """Attempts beyond the first of their txid."""
    unavailable: int = 0
    """Times that the store did not answer."""
    refused: int = 0
    """Writes of values that came too late, and were refused."""
    landed_late: int = 0
    """Writes that were done when nobody waited for them any longer."""
    secs: float = 0.0
    violations: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """The violations, and the command that replays the run."""
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

    def play(self) -> Simulated:
        """Play all processes; what the last one leaves is judged."""
        simulated, witness = self.simulated, self.witness
        for number, process in enumerate(self.plan.processes):
            outcome = Process(self, process, number).play()
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
    """One process of the topology, from its start to its end or its death."""

    def __init__(self, simulation: Simulation, plan: ProcessPlan, number: int) -> None:
        self.simulation, self.plan, self.number = simulation, plan, number
        self.witness = simulation.witness
        self.run: Run | None = None
        self.died = asyncio.Event()
        seed = simulation.plan.seed
        self.weather = Weather(
            random.Random(f"{seed} weather {number}"), plan.scale_secs, plan.trouble, plan.outages, plan.store_strikes, self.store_strike
        )
        self.trouble = Trouble(
            random.Random(f"{seed} trouble {number}"), plan.blows, plan.waits, plan.longest_secs, self.kill_later, self.kill_process
        )
        source = Source(simulation.shape, self.witness, self.trouble, random.Random(f"{seed} source {number}"), plan.source_is_slow)
        self.components = Play(source, self.witness, self.trouble, simulation.server, simulation.values, simulation.files)

    def play(self) -> Outcome:
        """Run it; say how it ended."""
        simulated, plan = self.simulation.simulated, self.plan
        self.witness.begins_process()
        IN_USE["simulated"] = SlowProvider(self.simulation.disk, self.weather, resident=False)
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
            simulated.unavailable += self.weather.unavailable
            simulated.strikes.update(self.trouble.struck)
        simulated.secs += finished.secs
        if self.weather.is_dead:
            return "killed"
        assert finished.state in ("complete", "stopped", "drained"), finished.state
        spared = not (plan.outages or plan.trouble or self.trouble.struck["kill"])  # a coordinator that is killed last saves no more
        if self.witness.in_commit is not None and finished.state == "complete" and spared:
            self.witness.add_violation(f"process {self.number} is complete, and txid {self.witness.in_commit} is not saved as committed")
        return finished.state

    def _ended_by(self, error: Exception) -> Outcome:
        """An error ended it: as it had to, or against its promises."""
        if self.weather.is_dead:
            return "killed"
        tried = re.search(r"tried for ([\d.]+) s", str(error))
        if not (tried and float(tried[1]) >= self.plan.config.state_timeout_secs - 0.05 and (self.plan.outages or self.plan.trouble)):
            self.witness.add_violation(f"process {self.number} failed: {error!r}")
        return "gave up"

    # What goes on while it runs

    async def script(self, run: Run) -> None:
        """Watch the run, and strike it at the times of its plan."""
        self.run = self.components.run = run
        left: list[str] = []
        watch_runners(run, self.plan.most_open, left)
        run.on_report.append(self.heard)
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
        if self.weather.is_dead:
            await run.stop()

    def store_strike(self, strike: StoreStrike) -> None:
        """Kill a task, or the process."""
        if strike.victim is None:
            self.kill_process()
        else:
            self.kill_later(strike.victim, strike.task_index)

    def kill_process(self) -> None:
        """Nothing that it does from now on has an effect."""
        self.weather.is_dead = self.witness.is_deaf = self.components.is_dead = True
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

    def heard(self, report: Any) -> None:
        """Judge an error of a component: nothing but what was injected goes wrong."""
        store_away = "close() did not return" in report.text and (self.plan.outages or self.plan.trouble)
        if not store_away and not any(name in report.text for name in EXPECTED_ERRORS):
            self.witness.add_violation(f"process {self.number}: {report.text}")


def simulate(seed: int, *, is_calm: bool | None = None, quiet: bool = True) -> Simulated:
    """Play what a seed says; is_calm: with no faults, by default one run in ten. `quiet` keeps the engine's log shut."""
    simulation = Simulation(draw_plan(seed, is_calm=is_calm))
    with report_complaints(simulation.witness.add_violation, quiet=quiet):
        simulated = simulation.play()
    if "killed" in simulated.outcomes:  # such a process leaves what it was doing
        simulated.violations[:] = [each for each in simulated.violations if not each.startswith("LeftoverTaskWarning")]
    return simulated
