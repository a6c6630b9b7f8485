"""Simulates one topology with state under the virtual clock, through all its processes. A model checks it."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

from engine import Run
from engine.checkpoint.checkpoints import LEDGER
from engine.checkpoint.stored_positions import owed_name
from engine.event_time import END_OF_TIME
from engine.state import layered
from engine.testing import ACKER
from tests.checkpoint import process
from tests.checkpoint.child_world import ChildChance, ChildWitness, events_to
from tests.checkpoint.committer_world import NAME, Target
from tests.checkpoint.judge import judge_ack, judge_counts, judge_cuts, judge_target
from tests.checkpoint.model import BarrierModel, Witness
from tests.checkpoint.plan import Plan, ProcessPlan, draw_plan
from tests.checkpoint.process import Outcome
from tests.checkpoint.process_plan import draw_process_plan
from tests.checkpoint.slow_store import Disk
from tests.checkpoint.world import BoltPlan, Chance, World
from tests.simulation.child_kills import ChildKills, children_left, impatient_loops
from tests.simulation.complaints import report_complaints

EXPECTED_ERRORS: Final = ("InjectedError", "ChildError", "StateUnavailable", "was killed", "restarted by request", "TargetError")


@dataclass
class Simulated(process.Simulated):
    """Result of one simulated topology."""

    subject = "state"
    module = "tests.checkpoint"
    cuts: int = 0
    """Number of committed checkpoints."""
    rolled_back: int = 0
    """Number of states that were compared after a ROLLBACK."""
    replayed: int = 0
    owed: int = 0
    """Number of owed rows in committed records. A row counts once for each of them."""
    published: int = 0
    """Number of rows that a committer has published."""
    resumed: int = 0
    """Number of processes of a topology with a committer that began in COMMITTING."""


class Simulation:
    """A topology, its disk, and the model that checks it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world: World = plan.world
        self.disk = Disk()
        self.model = BarrierModel(self.disk, LEDGER)
        self.target = Target(plan.committer, lambda: self.model.record, self.model.add_violation) if plan.committer else None
        self.simulated = Simulated(plan.seed, violations=self.model.violations)
        self.late: list[str] = []
        """Messages that a watermark has passed, since the last rollback."""
        self.late_before_barrier: list[str] = []
        self.model.on_rollback = self._forget_late
        self._check_written, self.disk.on_written = self.disk.on_written, self._note_written

    def _forget_late(self) -> None:
        """Forget messages whose effects are rolled back."""
        self.late.clear()
        self.late_before_barrier.clear()

    def note_late(self, message: str | None, text: str) -> None:
        """Note a message that a watermark has passed, or a watermark that falls (None)."""
        if message is None or not any(message in source.repeated for source in self.world.sources):
            self.late.append(text)

    def _note_late(self, phase: str) -> None:
        """Blame the watermark for the messages of before the barrier, when they are committed."""
        if phase == "committing":
            self.model.violations += self.late_before_barrier
            self.late_before_barrier.clear()
        else:
            self.late_before_barrier += self.late
            self.late.clear()

    def _note_written(self, entries: dict[str, object]) -> None:
        """Count the owed rows of a record, let the model check it, and judge the target as soon as all tasks have published."""
        before = self.model.record.phase
        self._check_written(entries)
        if before == "committing" and self.target is not None and not self.target.is_map:
            self.judge_target()
        self._note_late(entries["record"][0])  # type: ignore[index]
        if entries["record"][0] == "committing":  # type: ignore[index]
            owed = [rows for name, rows in entries.items() if name.startswith(owed_name(""))]
            self.simulated.owed += sum(len(rows) for rows in owed)  # type: ignore[arg-type, misc]

    def judge_target(self) -> None:
        """Judge what the target has, unless some tasks have published and others have not."""
        if self.target is not None and self.model.record.phase != "committing":
            violations = judge_target(self.world, self.target, self.disk.ledgers.get(LEDGER, {}))
            self.model.violations += [f"after the commit of {self.model.last_cut.txid} {each}" for each in violations]

    def _judge_staged(self) -> Iterator[str]:
        """At the end no output of a commit is staged. There may be some of a PREPARE that never counted."""
        for component_id, index, txid, round_ in self.disk.deltas:
            if component_id == NAME and self.model.record.is_committed(txid, round_):
                yield f"the output of task {index} for {txid}, round {round_}, is still staged"

    def simulate(self) -> Simulated:
        """Run all processes, and judge the final state."""
        simulated = self.simulated
        for number, process_plan in enumerate(self.plan.processes):
            simulated.resumed += self.target is not None and self.model.record.phase == "committing"
            outcome = Process(self, process_plan, number).simulate()
            simulated.outcomes.append(outcome)
            self.judge_target()
            if outcome in ("complete", "unfinished"):
                break
        simulated.cuts, simulated.rolled_back = len(self.model.cuts), self.model.rolled_back
        simulated.replayed = sum(len(source.replayed) for source in self.world.sources)
        simulated.published = self.target.counted().total() if self.target is not None else 0
        if simulated.outcomes[-1] != "complete":
            simulated.violations.append(f"the topology is not complete: {simulated.outcomes}")
        else:
            simulated.violations += [*judge_counts(self.world, self.model), *judge_cuts(self.world, self.model.cuts)]
            simulated.violations += [*self._judge_staged(), *self.late_before_barrier, *self.late]
        if self.plan.is_calm and simulated.replayed:
            simulated.violations.append("nothing went wrong, and messages were replayed")
        return simulated


class Process(process.Process):
    """One process of a topology with state."""

    limit_secs = 50_000.0

    def __init__(self, simulation: Simulation, plan: ProcessPlan, number: int) -> None:
        super().__init__(plan, number, simulation.simulated, simulation.model.add_violation)
        self.simulation, self.plan = simulation, plan
        self.world, self.model = simulation.world, simulation.model

    def simulate(self) -> Outcome:
        """Run the process; return how it ended."""
        simulation, plan = self.simulation, self.plan
        self.model.begins(self.world.layouts(plan.tasks, plan.config.key_groups))
        for source in self.world.sources:
            source.is_gone = False
            source.on_acked = self.judge_ack
        chance = Chance(random.Random(f"{simulation.plan.seed} chance {self.number}"), plan.fails, plan.waits)
        chance.on_late = simulation.note_late
        if plan.fails_early:
            chance.early = random.Random(f"{simulation.plan.seed} early failures {self.number}")
        builder = self.world.builder(lambda bolt: self.tools_of(bolt, chance), plan.tasks)
        if simulation.target is not None:
            draws = random.Random(f"{simulation.plan.seed} target {self.number}")
            simulation.target.begins(draws, chance, self.conditions, plan.of_committer)
            simulation.target.declare(builder, plan.tasks[NAME])
        topology = builder.build()
        outcome = self.play(topology, simulation.disk, resident=simulation.plan.resident, faults=plan.faults)
        if self.run is not None:
            self.model.check_disk()
            if outcome == "complete" and all(source.is_timed for source in self.world.sources):
                self._judge_ends(chance)
        if left := children_left(topology.name):
            self.add_violation(f"process {self.number}: these children outlive the run: {left}")
        self._leave_sources()
        return outcome

    def _judge_ends(self, chance: Chance) -> None:
        """At the end of all sources each task has told its last instance so (ET-3)."""
        for name, watermark in chance.watermarks.items():
            if watermark != END_OF_TIME:
                self.add_violation(f"{name} ends with the watermark {watermark} (ET-3)")

    def tools_of(self, bolt: BoltPlan, chance: Chance) -> tuple[Witness, Chance]:
        """Return the witness and the chance of a bolt."""
        if not bolt.processes:
            return self.model, chance
        own = ChildChance(chance, self.plan.crash)
        return ChildWitness(own), own

    async def _script(self, run: Run) -> None:
        """Kill children, and restart tasks, beside all other faults."""
        kills = ChildKills(self.plan.child_kills, self.plan.restarts)
        playing = asyncio.ensure_future(kills.play(run))
        try:
            await super()._script(run)
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
            self.simulated.strikes.update(kills.killed)

    def judge_ack(self, message: str) -> None:
        """Check that the message is committed."""
        self.model.violations += judge_ack(self.world, self.model.last_cut, message)

    def kill_process(self) -> None:
        super().kill_process()
        self._leave_sources()

    def _leave_sources(self) -> None:
        for source in self.world.sources:
            source.is_gone = True

    def kind_of(self, component_id: str) -> str:
        return "acker" if component_id == ACKER else component_id.rstrip("0123456789")

    def is_expected(self, text: str) -> bool:
        return self.conditions.is_dead or any(name in text for name in EXPECTED_ERRORS)


@contextmanager
def small_folds(txids: int) -> Iterator[None]:
    """Let states fold after few checkpoints, and at a start with more of them."""
    before = layered.FOLD_TXIDS, layered.MOST_TAKEN_UP
    layered.FOLD_TXIDS = layered.MOST_TAKEN_UP = txids  # type: ignore[misc]
    try:
        yield
    finally:
        layered.FOLD_TXIDS, layered.MOST_TAKEN_UP = before  # type: ignore[misc]


def simulate(seed: int, *, is_calm: bool | None = None, processes: bool = False, quiet: bool = True) -> Simulated:
    """Simulate the plan of a seed.

    `is_calm` means without faults; by default one run in five is calm. `quiet` turns the engine's log off.
    With `processes`, some bolts are in child processes. Then the seed repeats the plan, and the schedule only nearly.
    """
    simulation = Simulation((draw_process_plan if processes else draw_plan)(seed, is_calm=is_calm))
    simulation.simulated.options = " --processes" if processes else ""
    add_violation = simulation.model.add_violation
    with (
        small_folds(simulation.plan.fold_txids),
        report_complaints(add_violation, quiet=quiet),
        events_to(simulation.model),
        impatient_loops() if processes else nullcontext(),
    ):
        return simulation.simulate()
