"""Bolts that print and log a lot on executors (CL-1)."""

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Config, Tuple
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.process import SparkChild
from spark_bridge.topology import cluster_run
from tests.spark_bridge.spark_fixtures import LOCAL, until
from tests.spark_bridge.topology.both_engines import Committed

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.deep]

ROWS = 40
LINES_PER_ROW = 50
LINE = "p" * 1_000
"""All rows together print several megabytes, far more than a pipe holds."""


class Chatters(BasicBolt):
    """Prints to both streams, and logs."""

    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        for _ in range(LINES_PER_ROW):
            print(f"out {LINE}")
            print(f"err {LINE}", file=sys.stderr)
            logging.getLogger("chatters").warning("log %s", LINE)
        return (tup["number"],)


@pytest.mark.guarantee("CL-1")
async def test_output_of_bolts_blocks_nothing_and_is_in_sparks_log(spark_child: SparkChild) -> None:
    committed = Committed()
    spout = MemoryTransactionalSpout([(number,) for number in range(ROWS)], "number", take=ROWS // 2)
    builder: Any = TransactionalTopologyBuilder("chatters", "numbers", spout)
    builder.set_bolt("chatters", Chatters, 2).fields_grouping("numbers", "number")
    builder.set_committer("keep", committed.committer).global_grouping("chatters")
    async with asyncio.timeout(110), cluster_run.run(builder.build(), Config(), spark=LOCAL) as running:
        await running.completed()
        assert not running.snapshot().errors
    assert committed.rows() == [(number,) for number in range(ROWS)]
    assert spark_child._log is not None
    log = Path(spark_child._log)
    # Spark passes the streams on in threads of its own, so lines of two workers may be mixed. The last lines of the standard output
    # stay in the buffer of a worker until its end.
    await until(lambda: log.read_bytes().count(b"p") >= 2 * ROWS * LINES_PER_ROW * len(LINE))
    text = await asyncio.to_thread(log.read_text)
    assert all(f"{kind} {LINE}" in text for kind in ("out", "err", "log"))
