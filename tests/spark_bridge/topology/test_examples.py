"""The examples run unchanged on both engines, with equal results (CL-1, CL-2)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

import engine
from engine import Config
from engine.transactional import committed_lines
from engine.transactional.values import SqliteValues
from spark_bridge.handover import Handover
from spark_bridge.topology import cluster_run
from spark_bridge.topology.blocks import Block
from spark_bridge.topology.job import Job
from spark_bridge.topology.loaded_program import LoadedProgram
from tests.examples.conftest import load
from tests.examples.log_etl import topology as log_etl
from tests.examples.log_etl import traffic
from tests.kafka.play import produce
from tests.servers.kafka_fixtures import NewTopic
from tests.spark_bridge.spark_fixtures import LOCAL
from tests.spark_bridge.topology.local_jobs import LocalJobs
from tests.spark_bridge.topology.spark_replaced import spark_replaced

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.guarantee("CL-1", "CL-2")]

RUN_SECS = 100
LOG_LINES = 2_000


async def finish(run: Any) -> None:
    """Run to the end. Fail if anything was reported."""
    async with asyncio.timeout(RUN_SECS), run:
        await run.completed()
        assert [report.describe() for report in run.snapshot().errors] == []


async def on_levels(topology: Any, config: Config | None = None, *, jobs: LocalJobs | None = None) -> None:
    """Run a topology on the levels of Spark, without a JVM."""
    with spark_replaced(jobs or LocalJobs()):
        await finish(cluster_run.run(topology, config))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A folder with a text in two files."""
    folder = tmp_path / "text"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_text("".join(f"{name} to be {number % 7} or not {number % 11}\n" for number in range(900)))
    return folder


async def test_the_word_count_of_files(text: Path, tmp_path: Path) -> None:
    example = load("transactional_file_word_count")
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()

    await finish(engine.run(example.build(str(text), here)))
    await on_levels(example.build(str(text), there))

    assert example.counted(here) == example.counted(there) == example.plain_count(str(text))


async def test_the_global_count(monkeypatch: pytest.MonkeyPatch) -> None:
    example = load("transactional_global_count")
    here, there = example.Database(), example.Database()

    async def replayed(run: Any) -> None:
        async with asyncio.timeout(RUN_SECS), run:
            await run.completed()

    await replayed(engine.run(example.build(here)))
    with spark_replaced(LocalJobs()):
        await replayed(cluster_run.run(example.build(there)))

    assert here == there
    assert here.skipped == 5


async def test_the_word_count_of_a_topic(kafka: str, new_topic: NewTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await new_topic(partitions=2)
    lines = [f"to be {number % 7} or not {number % 11}" for number in range(900)]
    await produce(kafka, topic, lines, partition=None)
    monkeypatch.setenv("KAFKA_BROKERS", kafka)
    monkeypatch.setenv("LINES_TOPIC", topic)

    async def counts(name: str, run: Callable[[Any], Any]) -> dict[str, int]:
        monkeypatch.setenv("COUNTS_FOLDER", str(tmp_path / name))
        example = load("cluster_word_count")
        monkeypatch.setattr(example, "BATCH_RECORDS", 100)
        await run(example.topology())
        return dict(example.counted(tmp_path / name))

    here = await counts("here", lambda topology: finish(engine.run(topology)))
    assert here == await counts("there", on_levels) == Counter(word for line in lines for word in line.split())


@pytest.mark.parametrize(("batch", "at_once"), [(100, 1), (100, 8)])
async def test_the_designs(tmp_path: Path, batch: int, at_once: int) -> None:
    example = load("transactional_designs")
    words = [("word",)] * 950

    async def count(name: str, run: Callable[[Any, Config], Any]) -> Any:
        values = SqliteValues(tmp_path / f"{name}.db", "counts")
        await run(example.design(words, values, batch, at_once), Config(state_provider=f"sqlite:///{tmp_path / f'{name}-state.db'}"))
        async with values.reader() as stored:
            return await stored.get("all")

    assert await count("here", lambda topology, config: finish(engine.run(topology, config))) == len(words)
    assert await count("there", on_levels) == len(words)


# examples/log_etl


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Access logs."""
    folder = tmp_path_factory.mktemp("logs")
    traffic.write(folder, traffic.Traffic(lines=LOG_LINES, seed=5))
    return folder


def of_logs(logs: Path, folder: Path) -> Any:
    """Return the topology of the example, whose data come into a folder. Nobody consumes its batches, so none is deleted."""
    folder.mkdir()
    (folder / "logs").symlink_to(logs)
    with patch.object(log_etl, "QUERIES", ()):
        return log_etl.build(folder, log_etl.of_files(folder, batch_lines=100))


def tables(folder: Path) -> dict[str, Any]:
    """Return all results of the example: the rows of each batch, the broken lines and the tally."""
    handover = Handover.open(folder / "handover")
    manifests = [handover.manifest(txid) for txid in range(1, handover.newest() + 1)]
    rows = [
        [row for file in manifest.files for row in pq.read_table(folder / "handover" / file.name).to_pylist()] for manifest in manifests
    ]
    return {
        "rows": [sorted(map(repr, batch)) for batch in rows if batch],  # a source may begin an empty batch before it knows its end
        "broken": sorted(committed_lines(folder / "broken")),
        "tally": log_etl.tallied(folder),
    }


@pytest.fixture(scope="module")
def expected(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results in one process."""
    folder = tmp_path_factory.mktemp("here") / "log-etl"
    asyncio.run(finish(engine.run(of_logs(logs, folder))))
    return tables(folder)


async def test_access_logs_are_handed_over(logs: Path, tmp_path: Path, expected: dict[str, Any]) -> None:
    await on_levels(of_logs(logs, tmp_path / "there"))

    assert len(expected["rows"]) > 3
    assert tables(tmp_path / "there") == expected


class TwiceJobs(LocalJobs):
    """Computes each partition twice, like Spark after the loss of an executor. The second computation counts."""

    def _level(self, loaded: LoadedProgram, job: Job, level: int, partition: int, blocks: list[Block]) -> Iterator[Block]:
        list(super()._level(loaded, job, level, partition, list(blocks)))
        yield from super()._level(loaded, job, level, partition, blocks)


@pytest.mark.guarantee("CL-3")
async def test_a_task_that_is_computed_again_writes_other_files(logs: Path, tmp_path: Path, expected: dict[str, Any]) -> None:
    await on_levels(of_logs(logs, tmp_path / "there"), jobs=TwiceJobs())

    assert tables(tmp_path / "there") == expected


@pytest.mark.deep
async def test_executors_write_the_files_of_a_hand_over(
    logs: Path, tmp_path: Path, expected: dict[str, Any], spark_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = replace(LOCAL, app_name="hand-over")  # a shared session may have started in another folder
    await finish(cluster_run.run(of_logs(logs, Path("there")), spark=own))

    assert tables(tmp_path / "there") == expected
