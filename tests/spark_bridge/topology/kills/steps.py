"""Kill points of an engine whose processing phase runs on Spark: those of one process, and those around a job."""

from collections.abc import Iterator
from typing import Any, Final

from tests.kills.moments import after, before, in_flight
from tests.transactional.kills.combinations import Combination
from tests.transactional.kills.steps import STEPS as IN_ONE_PROCESS
from tests.transactional.kills.steps import TransactionStep, opaque

_RUNNER: Final = "spark_bridge.topology.job_runner:JobRunner"
_RESULTS: Final = "spark_bridge.topology.result_runner:ResultRunner"
_LEVEL: Final = "spark_bridge.topology.level_run:LevelRun"
_EMITTERS: Final = "spark_bridge.topology.local_emitters:LocalEmitters"


def planned(combination: Combination) -> bool:
    """Accept combinations whose batches are planned, so that executors emit them."""
    return not combination.is_opaque


def results_of(component: str, task: int | None = None) -> Any:
    """Return a filter for the results of this component, or of one task of it."""
    return lambda runner, *rest: runner.context.component_id == component and task in (None, runner.context.task_index)


def at_level(level: int) -> Any:
    """Return a filter for partitions of this level."""
    return lambda run, *rest: run.status.level == level


def _job_steps() -> Iterator[TransactionStep]:
    yield TransactionStep("job: before its folder is made", f"{_RUNNER}._make_folder", before)
    yield TransactionStep("job: before planning", f"{_RUNNER}._plan", before, where=planned)
    yield TransactionStep("job: planned, not called", f"{_RUNNER}._plan", after, where=planned)
    yield TransactionStep("job: before emitters here emit", f"{_EMITTERS}.emit", before, where=opaque)
    yield TransactionStep("job: emitters here are emitting", f"{_EMITTERS}.emit", in_flight, where=opaque)
    yield TransactionStep("job: emitters here have emitted, not called", f"{_EMITTERS}.emit", after, where=opaque)
    yield TransactionStep("job: before it is called", f"{_RUNNER}._call_spark", before)
    yield TransactionStep("job: called, in flight", f"{_RUNNER}._call_spark", in_flight)
    yield TransactionStep("job: returned, nothing settled", f"{_RUNNER}._call_spark", after)
    yield TransactionStep("job: before it is settled", f"{_RUNNER}._settle", before)
    yield TransactionStep("job: settled, results sent", f"{_RUNNER}._settle", after)


def _result_steps() -> Iterator[TransactionStep]:
    yield TransactionStep("results: before they are emitted", f"{_RESULTS}._emit", before, results_of("partial"))
    yield TransactionStep("results: read, not emitted", f"{_RESULTS}._emit_block", before, results_of("partial"))
    yield TransactionStep("results: a block emitted, not reported", f"{_RESULTS}._emit_block", after, results_of("partial"))
    yield TransactionStep("results: one task reported", f"{_RESULTS}._emit", after, results_of("partial", 1))


LEVEL_STEPS: Final = tuple(
    TransactionStep(f"level {level}: {name}", f"{_LEVEL}.{method}", moment, at_level(level), planned if level == 0 else opaque)
    for level in (0, 1)
    for name, method, moment in (("opened", "open", after), ("finished", "finish", after), ("closed, nothing passed on", "close", after))
)
"""Steps inside of a partition. Without a JVM, partitions run in the engine's process, which dies with them."""

JOB_STEPS: Final = {step.name: step for steps in (_job_steps(), _result_steps()) for step in steps}
"""Steps of the engine's process around a job."""

COMMITTING: Final = ("words: ", "total: ", "mirror: ", "sqlite: ", "redis: ", "postgres: ")
"""Beginnings of the names of steps in committers and stores. Spark has no part in them."""
STEPS: Final = {**IN_ONE_PROCESS, **JOB_STEPS, **{step.name: step for step in LEVEL_STEPS}}
"""All steps of an engine with levels in its own process."""
