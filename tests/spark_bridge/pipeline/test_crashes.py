"""Kills Spark's processes during a pipeline: it continues in new ones, with every row once."""

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from tests.servers.keeper import descendants
from tests.spark_bridge.pipeline.folders import numbers, read_numbers
from tests.spark_bridge.pipeline.playing import Playing
from tests.spark_bridge.spark_fixtures import LOCAL, new_jvms, until

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


@pytest.mark.guarantee("SP-1", "SP-5")
async def test_a_pipeline_survives_a_kill_of_the_jvm_in_its_first_start(playing: Playing) -> None:
    playing.folder("pipeline").write(2)
    before = set(descendants(os.getpid()))
    own_session = replace(LOCAL, app_name="killed in its start")
    run = asyncio.create_task(playing.run(playing.file(KILLS_ITSELF), spark=own_session))
    await until(lambda: bool(new_jvms(before)))
    os.kill(new_jvms(before)[0], signal.SIGKILL)
    now = await run
    assert read_numbers(playing.out) == numbers(1, 2)
    assert (now.state, now.deaths) == ("caught up", 1)
    assert "the JVM was killed by SIGKILL during its start" in playing.notes[0]
