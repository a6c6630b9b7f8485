"""Drivers and executors of a cluster need only the zip. The death of an executor loses and duplicates no row."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_bridge import Parquet, package_zip
from tests.servers import spark_programs
from tests.servers.process import HOST
from tests.servers.spark_cluster import driver_settings
from tests.spark_bridge.writing import Writer

PROGRAM = Path(__file__).with_name("bare_program.py")
SETTINGS = {
    "spark.driver.host": HOST,
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1s",  # each look of an idle query asks a Python process
}


def said_by(*command: str, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, env={**kept, **environment}, cwd=folder)


def test_the_bare_python_does_not_know_this_package(bare_python: Path, tmp_path: Path) -> None:
    done = said_by(str(bare_python), "-c", "import pyspark, pyarrow, spark_bridge", environment={}, folder=tmp_path)
    assert "No module named 'spark_bridge'" in done.stderr


@pytest.mark.guarantee("SP-1", "SP-3")
@pytest.mark.timeout(300)
@pytest.mark.deep
def test_with_the_zip_alone_a_dead_executor_loses_and_duplicates_no_row(spark_cluster: str, bare_python: Path, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "handover", consumers=["c"])
    writer.commit_many(3, rows=4)
    (tmp_path / "out").mkdir()
    pythons = {"PYSPARK_PYTHON": str(bare_python), "PYSPARK_DRIVER_PYTHON": str(bare_python)}
    environment = {**spark_programs.environment(tmp_path), **pythons, "PYTHONPATH": str(tmp_path / "stormcell.zip")}
    settings = {**SETTINGS, **driver_settings(), "spark.driver.extraJavaOptions": spark_programs.jvm_options()}
    options = [option for name, value in settings.items() for option in ("--conf", f"{name}={value}")]
    package = package_zip(tmp_path / "stormcell.zip")
    submit = [str(spark_programs.spark_home() / "bin" / "spark-submit"), "--master", spark_cluster, "--py-files", package, *options]
    done = said_by(*submit, str(PROGRAM), writer.folder, str(tmp_path / "out"), environment=environment, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert all("stormcell.zip" in package for package in json.loads(done.stdout.splitlines()[-1]))
    complete = Parquet(str(tmp_path / "out" / "words")).complete()
    assert complete is not None
    assert complete.txid == 3
    rows = pq.read_table(tmp_path / "out" / "words").to_pylist()
    assert sorted((row["txid"], row["n"]) for row in rows) == [(txid, n) for txid in range(1, 4) for n in range(4)]


def test_the_zip_is_the_same_each_time_and_has_no_engine(tmp_path: Path) -> None:
    one, other = (Path(package_zip(tmp_path / name)) for name in ("one.zip", "other.zip"))
    assert one.read_bytes() == other.read_bytes()
    with zipfile.ZipFile(one) as archive:
        names = archive.namelist()
    expected = {"__init__.py", "handover", "installation.py", "pipeline", "process_identity.py", "sinks", "source"}
    assert {name.split("/")[1] for name in names} == expected


@pytest.mark.deep
def test_the_zip_is_all_that_a_function_on_a_connect_server_needs(bare_python: Path, tmp_path: Path) -> None:
    package = package_zip(tmp_path / "stormcell.zip")
    program = "from spark_bridge.pipeline.offsets import with_txid; from spark_bridge import Sqlite; print(with_txid.__module__)"
    done = said_by(str(bare_python), "-c", program, environment={"PYTHONPATH": package}, folder=tmp_path)
    assert done.stdout == "spark_bridge.pipeline.offsets\n", done.stderr


def test_the_zip_is_made_by_a_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark_bridge.source.package", str(tmp_path / "out.zip")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == str(tmp_path / "out.zip")
    assert zipfile.is_zipfile(tmp_path / "out.zip")
