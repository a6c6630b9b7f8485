"""The archive of Spark's classes: built by a command, found by sessions, and ignored if it is not valid."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_bridge.cli.main import run_command_line
from spark_bridge.process import SparkChild, SparkConfig, archive_builder
from spark_bridge.process.child import class_archive
from spark_bridge.process.child.class_archive import archive_path, archives, java_option
from tests.servers import spark_programs
from tests.servers.required import required

SHARED = "source: shared objects file (top)"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache folder. The JVM collects garbage as for a user, and compiles little, which does not matter to an archive."""
    required(spark_programs.why_not())
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "stormcell" / "spark-classes"


def leave_one_of_before(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / f"{archive_path().name.split('-')[0]}-ofbefore.jsa").touch()


async def loaded_by_a_session(log: Path) -> str:
    """Return Java's log of the classes that the start of a session loads."""
    child = SparkChild(
        SparkConfig(master="local[1]", driver_memory="512m", conf={"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={log}"})
    )
    try:
        assert await child.call(lambda spark, call: spark.version == spark.sparkContext.version)
    finally:
        await child.close()
    return await asyncio.to_thread(log.read_text)


@pytest.mark.deep
async def test_a_session_maps_the_archive_of_the_tests(tmp_path: Path) -> None:
    required(spark_programs.why_not())
    await asyncio.to_thread(spark_programs.prepare)
    assert (await loaded_by_a_session(tmp_path / "with.txt")).count(SHARED) > 5000


@pytest.mark.timeout(300)
@pytest.mark.soak  # an archive takes as long as five sessions
async def test_a_session_maps_the_prepared_archive(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert java_option() == ""
    leave_one_of_before(cache)
    assert run_command_line(["prepare"]) == 0
    assert os.listdir(cache) == [archive_path().name]
    assert f"wrote {archive_path()}: " in capsys.readouterr().out
    assert (await loaded_by_a_session(tmp_path / "with.txt")).count(SHARED) > 5000

    elsewhere = archive_path()
    with monkeypatch.context() as other:
        (tmp_path / "empty").mkdir()
        other.setenv("SPARK_CONF_DIR", str(tmp_path / "empty"))
        shutil.copy(elsewhere, archive_path())
        assert (await loaded_by_a_session(tmp_path / "misfit.txt")).count(SHARED) == 0
        assert run_command_line(["prepare", "--remove"]) == 0

    assert run_command_line(["prepare", "--remove"]) == 0
    assert os.listdir(cache) == []
    assert run_command_line(["prepare", "--remove"]) == 0
    assert "there is no archive" in capsys.readouterr().out


def test_an_archive_of_other_jars_is_not_used(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "jars" / "spark.jar"
    jar.parent.mkdir()
    jar.touch()
    monkeypatch.setattr(class_archive, "spark_home", lambda: str(tmp_path))
    before = archive_path()
    cache.mkdir(parents=True)
    before.touch()
    assert java_option() == f"-XX:SharedArchiveFile={before}"
    os.utime(jar, (1, 1))  # as a new installation does
    assert java_option() == ""
    assert archives() == [before]
    assert archive_path().parent == before.parent


def test_a_folder_of_settings_cannot_be_archived(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.ui.enabled false\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    assert run_command_line(["prepare"]) == 1
    said = capsys.readouterr().err
    assert f"the settings folder {str(tmp_path / 'conf')!r}" in said
    assert "SPARK_CONF_DIR" in said
    assert not cache.exists()


def test_a_slow_build_is_given_up(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(archive_builder, "BUILD_SECS", 0.5)
    assert run_command_line(["prepare"]) == 1
    assert "in 0 s" in capsys.readouterr().err
    assert os.listdir(cache) == []


def test_without_java_prepare_says_so_in_one_line(tmp_path: Path) -> None:
    required(spark_programs.why_not())
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "spark_bridge", "prepare"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "no Java was found" in done.stderr
