"""The archive of the engine for executors (CL-4)."""

import subprocess
import sys
import tarfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from engine.errors import UsageError
from spark_bridge.process import SparkConfig, engine_archive
from spark_bridge.process.child.classic import _conf
from spark_bridge.process.engine_archive import write_engine_archive
from tests.project.sources import ROOT


@pytest.mark.guarantee("CL-4")
def test_the_archive_is_all_that_a_bare_python_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark_bridge", "package", "--engine", str(tmp_path / "env.tar.gz")]
    written = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert written.stdout.startswith(f"wrote {tmp_path}/env.tar.gz: "), written.stderr
    with tarfile.open(tmp_path / "env.tar.gz") as archive:
        archive.extractall(tmp_path / "environment", filter="data")
    program = "import spark_bridge.topology.level_run, engine; print(engine.__file__)"
    command = [sys.executable, "-S", "-c", program]
    environment = {"PYTHONPATH": str(tmp_path / "environment")}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.strip() == str(tmp_path / "environment" / "engine" / "__init__.py"), done.stderr


@pytest.mark.guarantee("CL-4")
def test_the_same_environment_gives_the_same_archive_and_an_extra_adds_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_archive, "PACKAGES", ("_native", "spark_bridge"))  # the engine has many files
    one, other = (Path(write_engine_archive(tmp_path / name, ["redis"])) for name in ("one.tgz", "other.tar.gz"))
    assert one.read_bytes() == other.read_bytes()
    with tarfile.open(one) as archive:
        packages = {name.partition("/")[0] for name in archive.getnames()}
        assert not [name for name in archive.getnames() if name.endswith((".pyx", ".pyc"))]
    assert {"_native", "spark_bridge", "msgpack", "click", "rich", "redis"} <= packages
    assert not {"pyspark", "pandas", "pytest"} & packages


@pytest.mark.parametrize(
    ("name", "extras", "text"),
    [("env.zip", [], "no name for the archive"), ("env.tar.gz", ["kafak"], "no extra 'kafak'")],
)
def test_a_wrong_name_and_an_unknown_extra_are_refused(name: str, extras: list[str], text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=text):
        write_engine_archive(tmp_path / name, extras)


def test_a_package_that_does_not_list_its_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Distribution, "files", None)
    with pytest.raises(UsageError, match="does not list its files"):
        write_engine_archive(tmp_path / "env.tar.gz")


def test_executors_import_from_the_archives_and_from_the_users_folders(tmp_path: Path) -> None:
    given = {"spark.executorEnv.PYTHONPATH": "/shared/lib"}
    archives = ["/a/env.tar.gz#environment", "hdfs:///more.tar.gz"]
    config = SparkConfig(master="yarn", archives=archives, conf=given)  # type: ignore[arg-type]
    conf = _conf(config.as_plain(), str(tmp_path))
    assert conf.get("spark.archives") == "/a/env.tar.gz#environment,hdfs:///more.tar.gz"
    assert conf.get("spark.executorEnv.PYTHONPATH") == "./environment:./more.tar.gz:/shared/lib"
