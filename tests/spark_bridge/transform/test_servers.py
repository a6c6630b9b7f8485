"""SparkTransform on a cluster and on a Connect server (SP-4, SP-5)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine.runtime.run import Run
from spark_bridge.process import SparkConfig, SparkError
from spark_bridge.process.spark_child import hold
from tests.patience import PATIENCE_SECS
from tests.servers.process import accepts
from tests.servers.spark_cluster import driver_settings
from tests.servers.spark_connect_server import SparkConnectServer
from tests.spark_bridge.spark_fixtures import until
from tests.spark_bridge.transform.play import DOUBLED, double, in_order, run_transform, there

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.guarantee("SP-4", "SP-5"), pytest.mark.timeout(240)]


def doubled_in_python(rows: Any) -> Any:
    from pyspark.sql.functions import udf

    @udf("long")
    def doubled(number: int) -> int:
        return 2 * number

    return rows.select(doubled("number").alias("number"), "word")


@pytest.mark.soak  # source/test_on_a_cluster and topology/test_probe use a cluster, and the calls of Spark are those of local[2]
async def test_transform_on_a_standalone_cluster(spark_cluster: str, tmp_path: Path) -> None:
    conf = {name: value for name, value in driver_settings().items() if name != "spark.executor.memory"}
    config = SparkConfig(master=spark_cluster, driver_memory="512m", executor_memory="512m", conf=conf)
    played = await run_transform(tmp_path, doubled_in_python, config=config)
    assert played.rows == in_order(DOUBLED)


@pytest.mark.deep
async def test_transform_on_a_connect_server(spark_connect: str, tmp_path: Path) -> None:
    played = await run_transform(tmp_path, doubled_in_python, config=SparkConfig(master=spark_connect))
    assert played.rows == in_order(DOUBLED)


@pytest.mark.deep
async def test_connect_cancels_jobs_and_names_the_line_of_an_error(spark_connect: str) -> None:
    held = hold(SparkConfig(master=spark_connect))

    def stay(spark: Any, call: Any) -> None:
        call.emit("begins")
        spark.sql("select reflect('java.lang.Thread', 'sleep', 600000L)").collect()

    def fail(spark: Any, call: Any) -> None:
        doubled_in_python(spark.createDataFrame([(None, "x")], "number long, word string")).collect()

    try:
        heard: list[Any] = []
        staying = asyncio.create_task(held.call(stay, on_event=heard.append))
        await until(lambda: bool(heard))
        staying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(staying, PATIENCE_SECS)
        with pytest.raises(SparkError) as raised:
            await held.call(fail)
        assert "TypeError" in raised.value.message
        assert str(raised.value.place).endswith("in doubled")
        assert raised.value.message.count("\n") == 0
    finally:
        await held.close()


@pytest.mark.deep
async def test_the_connect_server_dies_in_a_batch(own_spark_connect: SparkConnectServer, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def stay_the_first_time(rows: Any) -> Any:
        import os

        if not os.path.exists(begun):
            open(begun, "w").close()
            rows.selectExpr("reflect('java.lang.Thread', 'sleep', 600000L)").collect()
        return double(rows)

    async def kill(running: Run) -> None:
        await there(begun)
        own_spark_connect.kill()
        assert not accepts(own_spark_connect.port)
        await asyncio.to_thread(own_spark_connect.start)

    played = await run_transform(tmp_path, stay_the_first_time, config=SparkConfig(master=own_spark_connect.remote), during=kill)
    assert played.rows == in_order(DOUBLED)
    assert played.errors
