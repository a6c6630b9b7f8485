"""Simulates one flow with windows under the virtual clock, through all its processes, and compares it with a plain computation."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from engine.checkpoint.machine import Record
from engine.names import CHECKPOINT_COMPONENT
from engine.state.codec import DELETED, MessagePack
from engine.state.delta import decode_blob
from engine.state.namespaces import name_of, stored_prefix
from engine.streams.window_bolt import PROGRESS
from engine.streams.windows import RevisedSessionWindows, RevisedTimeWindows, Session
from engine.streams.windows.panes import TimeWindows
from engine.streams.windows.sessions import SessionWindows
from engine.testing import ACKER, RaiseError
from tests.checkpoint import process
from tests.checkpoint.committer_world import NO_FAULTS, CommitterPlan, Target
from tests.checkpoint.process import Outcome
from tests.checkpoint.simulate import EXPECTED_ERRORS, small_folds
from tests.checkpoint.slow_store import Disk
from tests.checkpoint.world import Chance
from tests.simulation.complaints import report_complaints
from tests.streams.random_windows.judge import (
    judge_exact,
    judge_inexact,
    judge_once,
    judge_revisions,
    judge_second,
    judge_verdicts,
    newest,
    parsed,
)
from tests.streams.random_windows.plan import Plan, ProcessPlan, draw_plan
from tests.streams.random_windows.program import Program, Seen

SINKS: Final = ("out", "late", "failed", "out2", "late2")
WITHOUT_CHECKSUM: Final = slice(1, -4)
"""Part of each stored blob."""


@dataclass
class Simulated(process.Simulated):
    """Result of one simulated flow."""

    subject = "windows"
    module = "tests.streams.random_windows"
    cuts: int = 0
    """Committed checkpoints."""
    results: int = 0
    late: int = 0


class Simulation:
    """A flow, its disk, and what its sinks got."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.disk = Disk()
        self.simulated = Simulated(plan.seed)
        self.add_violation = self.simulated.violations.append
        self.record = Record()
        self.seen = Seen()
        self.targets: dict[str, Target] = {}
        draws = random.Random(f"{plan.seed} sinks")
        for name in SINKS if plan.is_exact else ():
            kind: Any = draws.choice(["rows", "rows", "pieces"])
            self.targets[name] = Target(CommitterPlan(kind, {}, 0, 0), lambda: self.record, self.add_violation)
        self.disk.on_written = self._on_written

    def add_complaint(self, text: str) -> None:
        """Add a complaint of Python. The end of a killed process leaves generators of its store open, which the garbage collector ends."""
        if "killed" not in self.simulated.outcomes or not text.startswith("LeftoverTaskWarning"):
            self.add_violation(text)

    def lines(self, name: str) -> list[str]:
        """Return what a sink has got."""
        if name in self.targets:
            return list(self.targets[name].counted().elements())
        return self.seen.lines.get(name, [])

    def _on_written(self, entries: dict[str, object]) -> None:
        if "record" not in entries:
            return
        phase, txid, round_, prepared_round, counted = entries["record"]  # type: ignore[misc]
        before = self.record.phase
        self.record = Record(phase, txid, round_, prepared_round, tuple((each[0], each[1]) for each in counted))
        self.simulated.cuts += phase == "committing" != before
        if phase == "committed" and before == "committing" and self.plan.is_exact:
            results = parsed(self.lines("out"))
            faults = [*judge_revisions(self.plan, results)] if self.plan.updates else [*judge_once("first", results)]
            if not self.plan.updates:
                faults += judge_verdicts(results, [int(line) for line in self.lines("late")])
            self.simulated.violations += [f"after the commit of {txid}: {fault}" for fault in faults]

    def simulate(self) -> Simulated:
        """Run all processes, and judge the final state."""
        simulated = self.simulated
        for number, process_plan in enumerate(self.plan.processes):
            outcome = Process(self, process_plan, number).simulate()
            simulated.outcomes.append(outcome)
            if outcome in ("complete", "unfinished"):
                break
        if simulated.outcomes[-1] != "complete":
            simulated.violations.append(f"the flow is not complete: {simulated.outcomes}")
        else:
            simulated.violations += self._judge()
        return simulated

    def _judge(self) -> Iterator[str]:
        results = parsed(self.lines("out"))
        late = [int(line) for line in self.lines("late")]
        self.simulated.results, self.simulated.late = len(results), len(late)
        if self.plan.is_exact:
            if self.plan.updates:
                yield from judge_revisions(self.plan, results)
            yield from judge_exact(self.plan, newest(results), late, [int(line) for line in self.lines("failed")])
            if self.plan.second is not None and not (self.plan.updates and isinstance(self.plan.spec, Session) and self.plan.unbound):
                finals = [each for each in results if "final" in each] if self.plan.updates else results
                yield from judge_second(self.plan, [each[:4] for each in finals], parsed(self.lines("out2")))
        else:
            yield from judge_inexact(self.plan, results, late)
        sent_once = self.plan.is_exact or not any(source.after_deaths for source in self.plan.sources)
        if sent_once and (late_results := self.lines("late2")):
            yield f"results of the first windows are late for the second ones (ET-5): {late_results}"
        for component_id in ("first", "second")[bool(self.plan.updates.get("allowed_lateness")) :]:  # the end keeps what may still change
            if left := names_left(self.disk, component_id, self.record):
                yield f"at the end the state of {component_id!r} has namespaces {left} (WI-6)"


def names_left(disk: Disk, component_id: str, record: Record) -> list[Any]:
    """Return the namespaces with keys in the committed state of windows, except for their progress. Read without the engine's states."""
    codec, keys = MessagePack(), set()
    for owner, _, key in disk.rows:
        if owner == component_id:
            prefix = stored_prefix(key)
            keys.add((name_of(prefix), codec.decode(key[len(prefix) :])))
    for (owner, _, txid, round_), blobs in sorted(disk.deltas.items(), key=lambda each: each[0][2]):
        if owner != component_id or not record.is_committed(txid, round_):
            continue
        for part in (part for blob in blobs for part in decode_blob(blob[WITHOUT_CHECKSUM], codec)):
            if part.drops:
                keys = {each for each in keys if each[0] != part.name}
            for key, value in zip(part.keys, part.values, strict=True):
                (keys.discard if value is DELETED else keys.add)((part.name, key))
    return sorted({str(name) for name, _ in keys} - {PROGRESS})


class Process(process.Process):
    """One process of a flow."""

    limit_secs = 50_000.0

    def __init__(self, simulation: Simulation, plan: ProcessPlan, number: int) -> None:
        super().__init__(plan, number, simulation.simulated, simulation.add_violation)
        self.simulation, self.plan = simulation, plan

    def simulate(self) -> Outcome:
        """Run the process; return how it ended."""
        simulation, plan = self.simulation, self.plan
        for source in simulation.plan.sources:
            source.is_gone = False
        chance = Chance(random.Random(f"{simulation.plan.seed} chance {self.number}"), plan.fails, plan.waits)
        for name, target in simulation.targets.items():
            draws = random.Random(f"{simulation.plan.seed} {name} {self.number}")
            target.begins(draws, chance, self.conditions, replace(NO_FAULTS, fails=plan.target_fails))
        program = Program(
            simulation.plan, plan, chance, simulation.targets, simulation.seen, lambda: self.conditions.is_dead, plan.sink_fails
        )
        topology = program.build()
        self._known = {*topology.components, ACKER, CHECKPOINT_COMPONENT}
        faults = [fault for fault in plan.faults if isinstance(fault, RaiseError) and fault.component_id in self._known]
        outcome = self.play(topology, simulation.disk, resident=simulation.plan.resident, faults=faults)
        self._leave_sources()
        return outcome

    def kill_later(self, component_id: str, task_index: int) -> None:
        if self.run is not None and component_id in self._known:
            super().kill_later(component_id, task_index)

    def kill_process(self) -> None:
        super().kill_process()
        self._leave_sources()

    def _leave_sources(self) -> None:
        for source in self.simulation.plan.sources:
            source.is_gone = True

    def kind_of(self, component_id: str) -> str:
        return component_id

    def is_expected(self, text: str) -> bool:
        return self.conditions.is_dead or any(name in text for name in (*EXPECTED_ERRORS, "ByChance", "checkpoint_timeout_secs"))


@contextmanager
def small_slices(size: int) -> Iterator[None]:
    """Let windows close in slices of this size."""
    revised = (RevisedTimeWindows, RevisedSessionWindows)
    methods: list[Any] = [kind.close for kind in (TimeWindows, SessionWindows, *revised)] + [kind.updates for kind in revised]
    before = [method.__defaults__ for method in methods]
    for method in methods:
        method.__defaults__ = (size,)
    try:
        yield
    finally:
        for method, defaults in zip(methods, before, strict=True):
            method.__defaults__ = defaults


def simulate(seed: int, *, is_calm: bool | None = None, is_exact: bool | None = None, quiet: bool = True) -> Simulated:
    """Simulate the plan of a seed. `is_calm` means without faults. `quiet` turns the engine's log off."""
    simulation = Simulation(draw_plan(seed, is_calm=is_calm, is_exact=is_exact))
    with (
        small_folds(simulation.plan.fold_txids),
        small_slices(simulation.plan.slice),
        report_complaints(simulation.add_complaint, quiet=quiet),
    ):
        simulated = simulation.simulate()
    simulated.options = "" if is_exact is None else " --exact" if is_exact else " --inexact"
    return simulated
