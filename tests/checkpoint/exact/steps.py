"""Kill points of a process with exact sources: the steps of a checkpoint, of a start and of a rollback."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.kills.moments import after, before, in_flight
from tests.kills.steps import Step, every


@dataclass(frozen=True)
class ExactStep(Step):
    """A step, and what leads to it."""

    sources: tuple[str, ...] = ()
    """Sources that reach it. None: all."""
    needs_failures: bool = False
    """True if a process reaches it only after a row has failed."""


# Filters of calls


def of_phase(phase: str) -> Callable[..., bool]:
    """Return a filter for records of this phase that are saved behind a step."""
    return lambda checkpoints: checkpoints.machine.record.phase == phase and checkpoints.begun


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
_SOURCE: Final = "engine.checkpoint.sources:SourceTask"
_CHECKPOINTS: Final = "engine.checkpoint.checkpoints:Checkpoints"
_HANDLER: Final = "engine.checkpoint.barrier_handler:StatefulBarrierHandler"
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
    yield ExactStep("position: taken, before the barrier", f"{_SOURCES}.note_taken", after)
    yield ExactStep("barrier: sent", f"{_SOURCE}.prepare", after)
    yield ExactStep("barrier: has arrived", f"{_HANDLER}._prepare", before)
    yield ExactStep("delta: before it is staged", f"{_STATE}.write_frozen", before, has_changes)
    yield ExactStep("delta: while it is staged", f"{_STATE}.write_frozen", in_flight, has_changes)
    yield ExactStep("delta: staged", f"{_STATE}.write_frozen", after)


def _commit_steps() -> Iterator[ExactStep]:
    yield ExactStep("record: before COMMITTING", f"{_CHECKPOINTS}.save", before, of_phase("committing"))
    yield ExactStep("record: in COMMITTING", f"{_CHECKPOINTS}.save", in_flight, of_phase("committing"))
    yield ExactStep("record: COMMITTING", f"{_CHECKPOINTS}.save", after, of_phase("committing"))
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


STEPS: Final = {step.name: step for steps in (_start_steps, _prepare_steps, _commit_steps, _rollback_steps) for step in steps()}


def steps_of(source: str) -> list[ExactStep]:
    """Return the steps that a source reaches."""
    return [step for step in STEPS.values() if not step.sources or source in step.sources]
