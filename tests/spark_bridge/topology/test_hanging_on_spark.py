"""Plain calls that never return, in workers of a real Spark (CL-3)."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Config, Tuple
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.process import SparkChild
from spark_bridge.topology import cluster_run
from tests.spark_bridge.spark_fixtures import LOCAL
from tests.spark_bridge.topology.both_engines import Committed

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.guarantee("CL-3")]

RUN_SECS = 100


class HangsOnce(BasicBolt):
    """Hangs at number 7 until a file exists, in one of several ways."""

    output_fields = "number"

    def __init__(self, marker: Path, way: str) -> None:
        self.marker = marker
        self.way = way

    def execute(self, tup: Tuple) -> tuple[int]:
        if tup["number"] == 7 and not self.marker.exists():
            self.marker.touch()
            while True:
                try:
                    getattr(self, self.way)()
                except Exception:
                    if self.way != "swallow":
                        raise
        return (tup["number"],)

    def spin(self) -> None:
        while True:
            pass

    def wait(self) -> None:
        threading.Event().wait()

    swallow = spin


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("spin", marks=pytest.mark.soak),  # "swallow" spins too, and test_hanging_calls interrupts it
        pytest.param("wait", marks=pytest.mark.deep),
        pytest.param("swallow", marks=pytest.mark.deep),
    ],
)
async def test_a_call_that_hangs_is_named_and_the_batch_is_replayed(way: str, spark_child: SparkChild, tmp_path: Path) -> None:
    committed = Committed()
    errors = await _run(committed, tmp_path / "hung", way)
    assert committed.rows() == [(number,) for number in range(20)]
    [error] = errors
    assert error.startswith("'hangs' (task ")
    assert "CallHangs" in error
    assert ("could not be interrupted" in error) == (way == "swallow")
    assert ("threading.Event().wait()" if way == "wait" else "in spin") in error


async def _run(committed: Committed, marker: Path, way: str) -> list[str]:
    builder: Any = TransactionalTopologyBuilder(
        "hangs", "numbers", MemoryTransactionalSpout([(n,) for n in range(20)], "number", take=10), 1
    )
    builder.set_bolt("hangs", lambda: HangsOnce(marker, way), 2).fields_grouping("numbers", "number")
    builder.set_committer("keep", committed.committer).global_grouping("hangs")
    async with asyncio.timeout(RUN_SECS), cluster_run.run(builder.build(), Config(batch_timeout_secs=3), spark=LOCAL) as run:
        await run.completed()
        shown = run.snapshot().jobs
        assert shown.version is not None
        assert shown.ui is None  # the tests switch Spark's page off
        return [report.describe() for report in run.snapshot().errors]
