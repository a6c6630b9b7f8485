"""Bolts that executors cannot run are refused, and background tasks end with the batch (CL-4)."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Config, TopologyError, Tuple
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from engine.transactional.values import SqliteValues
from spark_bridge.process import SparkConfig
from spark_bridge.topology import cluster_run
from tests.spark_bridge.topology.both_engines import Committed, play
from tests.spark_bridge.topology.local_jobs import LocalJobs

ENDED: list[int] = []
"""Tasks whose background work has ended. LocalJobs runs bolts in this process."""
REMOTE = SparkConfig(master="spark://head.example:7077")


class Looks(BasicBolt):
    output_fields = "number"

    def __init__(self, store: object = None) -> None:
        self.store = store

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["number"],)


class Background(Looks):
    """Starts a coroutine that never returns. It raises at once in the first batch of a marker file."""

    def __init__(self, marker: Path | None = None) -> None:
        super().__init__()
        self.marker = marker

    def prepare(self) -> None:
        self.context.create_task(self._work())

    async def _work(self) -> None:
        if self.marker is not None and not self.marker.exists():
            self.marker.touch()
            raise OSError("no background today")
        try:
            await asyncio.Event().wait()
        finally:
            ENDED.append(self.context.task_id)

    async def execute(self, tup: Tuple) -> tuple[int]:  # type: ignore[override]
        await asyncio.sleep(0)
        return (tup["number"],)


def numbers(bolt: Any, committed: Committed | None = None) -> Any:
    builder = TransactionalTopologyBuilder("numbers", "numbers", MemoryTransactionalSpout([(1,), (2,), (3,), (4,)], "number", take=2))
    builder.set_bolt("bolt", bolt).shuffle_grouping("numbers")
    builder.set_committer("keep", (committed or Committed()).committer).global_grouping("bolt")
    return builder.build()


def map_in_a_closure() -> Any:
    values = SqliteValues("a.db", "words")
    return lambda: Looks(values)


@pytest.mark.guarantee("CL-4")
@pytest.mark.parametrize(
    ("factory", "store"),
    [
        (partial(Looks, SqliteValues("words.db", "words")), "SqliteValues"),
        (map_in_a_closure(), "SqliteValues"),
        (lambda: Looks("sqlite:///words.db"), "sqlite:///words.db"),
        (partial(Looks, {"state": ["sqlite:////var/words.db"]}), "sqlite:////var/words.db"),
    ],
)
def test_a_store_in_a_local_file_is_refused_on_other_machines_only(factory: Any, store: str) -> None:
    with pytest.raises(TopologyError) as raised:
        cluster_run.run(numbers(factory), Config(), spark=REMOTE)
    assert f"bolt 'bolt': {store} is a store in a file of one machine" in str(raised.value)

    cluster_run.run(numbers(factory), Config(), spark=SparkConfig(master="local[2]"))


@pytest.mark.guarantee("CL-4")
@pytest.mark.parametrize("store", ["redis://host/0", "sqlite:///:memory:", Path("/data/words.csv")])
def test_other_stores_are_not_refused(store: object) -> None:
    cluster_run.run(numbers(partial(Looks, store)), Config(), spark=REMOTE)


@pytest.mark.guarantee("CL-4")
@pytest.mark.asyncio
async def test_a_background_task_ends_with_its_batch() -> None:
    ENDED.clear()
    played = await play(lambda committed: numbers(Background, committed), jobs=LocalJobs())

    assert played.committed.rows() == [(1,), (2,), (3,), (4,)]
    assert not played.errors
    assert len(ENDED) == len(played.committed.attempts) == 2


@pytest.mark.guarantee("CL-4")
@pytest.mark.asyncio
async def test_a_background_task_that_raises_fails_its_attempt(tmp_path: Path) -> None:
    bolt = partial(Background, tmp_path / "raised")
    played = await play(lambda committed: numbers(bolt, committed), jobs=LocalJobs())

    assert played.committed.rows() == [(1,), (2,), (3,), (4,)]
    assert any("no background today" in error for error in played.errors)
