"""SparkTransform: every row once, with failures at each stage (SP-4)."""

import asyncio
import os
import re
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine import ComponentError, TopologyError, UsageError
from engine.errors import StateUnavailable
from engine.runtime.run import Run
from engine.transactional import TransactionAttempt
from spark_bridge.process import SparkChild
from spark_bridge.process.spark_child import hold
from spark_bridge.transform import SparkTransform
from spark_bridge.transform.spool import AttemptFiles
from tests.spark_bridge.process.test_spark_child import active_jobs
from tests.spark_bridge.spark_fixtures import LOCAL, until
from tests.spark_bridge.transform.play import DOUBLED, ROWS, double, in_order, run_transform, spools, there, touch

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.guarantee("SP-4"), pytest.mark.timeout(240)]


async def test_every_row_comes_out_once(spark_child: SparkChild, tmp_path: Path) -> None:
    played = await run_transform(tmp_path)
    assert played.rows == in_order(DOUBLED)
    assert played.errors == []
    assert spools() == []


@pytest.mark.deep
async def test_rows_damaged_in_the_spool_fail_the_batch(spark_child: SparkChild, tmp_path: Path) -> None:
    """Spark verifies the checksums of pages. Without that it would read wrong rows."""
    done = str(tmp_path / "damaged")

    def damage(rows: Any) -> Any:
        import os
        from urllib.parse import urlsplit

        if not os.path.exists(done):
            open(done, "w").close()
            with open(urlsplit(rows.inputFiles()[0]).path, "r+b") as file:
                content = file.read()
                at = content.index(b"\x28\xb5\x2f\xfd") + 14  # a number of the first page: zstd does not see it
                file.seek(at)
                file.write(bytes([content[at] ^ 1]))
        return double(rows)

    played = await run_transform(tmp_path, damage)
    await there(done)
    assert played.rows == in_order(DOUBLED)


@pytest.mark.parametrize(("kept", "rows"), [(0, 100), (40, 100), (0.5, 100), (1.0, 99)])
async def test_a_damaged_result_is_refused(tmp_path: Path, kept: float, rows: int) -> None:
    files = AttemptFiles(str(tmp_path), TransactionAttempt(7, 2**32 + 1))
    table = pa.table({"n": range(100), "word": ["word"] * 100})
    with pa.OSFile(files.result_path, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    assert [row for part in files.read_slices(100) for row in part] == [(n, "word") for n in range(100)]
    with pa.OSFile(files.result_path) as file:
        size = file.size()
    os.truncate(files.result_path, int(kept if kept > 1 else kept * size))
    with pytest.raises(StateUnavailable, match=r"the result of a batch, '.*result.arrow', cannot be read: "):
        list(files.read_slices(rows))


@pytest.mark.deep
async def test_two_batches_run_in_spark_concurrently(spark_child: SparkChild, tmp_path: Path) -> None:
    """Each job waits for another one, so sequential jobs would never end."""
    here = str(tmp_path)

    def meet(rows: Any) -> Any:
        import os
        import tempfile
        import threading

        open(tempfile.mkstemp(prefix="met-", dir=here)[1]).close()
        while sum(name.startswith("met-") for name in os.listdir(here)) < 3:  # of three jobs two are of other batches
            threading.Event().wait(0.01)
        return double(rows)

    played = await run_transform(tmp_path, meet, take=20)
    assert played.rows == in_order(DOUBLED)


@pytest.mark.deep
async def test_a_job_does_not_block_the_event_loop(spark_child: SparkChild, tmp_path: Path) -> None:
    """The job waits for a file that only the running event loop can create."""
    begun, may_end = tmp_path / "begun", tmp_path / "may end"

    def wait(rows: Any) -> Any:
        import os
        import threading

        open(begun, "w").close()
        while not os.path.exists(may_end):
            threading.Event().wait(0.01)
        return double(rows)

    async def let_it_end(running: Run) -> None:
        await there(begun)
        await touch(may_end)

    played = await run_transform(tmp_path, wait, during=let_it_end)
    assert played.rows == in_order(DOUBLED)


@pytest.mark.deep
async def test_a_job_of_a_replaced_attempt_is_cancelled(spark_child: SparkChild, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def stay_the_first_time(rows: Any) -> Any:
        import os

        from pyspark.sql.functions import udf

        first = not os.path.exists(f"{begun}.broken")

        @udf("long")
        def doubled(number: int) -> int:
            import threading

            if first:
                open(begun, "w").close()
                threading.Event().wait(600)
            return 2 * number

        return rows.select(doubled("number").alias("number"), "word")

    played = await run_transform(tmp_path, stay_the_first_time, breaks_at=begun)
    assert played.rows == in_order(DOUBLED)
    assert await spark_child.call(active_jobs) == []
    assert spools() == []


@pytest.mark.deep
async def test_an_exception_of_the_function_is_reported_and_the_batch_replayed(spark_child: SparkChild, tmp_path: Path) -> None:
    failed = tmp_path / "failed"

    def fail_once(rows: Any) -> Any:
        import os

        from pyspark.sql.functions import udf

        fails = not os.path.exists(failed)
        open(failed, "w").close()

        @udf("long")
        def divided(number: int) -> int:
            return number // 0 if fails else 2 * number

        return rows.select(divided("number").alias("number"), "word")

    played = await run_transform(tmp_path, fail_once)
    assert played.rows == in_order(DOUBLED)
    assert "raised ZeroDivisionError: " in played.errors[0]
    assert "test_spark_transform.py:" in played.errors[0]
    assert "in divided" in played.errors[0]


@pytest.mark.deep
async def test_batches_are_replayed_after_two_deaths_of_spark(spark_child: SparkChild, tmp_path: Path) -> None:
    """First the JVM is killed, then the Python process that started it."""
    first, killed, second, may_end = (tmp_path / name for name in ("first", "killed", "second", "may end"))

    def stay(rows: Any) -> Any:
        import os
        import threading

        while not os.path.exists(may_end):
            open(second if os.path.exists(killed) else first, "w").close()
            threading.Event().wait(0.02)
        return double(rows)

    async def kill(running: Run) -> None:
        await there(first)
        jvm = spark_child.facts["jvm_pid"]
        os.kill(jvm, signal.SIGKILL)
        await until(lambda: spark_child.facts.get("jvm_pid") != jvm)
        await touch(killed)
        await there(second)
        os.kill(spark_child.facts["pid"], signal.SIGKILL)
        await touch(may_end)

    played = await run_transform(tmp_path, stay, during=kill)
    assert played.rows == in_order(DOUBLED)
    assert any("the JVM was killed by SIGKILL" in text for text in played.errors)
    assert any("Spark's process was killed by SIGKILL" in text for text in played.errors)
    await until(lambda: not spools())


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (lambda rows: rows.select("word"), "returned no column 'number' of output_fields. Its columns are: word"),
        (lambda rows: rows.count(), "which is not a DataFrame"),
    ],
)
@pytest.mark.deep
async def test_a_result_of_the_wrong_kind_is_reported(spark_child: SparkChild, tmp_path: Path, returned: Any, says: str) -> None:
    fixed = tmp_path / "fixed"

    def fail_once(rows: Any) -> Any:
        import os

        if os.path.exists(fixed):
            return double(rows)
        open(fixed, "w").close()
        return returned(rows)

    played = await run_transform(tmp_path, fail_once)
    assert says in played.errors[0]
    assert played.rows == in_order(DOUBLED)


async def test_a_row_that_does_not_fit_the_schema_ends_the_run(spark_child: SparkChild, tmp_path: Path) -> None:
    with pytest.raises(ComponentError) as raised:
        await run_transform(tmp_path, schema="number long, word int")
    assert re.search(r"does not fit the schema: column 'word' is int32, and the value is 'word \d+' \(str\)", str(raised.value))
    assert "SparkTransform" in str(raised.value)


async def test_a_task_without_rows_starts_no_job(spark_child: SparkChild, tmp_path: Path) -> None:
    """A batch of one row leaves one of two tasks without rows. An aggregate over no rows would emit a row."""
    played = await run_transform(tmp_path, lambda rows: rows.selectExpr("count(*) as number", "'n' as word"), rows=ROWS[:3], take=1)
    assert played.rows == [{"number": 1, "word": "n"}] * 3


@pytest.mark.deep
async def test_rows_go_through_the_driver_where_no_folder_is_shared(spark_child: SparkChild, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from spark_bridge.transform.job import Job, run_job

    rows, result = str(tmp_path / "rows.parquet"), str(tmp_path / "result.arrow")
    pq.write_table(pa.table({"number": [1, 2], "word": ["a", None]}), rows)
    job = Job(double, "number bigint, word string", rows, result, ("word", "number"), executors_read=False)
    assert await spark_child.call(run_job, job) == 2
    with pa.ipc.open_stream(result) as reader:
        assert reader.read_all().to_pylist() == [{"word": "a", "number": 2}, {"word": None, "number": 4}]


async def test_tasks_and_tests_share_one_spark(spark_child: SparkChild) -> None:
    held = hold(LOCAL)
    assert held.child is spark_child
    await held.close()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"function": 3}, "function"),
        ({"function": lambda: None}, "function"),
        ({"schema": "number longg"}, "longg"),
        ({"output_fields": {"default": "x"}}, "output_fields"),
        ({"config": "local"}, "SparkConfig"),
        ({"spool": ""}, "spool"),
    ],
)
async def test_a_wrong_argument_is_refused_at_once(wrong: dict[str, Any], says: str) -> None:
    right: dict[str, Any] = {"function": double, "schema": "number long", "output_fields": "number"}
    with pytest.raises(UsageError, match=says):
        SparkTransform(**{**right, **wrong})


async def test_a_column_that_no_field_fills_is_found_by_build(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="reads the field 'numbr'"):
        await run_transform(tmp_path, schema="numbr long")


@pytest.mark.deep
async def test_many_runs_leave_nothing(spark_child: SparkChild, tmp_path: Path) -> None:
    threads = await spark_child.call(lambda spark, call: __import__("threading").active_count())
    await asyncio.gather(*(run_transform(tmp_path / str(number)) for number in range(2)))
    assert await spark_child.call(lambda spark, call: __import__("threading").active_count()) == threads
    assert spools() == []
