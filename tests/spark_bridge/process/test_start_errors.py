"""Errors of the start: one error with its fix, without a wait for the JVM (SP-5)."""

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError, FatalError
from engine.installation import install_command
from spark_bridge.process import SparkChild, SparkConfig, SparkMissing, SparkUnavailable, pickling
from spark_bridge.process.child.diagnosis import explain_start_error
from spark_bridge.process.spark_process import SparkProcess

pytestmark = pytest.mark.guarantee("SP-5")


async def refusal(config: SparkConfig) -> Exception:
    child = SparkChild(config)
    try:
        with pytest.raises((SparkMissing, SparkUnavailable)) as raised:
            await child.call(lambda spark, call: None)
    finally:
        await child.close()
    return raised.value


@pytest.fixture
def without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, pickling._MODULE_NAME, raising=False)


@pytest.mark.usefixtures("without_pyspark")
async def test_no_pyspark() -> None:
    error = await refusal(SparkConfig())
    assert isinstance(error, FatalError)
    assert "pyspark is not installed" in str(error)
    assert install_command("spark") in str(error)


async def test_a_user_module_that_hides_a_standard_module_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "numbers.py").write_text("from decimal import Decimal\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    error = await refusal(SparkConfig())
    assert isinstance(error, SparkMissing)
    assert "pyspark is installed, but cannot be imported: " in str(error)
    assert f'File "{tmp_path}/numbers.py", line 1' in str(error)
    assert "a module of yours that hides another one" in str(error)
    assert "pip install" not in str(error)


async def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    error = await refusal(SparkConfig(log_file=str(tmp_path / "spark.log")))
    assert isinstance(error, SparkMissing)
    assert "no Java was found (JAVA_HOME is not set, and PATH has no java)" in str(error)
    assert "apt-get install openjdk-17" in str(error)
    assert str(tmp_path / "spark.log") in str(error)


async def test_java_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    error = await refusal(SparkConfig())
    assert isinstance(error, SparkMissing)
    assert "Java 11 is too old" in str(error)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.parametrize("scheme", ["spark", "sc"])
@pytest.mark.usefixtures("spark_here")
async def test_nobody_answers(scheme: str) -> None:
    error = await refusal(SparkConfig(master=f"{scheme}://127.0.0.1:{free_port()}"))
    assert isinstance(error, SparkUnavailable)
    assert "cannot be reached: Connection refused" in str(error)


@pytest.mark.deep
@pytest.mark.usefixtures("spark_here")
async def test_a_start_that_fails_again_waits_before_the_next() -> None:
    child = SparkChild(SparkConfig(master=f"spark://127.0.0.1:{free_port()}"))
    for _ in range(2):
        with pytest.raises(SparkUnavailable):
            await child.call(lambda spark, call: None)
    assert child._failures == 2
    assert child._not_before > 0
    await child.close()


async def test_the_pause_before_a_start_doubles_with_each_failure() -> None:
    child, loop, pauses = SparkChild(SparkConfig()), asyncio.get_running_loop(), []
    for _ in range(8):
        child._note_failure(SparkProcess(child.config, "", child._pool))
        pauses.append(child._not_before - loop.time())
    assert pauses == pytest.approx([0, 1, 2, 4, 8, 16, 30, 30], abs=0.5)
    await child.close()


async def test_a_jar_that_is_not_there() -> None:
    error = await refusal(SparkConfig(jars=("/nowhere/x.jar",)))
    assert "there is no file '/nowhere/x.jar'" in str(error)


async def test_connect_without_grpc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "grpc.py").write_text("raise ImportError(\"No module named 'grpc'\", name='grpc')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    error = await refusal(SparkConfig(master="sc://127.0.0.1:1"))
    assert isinstance(error, SparkMissing)
    assert error.hint == install_command("spark-connect")


@pytest.mark.deep
@pytest.mark.usefixtures("spark_here")
async def test_the_error_of_a_refused_jvm_option_shows_the_log() -> None:
    error = await refusal(SparkConfig(driver_memory="1k"))
    assert isinstance(error, SparkMissing)
    assert "its JVM ended during its start; the end of its log" in str(error)
    assert "heap" in str(error)


@pytest.mark.deep
@pytest.mark.usefixtures("spark_here")
async def test_a_wrong_sql_setting_is_refused_at_the_start() -> None:
    """Spark itself validates these settings at the first query, not at its start."""
    conf = {"spark.sql.shuffle.partitions": "abc"}
    error = await refusal(SparkConfig(master="local[1]", driver_memory="512m", conf=conf))
    assert isinstance(error, SparkMissing)
    assert "spark.sql.shuffle.partitions" in str(error)
    assert "--conf" in str(error)


@pytest.mark.parametrize(
    ("said", "is_temporary", "part"),
    [
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.", False, "its JVM ended"),
        (
            'An error occurred while calling None.x.\n: java.lang.NumberFormatException: For input string: "a"\n\tat java.b',
            False,
            "NumberForm",
        ),
        (
            "java.net.BindException: Address already in use: Service 'sparkDriver' failed after retries (on 1)!",
            True,
            "a port cannot be taken",
        ),
        ("org.apache.spark.SparkException: All masters are unresponsive! Giving up.", True, "does not answer"),
    ],
)
def test_a_start_error_of_spark_becomes_one_line(said: str, is_temporary: bool, part: str) -> None:
    settings: dict[str, Any] = {"master": "spark://host:7077"}
    failure = explain_start_error(settings, RuntimeError(said)).failure
    assert failure.is_temporary is is_temporary
    assert part in failure.message
    assert "\n" not in failure.message
    assert failure.hint


def test_a_wrong_master_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="sc://host:15002"):
        SparkConfig(master="localhost")
