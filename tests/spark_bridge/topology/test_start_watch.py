"""A job of which Spark starts no task fails its attempt, after a warning (CL-3)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine import Config
from spark_bridge.process import SparkConfig, SparkError
from spark_bridge.topology import cluster_run
from spark_bridge.topology.job import Job
from spark_bridge.topology.start_watch import SparkStartsNothing, StartWatch, Waiting
from tests.servers import spark_cluster
from tests.servers.spark_fixtures import NewSparkCluster
from tests.spark_bridge.spark_fixtures import until
from tests.spark_bridge.topology.both_engines import Committed, play
from tests.spark_bridge.topology.local_jobs import LocalJobs
from tests.spark_bridge.topology.test_failures import Adds, numbers

EXPECTED = [(number + 2,) for number in range(40)]
WAITING = Waiting(0, "8g", others_run=False)


class Now:
    """A clock for the tests."""

    secs = 100.0

    def now(self) -> float:
        return self.secs


def watched(limit_secs: float) -> tuple[StartWatch, Now, list[SparkStartsNothing]]:
    clock, warnings = Now(), list[SparkStartsNothing]()
    return StartWatch(clock, limit_secs, lambda: "http://here:4040", warnings.append), clock, warnings  # type: ignore[arg-type]


@pytest.mark.guarantee("CL-3")
def test_a_warning_comes_once_and_then_the_error() -> None:
    watch, clock, warnings = watched(600)
    for secs in (0, 14, 1, 1, 583):
        clock.secs += secs
        watch.on_event(WAITING)
    [warning] = warnings
    assert "has not started a task of the batch for 15 s (the limit is 600 s, batch_timeout_secs)" in str(warning)
    assert "It has no executors, and asks for executors with 8g of memory" in str(warning)
    assert "http://here:4040" in str(warning)
    clock.secs += 1
    with pytest.raises(SparkStartsNothing, match=r"for 600 s \(batch_timeout_secs\)"):
        watch.on_event(WAITING)


def test_a_job_that_waits_for_tasks_of_other_jobs_may_wait_longer() -> None:
    watch, clock, warnings = watched(20)
    watch.on_event(WAITING)
    for _ in range(10):
        clock.secs += 15
        watch.on_event(Waiting(2, "1g", others_run=True))
    clock.secs += 9
    watch.on_event(WAITING)
    assert not warnings


def test_the_time_of_an_earlier_call_does_not_count() -> None:
    watch, clock, warnings = watched(20)
    watch.on_event(WAITING)
    clock.secs += 19
    watch.begin()
    watch.on_event(WAITING)
    assert not warnings


@pytest.mark.asyncio
@pytest.mark.guarantee("CL-3")
async def test_a_batch_that_waits_is_warned_about_and_fails_and_is_replayed() -> None:
    class StartsLate(LocalJobs):
        async def call(self, function: Any, job: Job, **options: Any) -> Any:
            if self.jobs == 0:
                self.jobs += 1
                while True:
                    options["on_event"](WAITING)
                    await asyncio.sleep(0)
            return await super().call(function, job)

    played = await play(lambda committed: numbers(committed, Adds), jobs=StartsLate(), batch_timeout_secs=1)
    assert played.committed.rows() == EXPECTED
    warning, error = played.errors
    assert "(the limit is 1 s, batch_timeout_secs)" in warning
    assert "waits for Spark" in warning
    assert "(batch_timeout_secs). It has no executors" in error
    assert "is tried again" in error
    assert issubclass(SparkStartsNothing, SparkError)


@pytest.mark.deep
@pytest.mark.asyncio
@pytest.mark.guarantee("CL-3")
async def test_a_cluster_that_is_too_small_fails_the_batch_until_a_worker_fits(new_spark_cluster: NewSparkCluster) -> None:
    cluster = await asyncio.to_thread(new_spark_cluster, workers=1, memory="512m")
    asked = spark_cluster.driver_settings()
    del asked["spark.executor.memory"]
    asked["spark.executorEnv.PYTHONPATH"] = str(Path(__file__).parents[3])
    spark = SparkConfig(cluster.master, driver_memory="512m", executor_memory="700m", conf=asked)
    committed = Committed()
    running = cluster_run.run(numbers(committed, Adds), Config(seed=1, batch_timeout_secs=6), spark=spark)
    async with running:
        await until(lambda: any("is tried again" in report.next_step for report in running.snapshot().errors))
        await asyncio.to_thread(cluster.replace_worker, "1g")
        await running.completed()
        errors = [report.describe() for report in running.snapshot().errors]
    assert committed.rows() == EXPECTED
    assert any("the limit is 6 s" in error and "waits for Spark" in error for error in errors)
    assert any("It has no executors, and asks for executors with 700m of memory" in error for error in errors)
