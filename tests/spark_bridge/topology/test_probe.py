"""Executors that cannot run a topology are found before its first batch, with all reasons (CL-4)."""

import asyncio
import importlib
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engine import ComponentError, Config
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from engine.version import __version__
from spark_bridge.process import SparkChild, SparkConfig
from spark_bridge.process.engine_archive import write_engine_archive
from spark_bridge.topology import cluster_run
from spark_bridge.topology.pickled_program import pickle_program
from spark_bridge.topology.probe import Finding, Probe, faults_of, finding_of_failure, load_each, look_at
from tests.servers.spark_cluster import driver_settings
from tests.spark_bridge.spark_fixtures import LOCAL
from tests.spark_bridge.topology.both_engines import Committed
from tests.spark_bridge.topology.test_on_spark import words

HERE = platform.python_version()


def _program() -> bytes:
    topology = cluster_run.on_spark(words(Committed()))
    [feature] = [each for each in topology.features if isinstance(each, cluster_run.ClusterTransactions)]
    return pickle_program(cluster_run.ClusterRun(topology, Config(), feature).program())


def _spool(folder: Path, token: str = "token") -> str:
    (folder / "probe").mkdir()
    (folder / "probe" / "engine").write_text(token)
    return str(folder / "probe")


def _faults(folder: str | None, python: str = HERE, version: str = __version__, program: bytes | None = None) -> list[str]:
    looked = list(look_at(python, version, program or _program(), folder, "token")(0, []))
    return faults_of([Finding(*each) for each in looked], Probe("", folder, "token"))


@pytest.mark.guarantee("CL-4")
def test_an_executor_like_this_process_has_no_faults(tmp_path: Path) -> None:
    assert not _faults(_spool(tmp_path))


@pytest.mark.guarantee("CL-4")
def test_all_reasons_of_an_executor_are_told_at_once(tmp_path: Path) -> None:
    python, engine, folder = _faults(_spool(tmp_path, "another machine"), python="3.9.1", version="0.0.1")
    assert f"has Python {HERE}, and the engine runs on 3.9.1" in python
    assert "python= of SparkConfig" in python
    assert f"has version {__version__} of the engine, and 0.0.1 runs here" in engine
    assert "package --engine" in engine
    assert "other files than on the machine of the engine" in folder
    assert "--spool" in folder


@pytest.mark.guarantee("CL-4")
def test_a_folder_that_executors_cannot_read_and_a_file_that_the_engine_cannot_see_are_faults(tmp_path: Path) -> None:
    [unread] = _faults(str(tmp_path / "absent"))
    assert "No such file" in unread
    [unseen] = faults_of([Finding("a", "wrote", "a-1-0"), Finding("b", "wrote", "b-1-1")], Probe("", str(tmp_path), "token"))
    assert unseen.startswith("executors a, b: has written a file")


@pytest.mark.guarantee("CL-4")
def test_a_part_that_needs_a_missing_module_is_named_with_its_component() -> None:
    part = b"cabsent_module\nBolt\n."
    [finding] = [Finding(*each) for each in load_each([("bolt 'split'", part)])(0, [])]
    [fault] = faults_of([finding], Probe("", None, ""))
    assert "cannot load bolt 'split': ModuleNotFoundError: No module named 'absent_module'" in fault
    assert "--py-files absent_module.py" in fault


@pytest.mark.guarantee("CL-4")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): [PYTHON_VERSION_MISMATCH] Python in worker has different "
            "version: 3.9 than that in driver: 3.11, PySpark cannot run",
            Finding("10.0.0.7", "python", "has Python 3.9, and the engine runs on 3.11"),
        ),
        (
            'java.io.IOException: Cannot run program "/no/python": error=2',
            Finding("of the job", "python", "cannot start the Python /no/python"),
        ),
        (
            "Lost task 0.3 in stage 1.0 (TID 62) (10.0.0.7 executor 0): java.io.InvalidClassException: org.apache.spark.rdd.RDD; local "
            "class incompatible: stream classdesc serialVersionUID = 2156047220611086279, local class serialVersionUID = -26",
            Finding("10.0.0.7", "spark", "has another version of Spark than the driver, which has 4.2.1"),
        ),
        (
            "java.lang.NoSuchMethodError: 'scala.Option org.apache.spark.TaskContext.cpus()'",
            Finding("of the job", "spark", "has another version of Spark than the driver, which has 4.2.1"),
        ),
        ("Job aborted: an executor was lost", None),
        ("java.io.InvalidClassException: com.example.Row; local class incompatible", None),
        ("java.lang.OutOfMemoryError: Java heap space at org.apache.spark.Task", None),
    ],
)
def test_workers_that_cannot_begin_are_faults_and_other_failures_are_not(text: str, expected: Finding | None) -> None:
    assert finding_of_failure(text, "4.2.1") == expected


HIDDEN = """
from engine import BasicBolt

class Hidden(BasicBolt):
    output_fields = "word"

    def execute(self, tup):
        return (tup["line"],)
"""


@pytest.fixture
def import_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Any]]:
    """Return a function that imports a module from a new folder. A running process of Spark does not know the folder."""

    def import_it() -> Any:
        (tmp_path / "hidden_bolts.py").write_text(HIDDEN)
        monkeypatch.syspath_prepend(str(tmp_path))
        return importlib.import_module("hidden_bolts")

    yield import_it
    sys.modules.pop("hidden_bolts", None)


@pytest.mark.deep
@pytest.mark.guarantee("CL-4")
@pytest.mark.asyncio(loop_scope="session")
async def test_a_module_that_executors_lack_ends_the_start(spark_child: SparkChild, import_hidden: Callable[[], Any]) -> None:
    await spark_child.call(lambda spark, call: spark.version)
    builder = TransactionalTopologyBuilder("hidden", "lines", MemoryTransactionalSpout([("a",)], "line", take=1))
    builder.set_bolt("bolt", import_hidden().Hidden).shuffle_grouping("lines")
    with pytest.raises(ComponentError) as raised:
        async with asyncio.timeout(100), cluster_run.run(builder.build(), Config(), spark=LOCAL):
            raise AssertionError("the run has begun")
    assert "cannot load bolt 'bolt': ModuleNotFoundError: No module named 'hidden_bolts'" in str(raised.value)


@pytest.mark.deep
@pytest.mark.guarantee("CL-4")
@pytest.mark.timeout(240)
@pytest.mark.asyncio(loop_scope="session")
async def test_executors_with_a_bare_python_are_refused_and_run_with_the_archive(
    spark_cluster: str, barest_python: Path, spots: ModuleType, tmp_path: Path
) -> None:
    archive = write_engine_archive(tmp_path / "env.tar.gz")

    def spark(*archives: str) -> SparkConfig:
        conf = driver_settings()
        memory = conf.pop("spark.executor.memory")
        python = str(barest_python)
        return SparkConfig(spark_cluster, driver_memory="512m", executor_memory=memory, conf=conf, python=python, archives=archives)

    with pytest.raises(ComponentError) as raised:
        async with asyncio.timeout(110), cluster_run.run(spots.topology(), Config(), spark=spark()):
            raise AssertionError("the run has begun")
    assert "cannot import the engine: ModuleNotFoundError: No module named 'engine'" in str(raised.value)
    assert "package --engine" in str(raised.value)

    running = cluster_run.run(spots.topology(), Config(), spark=spark(f"{archive}#environment"))
    async with asyncio.timeout(110), running:
        await running.completed()
    assert not running.snapshot().errors
    assert len(spots.KEPT) == 3
    assert not spots.wrong()
