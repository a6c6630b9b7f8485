"""Kill points of a process with exact sources: the steps of a checkpoint, of a start and of a rollback."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from engine.checkpoint import machine
from tests.kills.moments import after, before, in_flight
from tests.kills.steps import Step, every


@dataclass(frozen=True)
class ExactStep(Step):
    """A step, and what leads to it."""

    sources: tuple[str, ...] = ()
    """Sources that reach it. None: all."""
    needs_failures: bool = False
    """True if a process reaches it only after a row has failed."""
    needs_owed_rows: bool = False
    """True if a process reaches it only after rows have failed again and again before any state."""
    is_of_output: bool = False
    """True if only topologies with a committer reach it."""
    is_of_before: bool = False
    """True if a process reaches it only after one that died in COMMITTING, with another number of committers."""


# Filters of calls


def of_phase(phase: str) -> Callable[..., bool]:
    """Return a filter for records of this phase that are saved behind a step."""
    return lambda checkpoints: checkpoints.machine.record.phase == phase and checkpoints.begun


def at_the_commit(checkpoints: Any) -> bool:
    """Tell whether a record is saved that makes a checkpoint count. A recovery saves COMMITTING, too."""
    return checkpoints.machine.step is machine.Step.COMMIT


def owes_rows(sources: Any, *rest: Any) -> bool:
    """Tell whether rows wait that the running PREPARE leaves out."""
    return any(task.retries._owed for task in sources.tasks)


def has_taken_rows(sources: Any, *rest: Any) -> bool:
    """Tell whether the running PREPARE leaves rows out."""
    return any(sources.owed._taken.values())


def commits_owed_rows(checkpoints: Any) -> bool:
    """Tell whether a record is saved that has owed rows, and makes a checkpoint count."""
    return at_the_commit(checkpoints) and has_taken_rows(checkpoints.sources)


def has_changes(state: Any) -> bool:
    """Tell whether a state has changes to write."""
    return bool(state.frozen_changes)


def in_rollback(executor: Any, *rest: Any) -> bool:
    """Tell whether an executor takes part in a rollback."""
    return executor._rollback is not None


def source_in_rollback(source: Any, *rest: Any) -> bool:
    """Tell whether the task of a source takes part in a rollback."""
    return source._port._task._rollback is not None


def state_in_rollback(handler: Any, *rest: Any) -> bool:
    """Tell whether a state goes back because of a failure, not at the start of the run."""
    return bool(handler._checkpoints.snapshot().recoveries)


_SOURCES: Final = "engine.checkpoint.sources:Sources"
_SOURCE: Final = "engine.checkpoint.source_task:SourceTask"
_RETRIES: Final = "engine.checkpoint.row_retries:RowRetries"
_CHECKPOINTS: Final = "engine.checkpoint.checkpoints:Checkpoints"
_HANDLER: Final = "engine.checkpoint.barrier_handler:StatefulBarrierHandler"
_OUTPUT: Final = "engine.checkpoint.output_handler:OutputHandler"
_STAGED: Final = "engine.checkpoint.staged_output:StagedOutputs"
_INTERVALS: Final = "engine.transactional.interval_bolt:IntervalBolt"
_STATE: Final = "engine.state.layered:LayeredState"
_BOLT: Final = "engine.runtime.bolt_executor:BoltExecutor"
_SPOUT: Final = "engine.runtime.spout_executor:SpoutExecutor"
_COMMITTED: Final = {"class": "tests.checkpoint.exact.topology:Numbers", "files": "engine.files.spout:FileSpout"}


def _start_steps() -> Iterator[ExactStep]:
    yield ExactStep("start: before the record is read", f"{_CHECKPOINTS}.open", before)
    yield ExactStep("start: the outcome is decided", f"{_CHECKPOINTS}.open", after)
    yield ExactStep("start: before a source seeks", f"{_SOURCE}.begin", before)
    yield ExactStep("start: a source has sought", f"{_SOURCE}.begin", after)
    yield ExactStep("start: a state is restored", f"{_HANDLER}._recover", after)


def _prepare_steps() -> Iterator[ExactStep]:
    yield ExactStep("record: before PREPARING", f"{_CHECKPOINTS}.save", before, of_phase("preparing"))
    yield ExactStep("record: PREPARING", f"{_CHECKPOINTS}.save", after, of_phase("preparing"))
    yield ExactStep("position: before it is taken", f"{_SOURCE}.prepare", before)
    yield ExactStep("position: taken, before the barrier", "engine.checkpoint.positions:Positions.note_taken", after)
    yield ExactStep("barrier: sent", f"{_SOURCE}.prepare", after)
    yield ExactStep("barrier: has arrived", f"{_HANDLER}._prepare", before)
    yield ExactStep("delta: before it is staged", f"{_STATE}.write_frozen", before, has_changes)
    yield ExactStep("delta: while it is staged", f"{_STATE}.write_frozen", in_flight, has_changes)
    yield ExactStep("delta: staged", f"{_STATE}.write_frozen", after)


def _commit_steps() -> Iterator[ExactStep]:
    yield ExactStep("record: before COMMITTING", f"{_CHECKPOINTS}.save", before, at_the_commit)
    yield ExactStep("record: in COMMITTING", f"{_CHECKPOINTS}.save", in_flight, at_the_commit)
    yield ExactStep("record: COMMITTING", f"{_CHECKPOINTS}.save", after, at_the_commit)
    yield ExactStep("pre_commit: before", f"{_HANDLER}._tell_of_commit", before)
    yield ExactStep("pre_commit: after", f"{_HANDLER}._tell_of_commit", after)
    yield ExactStep("state: before the commit", f"{_STATE}.commit", before)
    yield ExactStep("state: committed", f"{_STATE}.commit", after)
    yield ExactStep("record: before COMMITTED", f"{_CHECKPOINTS}.save", before, of_phase("committed"))
    yield ExactStep("record: COMMITTED", f"{_CHECKPOINTS}.save", after, of_phase("committed"))
    yield ExactStep("sources: before the news", f"{_SOURCES}.note_committed", before)
    for source, owner in _COMMITTED.items():
        yield ExactStep(f"committed() of {source}: before", f"{owner}.committed", before, every, (source,))
        yield ExactStep(f"committed() of {source}: after", f"{owner}.committed", after, every, (source,))


def _rollback_steps() -> Iterator[ExactStep]:
    for name, target, moment, counts in (
        ("ordered", "engine.runtime.rollback:Rollback.run", before, every),
        ("all tasks have stopped", f"{_BOLT}.drop_inputs", before, every),
        ("one queue is dropped", f"{_BOLT}.drop_inputs", after, every),
        ("all queues are dropped", f"{_SPOUT}.fail_open_trees", before, every),
        ("trees have failed", f"{_SPOUT}.fail_open_trees", after, every),
        ("before an instance is made", f"{_BOLT}._make_instance", before, in_rollback),
        ("an instance is made", f"{_BOLT}._make_instance", after, in_rollback),
        ("before a source seeks", f"{_SOURCE}.begin", before, source_in_rollback),
        ("a source has sought", f"{_SOURCE}.begin", after, source_in_rollback),
        ("before a state goes back", f"{_HANDLER}._recover", before, state_in_rollback),
        ("a state is back", f"{_HANDLER}._recover", after, state_in_rollback),
    ):
        yield ExactStep(f"rollback: {name}", target, moment, counts, (), needs_failures=True)


def _owed_steps() -> Iterator[ExactStep]:
    sources = ("class", "generator", "repeatable")  # a pack of flow control is never owed, and bursts seldom
    for name, target, moment, counts in (
        ("before they are taken", f"{_SOURCES}.take_owed", before, owes_rows),
        ("taken", f"{_SOURCES}.take_owed", after, has_taken_rows),
        ("before their record", f"{_CHECKPOINTS}.save", before, commits_owed_rows),
        ("in their record", f"{_CHECKPOINTS}.save", in_flight, commits_owed_rows),
        ("behind their record", f"{_CHECKPOINTS}.save", after, commits_owed_rows),
        ("before one is emitted again", f"{_RETRIES}._emit", before, every),
        ("one is emitted again", f"{_RETRIES}._emit", after, every),
    ):
        yield ExactStep(f"owed rows: {name}", target, moment, counts, sources, needs_owed_rows=True)


def _output_steps() -> Iterator[ExactStep]:
    for name, target, moment in (
        ("output: before it is staged", f"{_OUTPUT}._freeze", before),
        ("output: it is frozen", f"{_OUTPUT}._freeze", after),
        ("output: before its delta is staged", f"{_STAGED}.stage", before),
        ("output: while its delta is staged", f"{_STAGED}.stage", in_flight),
        ("output: its delta is staged", f"{_STAGED}.stage", after),
        ("publish: before", f"{_INTERVALS}.publish", before),
        ("publish: in the middle", f"{_INTERVALS}.publish", in_flight),
        ("publish: after", f"{_INTERVALS}.publish", after),
        ("output: before it is dropped", f"{_STAGED}.drop", before),
        ("output: while it is dropped", f"{_STAGED}.drop", in_flight),
        ("output: it is dropped", f"{_STAGED}.drop", after),
        ("start: before the targets are compared", f"{_OUTPUT}._compare_txids", before),
        ("start: a target is compared", f"{_OUTPUT}._compare_txids", after),
    ):
        yield ExactStep(name, target, moment, every, is_of_output=True)
    for name, moment in (("before", before), ("in the middle", in_flight), ("after", after)):
        yield ExactStep(f"publish for a task of before: {name}", f"{_INTERVALS}._publish_for", moment, is_of_output=True, is_of_before=True)


COMMITTING: Final = "record: COMMITTING"
_GROUPS: Final = (_start_steps, _prepare_steps, _commit_steps, _rollback_steps, _owed_steps, _output_steps)
STEPS: Final = {step.name: step for steps in _GROUPS for step in steps()}


def steps_of(source: str) -> list[ExactStep]:
    """Return the steps that a source reaches, without those of committers."""
    return [step for step in STEPS.values() if (not step.sources or source in step.sources) and not step.is_of_output]


def output_steps(kind: str) -> list[ExactStep]:
    """Return the steps of a kind of committers, and those at which the record changes."""
    steps = [step for step in STEPS.values() if step.is_of_output or step.name.startswith("record: ")]
    return [step for step in steps if not (step.is_of_before and kind == "spark")]  # which has one task in all processes
