"""Topologies on a real Spark: the same results as in one process, errors with their own words, kills (CL-1 to CL-3)."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Config, Tuple, run
from engine.transactional import BatchBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.process import SparkChild
from spark_bridge.topology import cluster_run
from tests.spark_bridge.spark_fixtures import LOCAL
from tests.spark_bridge.topology.both_engines import Committed
from tests.transactional.batch_topologies import Batches

pytestmark = pytest.mark.asyncio(loop_scope="session")

RUN_SECS = 120
LINES = [(" ".join(f"w{(7 * line + 3 * word) % 23}" for word in range(8)),) for line in range(80)]


class Split(BasicBolt):
    output_fields = "word"

    def execute(self, tup: Tuple) -> Iterator[tuple[str]]:
        for word in tup["line"].split():
            yield (word,)


class Counts(BatchBolt):
    """Counts words. Kills its own process once, or raises once, if `marker` says so."""

    output_fields = ("word", "count", "task")

    def __init__(self, marker: Path | None = None, kills: bool = False) -> None:
        self.marker = marker
        self.kills = kills
        self.counts: dict[str, int] = {}

    def execute(self, tup: Tuple) -> None:
        self.counts[tup["word"]] = self.counts.get(tup["word"], 0) + 1
        if self.marker is not None and tup["word"] == "w5" and not self.marker.exists():
            self.marker.touch()
            if self.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyError("w5 once")

    def finish_batch(self) -> None:
        self.collector.emit_many([(word, count, self.context.task_index) for word, count in self.counts.items()])


def words(committed: Committed, *, counts: Any = Counts, spout: Any = None) -> Any:
    source = spout or MemoryTransactionalSpout([LINES[:40], LINES[40:]], "line", take=20)
    builder = TransactionalTopologyBuilder("words", "lines", source, 2)
    builder.set_bolt("split", Split, 2).shuffle_grouping("lines")
    builder.set_bolt("count", counts, 2).fields_grouping("split", "word")
    builder.set_committer("keep", committed.committer).global_grouping("count")
    return builder.build()


async def committed_by(running: Any) -> list[str]:
    async with asyncio.timeout(RUN_SECS), running:
        await running.completed()
        return [report.describe() for report in running.snapshot().errors]


async def here() -> Committed:
    committed = Committed()
    await committed_by(run(words(committed), Config(seed=1)))
    return committed


@pytest.mark.guarantee("CL-1", "CL-2")
async def test_a_word_count_commits_what_it_commits_in_one_process(spark_child: SparkChild) -> None:
    committed = Committed()
    errors = await committed_by(cluster_run.run(words(committed), Config(seed=1, max_spout_pending=2), spark=LOCAL))

    assert not errors
    assert committed.rows() == (await here()).rows()
    assert sum(row[1] for row in committed.rows()) == 8 * len(LINES)


@pytest.mark.deep
@pytest.mark.guarantee("CL-1")
async def test_results_come_back_through_the_driver_where_no_folder_is_shared(spark_child: SparkChild, monkeypatch: Any) -> None:
    monkeypatch.setattr(type(LOCAL), "is_on_this_machine", False)
    committed = Committed()
    assert not await committed_by(cluster_run.run(words(committed), Config(seed=1), spark=LOCAL))
    assert committed.rows() == (await here()).rows()


@pytest.mark.deep
@pytest.mark.guarantee("CL-1")
async def test_rows_of_emitters_in_the_engine_reach_spark(spark_child: SparkChild) -> None:
    committed = Committed()
    spout = Batches([[1, 2, 3], [4], []])
    builder = TransactionalTopologyBuilder("sent", "numbers", spout, 2)
    builder.set_bolt("passes", Passes, 2).fields_grouping("numbers", "number")
    builder.set_committer("keep", committed.committer).global_grouping("passes")
    assert not await committed_by(cluster_run.run(builder.build(), Config(), spark=LOCAL))
    assert committed.rows() == [(1,), (2,), (3,), (4,)]


class Passes(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["number"],)


@pytest.mark.guarantee("CL-3")
async def test_an_error_of_user_code_is_not_retried_by_spark(spark_child: SparkChild, tmp_path: Path) -> None:
    committed, marker = Committed(), tmp_path / "raised"
    errors = await committed_by(cluster_run.run(words(committed, counts=lambda: Counts(marker)), Config(seed=1), spark=LOCAL))

    assert committed.rows() == (await here()).rows()
    [error] = errors
    assert "'count' (task " in error
    assert "KeyError: 'w5 once'" in error
    assert "input:" in error
    assert "Py4J" not in error
    assert "org.apache" not in error


@pytest.mark.deep
@pytest.mark.guarantee("CL-3")
async def test_a_python_worker_that_is_killed_loses_and_doubles_nothing(spark_child: SparkChild, tmp_path: Path) -> None:
    committed, marker = Committed(), tmp_path / "killed"
    errors = await committed_by(cluster_run.run(words(committed, counts=lambda: Counts(marker, True)), Config(seed=1), spark=LOCAL))

    assert marker.exists()
    assert committed.rows() == (await here()).rows()
    assert len(errors) <= 1  # with local masters Spark does not retry a task, so the attempt fails
