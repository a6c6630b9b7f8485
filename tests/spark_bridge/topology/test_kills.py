"""Kills of Spark's JVM and of the engine: no batch is lost, and none is counted twice (CL-1, CL-3)."""

import asyncio
import os
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Config, Tuple
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.topology import run
from tests.spark_bridge.topology.both_engines import Committed
from tests.spark_bridge.topology.killed import LINES, SPARK

pytestmark = pytest.mark.asyncio

RUN_SECS = 110
ROOT = Path(__file__).parents[3]


class KillsJvm(BasicBolt):
    """Kills the JVM of its worker process once."""

    output_fields = "number"

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def execute(self, tup: Tuple) -> tuple[int]:
        if tup["number"] == 25 and not self.marker.exists():
            self.marker.touch()
            os.kill(_parent(os.getppid()), signal.SIGKILL)  # worker -> daemon -> JVM
        return (tup["number"],)


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.deep
@pytest.mark.guarantee("CL-3")
async def test_a_killed_jvm_fails_the_attempt_and_the_batch_is_replayed(spark_here: None, tmp_path: Path) -> None:
    committed, marker = Committed(), tmp_path / "killed"
    spout = MemoryTransactionalSpout([(number,) for number in range(60)], "number", take=20)
    builder = TransactionalTopologyBuilder("jvm", "numbers", spout)
    builder.set_bolt("kills", lambda: KillsJvm(marker)).shuffle_grouping("numbers")
    builder.set_committer("keep", committed.committer).global_grouping("kills")

    async with asyncio.timeout(RUN_SECS), run(builder.build(), Config(max_spout_pending=2), spark=SPARK) as running:
        await running.completed()
        errors = [report.text for report in running.snapshot().errors]

    assert marker.exists()
    assert committed.rows() == [(number,) for number in range(60)]
    assert [txid for txid, _ in committed.attempts] == [1, 2, 3]
    assert any("SparkDied" in error for error in errors)


def counted(folder: Path) -> tuple[int, dict[str, int]]:
    """Return the newest stored txid, and the counts."""
    if not (folder / "counts.db").exists():
        return 0, {}
    with closing(sqlite3.connect(folder / "counts.db")) as database:
        try:
            rows: list[Any] = database.execute("SELECT * FROM words").fetchall()
        except sqlite3.OperationalError:
            return 0, {}
    return max((row[2] for row in rows), default=0), {row[0]: int(row[1]) for row in rows}


@pytest.mark.soak  # kills/test_steps kills an engine at steps around its jobs
@pytest.mark.guarantee("CL-1", "CL-3")
@pytest.mark.timeout(400)
async def test_an_engine_that_is_killed_twice_counts_every_word_once(spark_here: None, tmp_path: Path) -> None:
    expected = Counter(word for (line,) in LINES for word in line.split())
    kills = [1, 4]
    for _ in range(4):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.spark_bridge.topology.killed", str(tmp_path), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        at = kills.pop(0) if kills else None
        while process.returncode is None and at is not None:
            txid, _ = await asyncio.to_thread(counted, tmp_path)
            if txid >= at:
                process.send_signal(signal.SIGKILL)
                break
            await asyncio.sleep(0.02)
        async with asyncio.timeout(RUN_SECS):
            output, _ = await process.communicate()
        if b"complete" in output:
            break
    txid, counts = await asyncio.to_thread(counted, tmp_path)
    assert not kills
    assert counts == dict(expected)
    assert txid == 8
