"""Kills Spark's driver process during a pipeline: it continues in a new process, with every row once."""

import pytest

from tests.spark_bridge.pipeline.folders import numbers, read_numbers
from tests.spark_bridge.pipeline.playing import Playing

pytestmark = [pytest.mark.deep, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

KILLS_ITSELF = """
import os, signal

def pipeline(batch, txid):
    os.makedirs(OUT, exist_ok=True)
    with open(OUT + "/calls", "a") as file:
        file.write(f"{txid} {sorted({row.txid for row in batch.collect()})}\\n")
    batch.write.mode("overwrite").parquet(f"{OUT}/txid={txid}")
    if txid == 4 and not os.path.exists(OUT + ".killed"):
        open(OUT + ".killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.guarantee("SP-1", "SP-5")
async def test_a_micro_batch_is_repeated_after_a_kill_behind_its_sink(playing: Playing) -> None:
    playing.folder("pipeline").write(5)
    now = await playing.run(playing.file(KILLS_ITSELF), source={"maxTransactionsPerBatch": 2})
    assert playing.lines("calls") == ["2 [1, 2]", "4 [3, 4]", "4 [3, 4]", "5 [5]"]
    assert read_numbers(playing.out) == numbers(1, 5)
    assert (now.state, now.deaths, now.queries["pipeline"].restarts, now.lag) == ("caught up", 1, 1, 0)
    assert "all queries continue from their checkpoints" in playing.notes[0]
