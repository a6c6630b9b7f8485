"""Pipelines over a hand-over folder on a real Spark: queries, progress, stopping, errors, restarts."""

import asyncio
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_bridge.pipeline import PipelineError, PipelineFileError, PipelineRefused
from spark_bridge.process import SparkConfig, SparkUnavailable
from tests.servers.process import free_port
from tests.spark_bridge.pipeline.folders import numbers, read_numbers
from tests.spark_bridge.pipeline.playing import Playing
from tests.spark_bridge.spark_fixtures import until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

TWO_QUERIES = """
from pyspark.sql.functions import udf, window
from beside import twice

@udf("long")
def doubled(number):
    return twice(number)

def pipeline(stream):
    counts = stream.withWatermark("batch_time", "1 second").groupBy(window("batch_time", "2 seconds"), "word").count()
    return {
        "raw": stream.withColumn("doubled", doubled("number")).writeStream.format("parquet").option("path", OUT + "/raw"),
        "counts": counts.writeStream.format("parquet").option("path", OUT + "/counts"),
    }
"""
STORE = """
import os, time

def pipeline(batch, txid):
    os.makedirs(OUT, exist_ok=True)
    with open(OUT + "/calls", "a") as file:
        file.write(f"{txid} {sorted({row.txid for row in batch.collect()})}\\n")
"""

STAYS = """\
    open(OUT + ".begun", "w").close()
    while not os.path.exists(OUT + ".told"):
        time.sleep(0.01)
    time.sleep(2)  # the way to Spark takes a while
    os.makedirs"""
"""A batch that lasts until the pipeline was stopped, and two seconds more."""


@pytest.mark.guarantee("SP-1", "SP-5")
@pytest.mark.deep
async def test_two_queries_read_the_same_batches_each_at_its_own_pace(playing: Playing) -> None:
    folder = playing.folder("raw", "counts")
    folder.write(4)
    (playing.path / "beside.py").write_text("def twice(number):\n    return 2 * number\n")
    flow = playing.file(TWO_QUERIES)

    now = await playing.run(flow)

    assert now.state == "caught up"
    raw, counts = now.queries["raw"], now.queries["counts"]
    assert (raw.rows, raw.txid, raw.lag, raw.state_rows, raw.status) == (40, 4, 0, None, "stopped")
    assert (counts.rows, counts.txid, counts.lag) == (40, 4, 0)
    assert counts.batches > 1, "a batch without rows closes the windows that the watermark has passed"
    assert counts.state_rows is not None
    assert folder.handover().consumers()["raw"].planned == folder.handover().consumers()["counts"].planned == 4
    assert read_numbers(playing.out / "raw") == numbers(1, 4)
    table = pq.ParquetDataset(sorted((playing.out / "raw").glob("*.parquet"))).read()
    assert table["doubled"].to_pylist() == [2 * number for number in table["number"].to_pylist()]

    folder.write(2)
    again = await playing.run(flow)  # goes on from the checkpoints

    assert (again.queries["raw"].rows, again.queries["raw"].txid) == (20, 6)
    assert read_numbers(playing.out / "raw") == numbers(1, 6)
    closed = [row["count"] for file in (playing.out / "counts").glob("*.parquet") for row in pq.ParquetFile(file).read().to_pylist()]
    assert sum(closed) == 30, "the windows that end before the watermark, each once"
    assert max(seen.lag for seen in playing.seen) > 0
    newest = [seen.newest_txid for seen in playing.seen]
    assert (newest[0], newest[-1]) == (4, 6)


@pytest.mark.guarantee("SP-1")
@pytest.mark.deep
async def test_a_per_batch_function_gets_the_last_txid_of_its_rows(playing: Playing) -> None:
    playing.folder("pipeline").write(5)
    await playing.run(playing.file(STORE), source={"maxTransactionsPerBatch": 2})
    assert playing.lines("calls") == ["2 [1, 2]", "4 [3, 4]", "5 [5]"]


@pytest.mark.guarantee("SP-1")
@pytest.mark.deep
async def test_a_logged_but_unplanned_micro_batch_is_processed_as_logged(playing: Playing) -> None:
    """Simulates a death of Spark after its write of the log, before it calls the source."""
    folder = playing.folder("pipeline")
    folder.write(2)
    flow = playing.file(STORE)
    await playing.run(flow)
    log = playing.path / "checkpoints" / "pipeline" / "offsets"
    (log / "1").write_text((log / "0").read_text().replace('{"txid": 2}', '{"txid": 3}').replace('{"txid":2}', '{"txid":3}'))
    folder.write(3)
    await playing.run(flow)
    assert playing.lines("calls") == ["2 [1, 2]", "3 [3]", "5 [4, 5]"]


@pytest.mark.deep
async def test_a_pipeline_waits_for_its_folder_and_stops_between_two_batches(playing: Playing) -> None:
    folder = playing.folder("pipeline", is_there=False)
    slow = playing.file(STORE.replace("    os.makedirs", STAYS))

    stop = asyncio.Event()
    run = asyncio.create_task(playing.run(slow, "stopped", stop=stop))
    await until(lambda: bool(playing.notes))
    assert playing.notes == [f"waiting for the hand-over {folder.path}. Start its topology, which creates it, or correct the folder."]
    folder.make()
    folder.write(1)
    begun = Path(f"{playing.out}.begun")
    await until(begun.exists)
    folder.write(1)
    stop.set()  # in the middle of the first batch, which ends some time after
    playing.tell()
    now = await run
    assert (now.state, now.queries["pipeline"].txid, now.queries["pipeline"].status) == ("stopped", 1, "stopped")
    assert playing.lines("calls") == ["1 [1]"]
    await playing.run(slow)
    assert playing.lines("calls") == ["1 [1]", "2 [2]"], "what was finished does not come again"


async def test_a_pipeline_ends_after_its_producer_with_everything_processed(playing: Playing) -> None:
    folder = playing.folder("pipeline")
    flow = playing.file(STORE)

    async def producer() -> None:
        folder.write(2)
        await until(lambda: bool(playing.lines("calls")))
        folder.write(2)

    now = await playing.run(flow, asyncio.create_task(producer()))
    assert (now.state, now.queries["pipeline"].txid, now.lag) == ("caught up", 4, 0)
    assert sum(line.count(",") + 1 for line in playing.lines("calls")) == 4


BREAKS = """
from pyspark.sql.functions import udf
from spark_bridge.pipeline import pipeline, per_batch

@udf("long")
def inverse(number):
    return 10 // (number - 15)

@pipeline
def in_a_udf(stream):
    return {
        "broken": stream.select(inverse("number")).writeStream.format("noop"),
        "whole": stream.writeStream.format("noop"),
    }

@per_batch(name="driver")
def in_the_driver(batch, txid):
    raise KeyError(f"no such word, {txid}")

@pipeline(name="broken")
def in_the_plan(stream):
    return stream.select("numbr").writeStream.format("noop")

@pipeline
def undeclared(stream):
    return stream.writeStream.format("noop")
"""


@pytest.mark.deep
async def test_an_error_of_user_code_is_retried_once_then_raised_with_its_line(playing: Playing) -> None:
    playing.folder("broken", "whole", "driver").write(1)
    flow = playing.file(BREAKS)
    with pytest.raises(PipelineError, match="query 'broken' failed: ZeroDivisionError") as raised:
        await playing.run(f"{flow}:in_a_udf", "stopped")
    assert "flow.py, line 8, in inverse: return 10 // (number - 15)" in str(raised.value)
    assert "continues from its checkpoint" in str(raised.value)
    last = playing.seen[-1].queries
    assert (last["broken"].status, last["broken"].restarts, last["whole"].txid) == ("failed", 1, 1)
    assert any("'broken' restarts in 1 s: ZeroDivisionError" in note for note in playing.notes)

    with pytest.raises(PipelineError, match=r"KeyError: 'no such word, 1'\n    .*flow.py, line 19, in in_the_driver"):
        await playing.run(f"{flow}:in_the_driver", "stopped")
    with pytest.raises(PipelineError, match=r"has a new checkpoint[\s\S]*Fix: \(1\) .* \(2\) .* \(3\) ") as raised:
        await playing.run(f"{flow}:in_the_driver", "stopped", checkpoints="other")
    assert playing.seen[-1].queries["driver"].restarts == 0, "a restart does not help"


async def test_a_wrong_pipeline_is_refused_at_once(playing: Playing) -> None:
    playing.folder("broken").write(1)
    flow = playing.file(BREAKS)
    with pytest.raises(PipelineFileError, match=r"numbr[\s\S]*line 23, in in_the_plan"):
        await playing.run(f"{flow}:in_the_plan")
    with pytest.raises(PipelineRefused, match=r"consumers .* add undeclared"):
        await playing.run(f"{flow}:undeclared")
    with pytest.raises(PipelineFileError, match="no function 'nothing'"):
        await playing.run(f"{flow}:nothing")
    assert not any(seen.queries for seen in playing.seen if seen.queries and seen.queries["broken"].batches)


@pytest.mark.deep
async def test_a_cancelled_pipeline_leaves_no_query(playing: Playing) -> None:
    playing.folder("pipeline").write(1)
    flow = playing.file(STORE.replace("    os.makedirs", STAYS))

    run = asyncio.create_task(playing.run(flow, "stopped"))
    await until(Path(f"{playing.out}.begun").exists)
    run.cancel()
    playing.tell()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await playing.active() == []
    await playing.run(playing.file(STORE))
    assert playing.lines("calls")[-1] == "1 [1]", "what was under way comes again"


@pytest.mark.guarantee("SP-5")
async def test_a_missing_master_ends_the_pipeline_at_once(playing: Playing) -> None:
    playing.folder("pipeline")
    nobody = SparkConfig(master=f"spark://127.0.0.1:{free_port()}")
    with pytest.raises(SparkUnavailable, match="it cannot be reached: Connection refused"):
        await playing.run(playing.file(STORE), spark=nobody)
    assert playing.notes == []
