"""Calls of functions in Spark's process, and their events, cancellation and errors (SP-5)."""

import asyncio
import os
import threading
from typing import Any

import pytest

from engine.errors import UsageError
from spark_bridge.process import SparkChild, SparkConfig, SparkError
from tests.spark_bridge.spark_fixtures import LOCAL, until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.guarantee("SP-5")]


def count(spark: Any, call: Any, n: int) -> int:
    counted: int = spark.range(n).count()
    return counted


def slow_job(spark: Any, call: Any) -> None:
    from pyspark.sql.functions import udf

    @udf("long")
    def nap(x: int) -> int:
        import time

        time.sleep(60)
        return x

    call.emit("begins")
    spark.range(2).select(nap("id")).collect()


def active_jobs(spark: Any, call: Any) -> list[int]:
    return list(spark.sparkContext.statusTracker().getActiveJobsIds())


def until_a_job_runs(spark: Any, call: Any) -> None:
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        call.wait(0.02)


async def test_a_call_returns_the_result_of_the_function(spark_child: SparkChild) -> None:
    assert await spark_child.call(count, 1000) == 1000
    assert await spark_child.call(lambda spark, call: spark.sql("select 'é' as x").collect()[0].x) == "é"


async def test_the_session_lives_in_another_process(spark_child: SparkChild) -> None:
    pid = await spark_child.call(lambda spark, call: os.getpid())
    assert pid == spark_child.facts["pid"] != os.getpid()
    assert os.getpgid(pid) == pid != os.getpgid(0)


async def test_several_calls_run_at_once(spark_child: SparkChild) -> None:
    """Each call waits until both have begun, so sequential calls would never end."""

    def meet(spark: Any, call: Any) -> bool:
        call.emit("here")
        met: bool = call.wait(60)
        return met

    here: list[Any] = []
    both = asyncio.Event()

    def note(event: object) -> None:
        here.append(event)
        if len(here) == 2:
            both.set()

    assert await asyncio.gather(*(spark_child.call(meet, on_event=note, stop=both) for _ in range(2))) == [True, True]


async def test_events_come_in_order_before_the_result(spark_child: SparkChild) -> None:
    def emit(spark: Any, call: Any) -> str:
        for number in range(200):
            call.emit({"number": number})
        return "done"

    heard: list[Any] = []
    assert await spark_child.call(emit, on_event=heard.append) == "done"
    assert heard == [{"number": number} for number in range(200)]


async def test_an_exception_of_on_event_ends_the_call(spark_child: SparkChild) -> None:
    def emit_for_ever(spark: Any, call: Any) -> None:
        while True:
            call.emit(1)

    def refuse(event: object) -> None:
        raise KeyError(event)

    with pytest.raises(KeyError):
        await spark_child.call(emit_for_ever, on_event=refuse)


async def test_a_call_sees_the_request_to_stop(spark_child: SparkChild) -> None:
    def serve(spark: Any, call: Any) -> str:
        call.emit("serves")
        while not call.wait(60):
            continue
        return "stopped" if not call.cancelled else "cancelled"

    stop = asyncio.Event()
    assert await spark_child.call(serve, on_event=lambda event: stop.set(), stop=stop) == "stopped"


async def test_cancelling_the_await_cancels_the_job(spark_child: SparkChild) -> None:
    heard: list[Any] = []
    calling = asyncio.create_task(spark_child.call(slow_job, on_event=heard.append))
    await until(lambda: bool(heard))
    await spark_child.call(until_a_job_runs)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await spark_child.call(active_jobs) == []
    threads = await spark_child.call(lambda spark, call: [thread.name for thread in __import__("threading").enumerate()])
    assert sum(name.startswith("stormcell-call-") for name in threads) == 1


async def test_a_call_has_a_timeout(spark_child: SparkChild) -> None:
    with pytest.raises(SparkError, match=r"slow_job\(\) did not return within 0.5 s, and was cancelled"):
        await spark_child.call(slow_job, timeout=0.5)
    assert await spark_child.call(active_jobs) == []


async def test_an_error_of_the_function_names_its_line(spark_child: SparkChild) -> None:
    def fail(spark: Any, call: Any) -> None:
        raise ValueError("no such thing")

    with pytest.raises(SparkError) as raised:
        await spark_child.call(fail)
    assert raised.value.message.startswith("ValueError: no such thing (")
    assert raised.value.place is not None
    assert "test_spark_child.py:" in raised.value.place
    assert raised.value.place.endswith(" in fail")


async def test_an_error_of_a_python_function_of_the_job_names_its_line(spark_child: SparkChild) -> None:
    def fail(spark: Any, call: Any) -> None:
        from pyspark.sql.functions import udf

        @udf("int")
        def divide(x: int) -> int:
            return 1 // x

        spark.range(3).select(divide("id")).collect()

    with pytest.raises(SparkError) as raised:
        await spark_child.call(fail)
    assert "raised ZeroDivisionError: " in raised.value.message
    assert raised.value.place is not None
    assert raised.value.place.endswith(" in divide")
    assert raised.value.condition == "PYTHON_EXCEPTION"
    assert raised.value.message.count("\n") == 0


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("select nope from range(3)", "UNRESOLVED_COLUMN"),
        ("select 1 / id from range(3)", "DIVIDE_BY_ZERO"),
        ("selec 1", "PARSE_SYNTAX_ERROR"),
    ],
)
async def test_an_error_of_spark_has_its_condition_and_no_stack(spark_child: SparkChild, query: str, condition: str) -> None:
    def run(spark: Any, call: Any) -> None:
        spark.sql(query).collect()

    with pytest.raises(SparkError) as raised:
        await spark_child.call(run)
    assert raised.value.condition is not None
    assert raised.value.condition.startswith(condition)
    assert raised.value.message.count("\n") <= 1
    assert "test_spark_child.py" in str(raised.value.place)
    assert "at org.apache" not in str(raised.value)


async def test_an_argument_or_result_that_is_too_large_is_refused(spark_child: SparkChild) -> None:
    with pytest.raises(SparkError, match="at most 16,777,216"):
        await spark_child.call(lambda spark, call: b"x" * (17 * 2**20))
    with pytest.raises(SparkError, match="Put large values into a file"):
        await spark_child.call(lambda spark, call, given: None, b"x" * (17 * 2**20))


async def test_a_function_that_cannot_be_pickled_is_refused(spark_child: SparkChild) -> None:
    lock = threading.Lock()
    with pytest.raises(SparkError, match="cannot be sent to Spark's process"):
        await spark_child.call(lambda spark, call: lock.acquire())


async def test_nothing_is_started_before_the_first_call() -> None:
    child = SparkChild(SparkConfig(app_name="never"))
    assert child.facts == {}
    await child.close()
    with pytest.raises(UsageError, match="was closed"):
        await child.call(count, 1)


async def test_spark_does_not_listen_beyond_this_machine(spark_child: SparkChild) -> None:
    def addresses(spark: Any, call: Any) -> list[Any]:
        context = spark.sparkContext
        return [context.getConf().get("spark.driver.host"), context.uiWebUrl, context.getConf().get("spark.sql.warehouse.dir")]

    host, ui, warehouse = await spark_child.call(addresses)
    assert (host, ui) == ("127.0.0.1", None)
    assert "stormcell-spark-" in warehouse
    assert LOCAL.is_on_this_machine
