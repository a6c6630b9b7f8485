"""Pipelines on a Connect server whose Python has this package only from a zip, as on another machine (SP-1, SP-5)."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_bridge import Parquet, package_zip
from spark_bridge.process import SparkConfig
from spark_bridge.process.spark_child import hold
from tests.servers.spark_fixtures import NewSparkConnect
from tests.spark_bridge.pipeline.folders import numbers, read_numbers
from tests.spark_bridge.pipeline.playing import Playing

pytestmark = [pytest.mark.deep, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]
FLOW = """
from pyspark.sql.functions import udf
from spark_bridge import Parquet, Sqlite
from beside import twice

@udf("long")
def doubled(number):
    return twice(number)

def both(stream):
    rows = stream.withColumn("doubled", doubled("number"))
    words = stream.groupBy("word").count()
    return {
        "rows": Parquet(OUT + "/rows").writer(rows, "rows"),
        "words": Sqlite(OUT + "/words.db", "words", key="word").writer(words, "words").outputMode("update"),
    }

def each(batch, txid):
    batch.write.mode("overwrite").parquet(OUT + f"/each/txid={txid}")
"""


@pytest.fixture
def flow(playing: Playing) -> Callable[[str], str]:
    playing.out.mkdir()
    (playing.path / "beside.py").write_text("def twice(number):\n    return 2 * number\n")
    file = playing.file(FLOW)
    return lambda name: f"{file}:{name}"


@pytest.fixture
def elsewhere(new_spark_connect: NewSparkConnect, bare_python: Path, tmp_path: Path) -> SparkConfig:
    """Return the configuration of a server with Spark and pyarrow, which has this package only from the zip."""
    package = package_zip(tmp_path / "stormcell.zip")
    environment = {"PYTHONPATH": package, "PYSPARK_PYTHON": str(bare_python), "PYSPARK_DRIVER_PYTHON": str(bare_python)}
    return SparkConfig(master=new_spark_connect(environment=environment).remote)


@pytest.mark.guarantee("SP-1", "SP-3", "SP-5")
async def test_a_pipeline_on_connect_continues_after_a_restart(
    playing: Playing, flow: Callable[[str], str], elsewhere: SparkConfig
) -> None:
    folder = playing.folder("rows", "words", "each")
    folder.write(3)
    now = await playing.run(flow("both"), spark=elsewhere)
    assert (now.state, now.queries["rows"].rows, now.queries["words"].rows) == ("caught up", 30, 30)

    folder.write(2)
    held = hold(elsewhere)  # one client for the next two runs; the first restart has a new one
    again = await playing.run(flow("both"), spark=elsewhere)  # continues from the checkpoints
    assert (again.queries["rows"].rows, again.queries["rows"].txid) == (20, 5)
    assert read_numbers(playing.out / "rows") == numbers(1, 5)
    rows = pq.read_table(playing.out / "rows").to_pylist()
    assert all(row["doubled"] == 2 * row["number"] for row in rows)
    complete = Parquet(str(playing.out / "rows")).complete()
    assert complete is not None
    assert complete.txid == 5
    with closing(sqlite3.connect(playing.out / "words.db")) as connection:
        assert sorted(connection.execute("SELECT word, count FROM words")) == [("even", 25), ("odd", 25)]

    await playing.run(flow("each"), spark=elsewhere)
    await held.close()
    assert read_numbers(playing.out / "each") == numbers(1, 5)
    assert [path.name for path in (playing.out / "each").iterdir() if path.is_dir()] == ["txid=5"]
