"""After a death in Spark, the error names the cause, and the next call starts a new process (SP-5)."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_bridge.process import SparkChild, SparkDied
from spark_bridge.process.child.diagnosis import describe_status
from tests.patience import PATIENCE_SECS
from tests.project.sources import ROOT
from tests.servers.keeper import descendants
from tests.spark_bridge.process.test_spark_child import count, slow_job
from tests.spark_bridge.spark_fixtures import group_members, is_running, new_jvms, until

pytestmark = pytest.mark.guarantee("SP-5")


async def died_in(child: SparkChild, process: str) -> tuple[SparkDied, dict[str, Any]]:
    """Kill a process with SIGKILL during a job. Return the error of the call, and the facts of the child."""
    heard: list[Any] = []
    calling = asyncio.create_task(child.call(slow_job, on_event=heard.append))
    await until(lambda: bool(heard), 120)
    facts = child.facts
    os.kill(facts[process], signal.SIGKILL)
    with pytest.raises(SparkDied) as raised:
        await asyncio.wait_for(calling, PATIENCE_SECS)
    return raised.value, facts


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.deep
async def test_a_death_without_a_call_is_noticed(spark_child: SparkChild) -> None:
    assert await spark_child.call(count, 10) == 10
    facts = spark_child.facts
    os.kill(facts["jvm_pid"], signal.SIGKILL)
    await until(lambda: spark_child.facts == {})
    await until(lambda: not group_members(facts["pid"]))


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.deep
async def test_the_jvm_is_killed_in_a_job(spark_child: SparkChild) -> None:
    error, facts = await died_in(spark_child, "jvm_pid")
    assert "the JVM was killed by SIGKILL" in error.message
    assert "the end of its log" in error.message
    await until(lambda: not group_members(facts["pid"]))


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.deep
async def test_the_child_is_killed_in_a_job(spark_child: SparkChild) -> None:
    error, facts = await died_in(spark_child, "pid")
    assert "Spark's process was killed by SIGKILL" in error.message
    await until(lambda: not group_members(facts["pid"]))
    assert spark_child.facts == {}


async def log_of_ended(child: SparkChild) -> Path:
    """Return the log of a child that has no process. A process of an earlier test is killed."""
    if child._log is None:
        await child.call(count, 10)
    if facts := child.facts:
        os.kill(facts["pid"], signal.SIGKILL)
        await until(lambda: child.facts == {} and not group_members(facts["pid"]))
    assert child._log is not None
    return Path(child._log)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.deep
async def test_the_jvm_is_killed_while_it_starts(spark_child: SparkChild) -> None:
    """Once before its gateway is ready, then while it creates the context. Each time the next call starts another JVM."""
    log = await log_of_ended(spark_child)
    before = set(descendants(os.getpid()))
    for line in (b"", b"NativeCodeLoader"):
        begin = log.stat().st_size
        calling = asyncio.create_task(spark_child.call(count, 10))
        await until(lambda: bool(new_jvms(before)))
        await until(lambda: line in log.read_bytes()[begin:])  # noqa: B023 - it is awaited here
        for pid in new_jvms(before):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(SparkDied, match="killed by SIGKILL"):
            await asyncio.wait_for(calling, PATIENCE_SECS)
    assert await spark_child.call(count, 10) == 10


ENGINE = """
import asyncio, sys
from tests.spark_bridge.spark_fixtures import LOCAL
from tests.spark_bridge.process.test_spark_child import slow_job
from spark_bridge.process import SparkChild

async def main():
    child = SparkChild(LOCAL)
    await child.call(slow_job, on_event=lambda event: print(child.facts["pid"], child.facts["jvm_pid"], flush=True))

asyncio.run(main())
"""


@pytest.mark.deep
@pytest.mark.usefixtures("spark_here")
async def test_no_process_outlives_a_killed_engine() -> None:
    engine = await asyncio.create_subprocess_exec(sys.executable, "-c", ENGINE, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert engine.stdout is not None
        pid, jvm = map(int, (await engine.stdout.readline()).split())
        assert is_running(pid)
        assert is_running(jvm)
    finally:
        engine.kill()
        await engine.communicate()
    await until(lambda: not is_running(jvm) and not group_members(pid))


def test_an_exit_status_is_described_in_words() -> None:
    assert describe_status(-signal.SIGTERM) == "was killed by SIGTERM"
    assert describe_status(1) == "ended with status 1"


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.deep
async def test_a_session_that_spark_has_stopped_is_replaced(spark_child: SparkChild) -> None:
    """A cluster removes an application whose executors die again and again. Spark then stops the session, and its JVM lives on."""
    await spark_child.call(lambda spark, call: spark.sparkContext._jsc.sc().stop())
    with pytest.raises(SparkDied, match="Spark has stopped the session") as raised:
        await spark_child.call(count, 10)
    assert "opens a new session" in str(raised.value)
    assert await spark_child.call(count, 10) == 10
