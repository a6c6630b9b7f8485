"""Simulates one transactional topology under the virtual clock, through all its processes, and judges it."""

import random
from dataclasses import dataclass
from typing import Final

from engine import Run
from engine.testing import ACKER
from tests.checkpoint import process
from tests.checkpoint.process import Outcome
from tests.checkpoint.slow_store import Disk
from tests.simulation.complaints import report_complaints
from tests.transactional.model.bolts import ProcessState, topology_of
from tests.transactional.model.faults import Faults
from tests.transactional.model.judge import judge_outcome, watch_runners
from tests.transactional.model.plan import COORDINATOR, Plan, ProcessPlan, draw_plan
from tests.transactional.model.shape import SPOUT
from tests.transactional.model.source import Source
from tests.transactional.model.stores import Files, Server, ValueMap
from tests.transactional.model.witness import Witness

EXPECTED_ERRORS: Final = ("InjectedError", "StateUnavailable", "was killed", "Refused", "CancelledError")
KINDS: Final = {SPOUT: "emitter", COORDINATOR: "coordinator", ACKER: "acker"}


@dataclass
class Simulated(process.Simulated):
    """Result of one simulated topology."""

    subject = "transactions"
    module = "tests.transactional.model"
    kind: str = ""
    batches: int = 0
    """Number of committed batches."""
    replayed: int = 0
    """Number of attempts beyond the first of a txid."""
    refused: int = 0
    """Number of writes of values that came too late and were refused."""
    landed_late: int = 0
    """Number of writes that took effect after their caller had given up."""


class Simulation:
    """A topology, its disk, its stores of values, and the witness that judges it. Subclasses run it on another engine."""

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
        self.simulated = self.new_result()

    def new_result(self) -> Simulated:
        """Return the result, which is empty yet."""
        return Simulated(self.plan.seed, kind=self.shape.kind, violations=self.witness.violations)

    def new_process(self, plan: ProcessPlan, number: int) -> "Process":
        """Return the process with this number."""
        return Process(self, plan, number)

    def simulate(self) -> Simulated:
        """Run all processes, and judge the final state."""
        simulated, witness = self.simulated, self.witness
        for number, process_plan in enumerate(self.plan.processes):
            outcome = self.new_process(process_plan, number).simulate()
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


class Process(process.Process):
    """One process of a transactional topology."""

    limit_secs = 20_000.0

    def __init__(self, simulation: Simulation, plan: ProcessPlan, number: int) -> None:
        super().__init__(plan, number, simulation.simulated, simulation.witness.add_violation)
        self.simulation, self.plan, self.witness = simulation, plan, simulation.witness
        self.findings: list[str] = []
        """Findings about the runners, which count if the run completes."""
        seed = simulation.plan.seed
        draws = random.Random(f"{seed} trouble {number}")
        self.faults = Faults(draws, plan.faults, plan.waits, plan.longest_secs, self.kill_later, self.kill_process)
        self.source = Source(simulation.shape, self.witness, self.faults, random.Random(f"{seed} source {number}"), plan.source_is_slow)
        self.components = ProcessState(self.source, self.witness, self.faults, simulation.server, simulation.values, simulation.files)

    def simulate(self) -> Outcome:
        """Run the process; return how it ended."""
        self.witness.begins_process()
        coordinator_kills = self.simulated.strikes[KINDS[COORDINATOR]]
        outcome = self.play(topology_of(self.components, self.plan.emitters, self.plan.most_open), self.simulation.disk)
        self.simulated.strikes.update(self.faults.struck)
        # a coordinator that is killed last cannot save any more
        spared = not self.store_may_fail and self.simulated.strikes[KINDS[COORDINATOR]] == coordinator_kills
        if self.witness.in_commit is not None and outcome == "complete" and spared:
            self.add_violation(f"process {self.number} is complete, and txid {self.witness.in_commit} is not saved as committed")
        return outcome

    def on_start(self, run: Run) -> None:
        self.components.run = run
        watch_runners(run, self.plan.most_open, self.findings)

    def on_complete(self) -> None:
        self.witness.violations += self.findings

    def kill_process(self) -> None:
        self.witness.is_deaf = self.components.is_dead = True
        super().kill_process()

    def kind_of(self, component_id: str) -> str:
        return KINDS.get(component_id, "bolt")

    def is_expected(self, text: str) -> bool:
        store_away = "close() did not return" in text and self.store_may_fail
        slow_source = "its emission did not return" in text and self.plan.source_is_slow and self.plan.config.batch_timeout_secs <= 60
        return store_away or slow_source or any(name in text for name in EXPECTED_ERRORS)


def simulate(seed: int, *, is_calm: bool | None = None, quiet: bool = True) -> Simulated:
    """Simulate the plan of a seed.

    `is_calm` means without faults; by default one run in ten is calm. `quiet` turns the engine's log off.
    """
    return judged(Simulation(draw_plan(seed, is_calm=is_calm)), quiet=quiet)


def judged(simulation: Simulation, *, quiet: bool) -> Simulated:
    """Simulate, and judge also the warnings of the engine."""
    with report_complaints(simulation.witness.add_violation, quiet=quiet):
        simulated = simulation.simulate()
    if "killed" in simulated.outcomes:  # such a process leaves unfinished coroutines
        simulated.violations[:] = [each for each in simulated.violations if not each.startswith("LeftoverTaskWarning")]
    return simulated
