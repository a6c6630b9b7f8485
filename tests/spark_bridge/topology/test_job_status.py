"""Snapshot, views and metrics show the jobs of a run, and errors name the user's spout (CL-1, CL-3)."""

import asyncio
import json
import logging
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from engine import FailedBatch
from engine.cli.snapshot_text import state_texts
from engine.metrics import render
from engine.transactional import BatchCollector, MemoryTransactionalSpout, TransactionalTopologyBuilder, TransactionAttempt
from spark_bridge.process import SparkChild, SparkConfig
from spark_bridge.topology.cluster_run import SPARK_DEFAULTS, _with_defaults
from spark_bridge.topology.job import Job
from spark_bridge.topology.status import MOST_JOBS, JobsEntry
from tests.spark_bridge.topology.both_engines import Committed, Played, play
from tests.spark_bridge.topology.local_jobs import LocalJobs
from tests.spark_bridge.topology.test_failures import EXPECTED, NUMBERS, Adds, RaisesOnce, numbers
from tests.transactional.batch_topologies import Batches, BatchesEmitter

pytestmark = pytest.mark.asyncio


def jobs_of(played: Played) -> Any:
    return played.snapshot.entry(JobsEntry).value


@pytest.mark.guarantee("CL-1")
async def test_the_newest_jobs_are_shown_with_their_stages(tmp_path: Path) -> None:
    jobs = LocalJobs()
    played = await play(lambda committed: numbers(committed, lambda: RaisesOnce(tmp_path / "raised", lambda: KeyError("no"))), jobs=jobs)
    shown = jobs_of(played)

    assert [(job.txid, job.state) for job in shown.newest] == [(2, "done"), (2, "failed"), (1, "done")]
    first, second, third = shown.newest[0].stages
    assert [stage.components for stage in (first, second, third)] == [("numbers",), ("bolt",), ("after",)]
    assert [stage.partitions for stage in (first, second, third)] == [2, 2, 3]
    assert (first.shuffled_rows, second.executed, second.shuffled_rows, third.executed, third.shuffled_rows) == (20, 20, 20, 20, 0)
    assert first.shuffled_blocks > 0
    assert first.shuffled_bytes > 0
    assert second.slowest_components == ("bolt",)
    assert second.slowest_partition in (0, 1)
    assert 0 < second.slowest_secs <= shown.newest[0].secs
    assert (shown.done, shown.failed, shown.replaced) == (2, 1, 0)
    assert (shown.master, shown.application, shown.ui) == ("local[*]", "local-1", "http://127.0.0.1:4040")


@pytest.mark.guarantee("CL-1")
async def test_json_text_and_metrics_have_the_same_figures() -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("many", "numbers", MemoryTransactionalSpout([(n,) for n in range(25)], "number", take=1))
        builder.set_bolt("after", Adds).fields_grouping("numbers", "number")
        builder.set_committer("keep", committed.committer).global_grouping("after")
        return builder.build()

    played = await play(build, jobs=LocalJobs())
    entry, shown = played.snapshot.entry(JobsEntry), jobs_of(played)
    assert JobsEntry.from_json(json.loads(json.dumps(entry.to_json()))).value == shown
    assert len(shown.newest) == MOST_JOBS
    [line] = [text for text in state_texts(None, played.snapshot) if text.startswith("Spark jobs")]
    assert line.startswith(f"Spark jobs {shown.done} done · 0 running · 0 failed · last ")
    assert "http://127.0.0.1:4040" in line
    metrics = render(entry.families("many"))
    assert f'stormcell_spark_jobs_total{{topology="many",outcome="done"}} {shown.done}' in metrics
    assert f'stormcell_spark_shuffled_rows_total{{topology="many"}} {shown.shuffled_rows}' in metrics
    assert 'stormcell_spark_running_jobs{topology="many"} 0' in metrics


async def test_a_job_without_a_page_of_spark_says_what_switches_it_on() -> None:
    jobs = LocalJobs()
    jobs.facts["ui"] = None  # type: ignore[assignment]
    played = await play(lambda committed: numbers(committed, Adds), jobs=jobs)
    assert "spark.ui.enabled" in str(played.snapshot.entry(JobsEntry).text())


async def test_sparks_page_is_on_unless_the_user_switches_it_off() -> None:
    assert SPARK_DEFAULTS["spark.ui.enabled"] == "true"
    assert dict(_with_defaults(SparkConfig(conf={"spark.ui.enabled": False})).conf)["spark.ui.enabled"] == "false"


async def test_the_jvm_compiles_quickly_unless_the_user_gives_options_for_it() -> None:
    driver, executor = "spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"
    given = dict(_with_defaults(SparkConfig(conf={driver: "-Xss2m"})).conf)
    assert given[driver] == "-Xss2m"
    assert given[executor] == SPARK_DEFAULTS[executor] == "-XX:TieredStopAtLevel=1"


def _java_options(spark: Any, call: Any) -> list[str]:
    conf = spark.sparkContext.getConf()
    return [conf.get(f"spark.{place}.{kind}JavaOptions") for place in ("driver", "executor") for kind in ("default", "extra")]


@pytest.mark.guarantee("SP-5")
async def test_java_options_of_the_users_spark_defaults_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"driver": "-Dsite=driver", "executor": "-Dsite=executor"}
    lines = "".join(f"spark.{place}.extraJavaOptions {option}\n" for place, option in options.items())
    await asyncio.to_thread((tmp_path / "spark-defaults.conf").write_text, lines)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    child = SparkChild(_with_defaults(SparkConfig("local[1]", driver_memory="512m")))
    try:
        driver_default, driver, executor_default, executor = await child.call(_java_options)
    finally:
        await child.close()
    assert driver.endswith("-Dsite=driver")
    assert executor.endswith("-Dsite=executor")
    assert "-Djava.io.tmpdir=" in driver_default
    assert all("-XX:TieredStopAtLevel=1" in each for each in (driver_default, executor_default))


class PlansBadly(MemoryTransactionalSpout):
    """Its planner raises once."""

    raised = False

    def emitter(self) -> Any:
        spout, plain = self, super().emitter()

        class Bad(type(plain)):  # type: ignore[misc]
            def plan_partition_batch(self, *arguments: Any) -> Any:
                if not spout.raised:
                    spout.raised = True
                    raise KeyError("no plan today")
                return super().plan_partition_batch(*arguments)

        return Bad(spout.data, spout.take)


@pytest.mark.guarantee("CL-3")
async def test_an_error_of_a_planner_names_the_spout() -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("plans", "numbers", PlansBadly(NUMBERS, "number", take=10))
        builder.set_bolt("after", Adds).fields_grouping("numbers", "number")
        builder.set_committer("keep", committed.committer).global_grouping("after")
        return builder.build()

    played = await play(build, jobs=LocalJobs())
    assert played.committed.rows() == EXPECTED
    [error] = played.errors
    assert error.startswith("'numbers' (task ")
    assert "no plan today" in error
    assert 'raise KeyError("no plan today")' in error


class EmitsFirst(BatchesEmitter):
    """Emits something else than numbers, or raises it, in the first attempt."""

    def __init__(self, spout: Batches, first: Any) -> None:
        super().__init__(spout)
        self.first = [first]

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: BatchCollector) -> None:
        first = self.first.pop() if self.first else None
        if isinstance(first, Exception):
            raise first
        if first is not None:
            collector.emit((first,))
        super().emit_batch(attempt, metadata, collector)


def sent(committed: Committed, first: Any) -> Any:
    builder = TransactionalTopologyBuilder("sent", "numbers", Batches([[1, 2], [3]], emitter=lambda spout: EmitsFirst(spout, first)))
    builder.set_bolt("after", Adds).shuffle_grouping("numbers")
    builder.set_committer("keep", committed.committer).global_grouping("after")
    return builder.build()


@pytest.mark.guarantee("CL-3")
async def test_an_error_of_an_emitter_here_names_the_spout_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        played = await play(lambda committed: sent(committed, FailedBatch("not read", report=True)), jobs=LocalJobs())
    assert played.committed.rows() == [(2,), (3,), (4,)]
    [error] = played.errors
    assert error.startswith("'numbers' (task ")
    assert sum("not read" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.guarantee("CL-3")
async def test_a_value_of_an_emitter_here_that_cannot_be_pickled_is_named_with_its_row() -> None:
    played = await play(lambda committed: sent(committed, threading.Lock()), jobs=LocalJobs())
    assert played.committed.rows() == [(2,), (3,), (4,)]
    [error] = played.errors
    assert error.startswith("'numbers' (task ")
    assert "_thread.lock" in error.split("input:")[1].splitlines()[0]


@pytest.mark.guarantee("CL-3")
async def test_a_folder_that_vanishes_is_made_anew() -> None:
    removed: list[Path] = []

    def before(job: Job, level: int, partition: int) -> None:
        if not removed:
            removed.append(Path(job.program_path).parent)
            shutil.rmtree(removed[0])

    played = await play(lambda committed: numbers(committed, Adds), jobs=LocalJobs(before=before))
    assert played.committed.rows() == [(number + 2,) for number in range(40)]
    assert await asyncio.to_thread(lambda: not removed[0].exists())
