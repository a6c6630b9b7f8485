"""Values whose classes are defined in the topology's own file cross every level and come back (CL-2)."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engine import Config
from engine.cli.console.user_file import UserFile
from engine.errors import TopologyFileError
from engine.topology import Topology
from spark_bridge.process import SparkChild, pickling
from spark_bridge.topology import cluster_run
from spark_bridge.topology.pickled_program import pickle_program, unpickle_program
from tests.project.sources import ROOT
from tests.spark_bridge.spark_fixtures import LOCAL
from tests.spark_bridge.topology.both_engines import play
from tests.spark_bridge.topology.level_process import ProcessJobs

FILE = '''
import enum
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from engine import BasicBolt
from engine.transactional import Committer, MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.transactional.batch_topologies import Batches

LOCK = threading.Lock()
with open(__file__ + ".imports", "a") as imports:
    imports.write("x")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True, slots=True)
class Size:
    width: int
    color: Color


class Spot(NamedTuple):
    x: int
    size: Size


class Locked:
    """Cannot be sent, because a method uses a lock."""

    def __enter__(self):
        return LOCK.__enter__()


class Make(BasicBolt):
    output_fields = ("color", "spot")

    def execute(self, tup):
        color = list(Color)[tup["number"] % 2]
        yield (color, Spot(tup["number"], Size(10, color)))


class Check(BasicBolt):
    output_fields = "spot"

    def execute(self, tup):
        spot = tup["spot"]
        assert type(spot) is Spot and type(spot.size) is Size and spot.size.color is tup["color"]
        assert spot.size == Size(10, tup["color"])
        yield (spot,)


class Colors(BasicBolt):
    """Gets values of classes of the file from the emitters in the engine's process."""

    output_fields = ("color", "spot")

    def execute(self, tup):
        assert tup["number"] in (Color.RED, Color.BLUE)
        yield (tup["number"], Spot(tup["number"].value, Size(10, tup["number"])))


class Keep(Committer):
    def __init__(self, kept):
        self.kept = kept
        self.spots = []

    def execute(self, tup):
        self.spots.append(tup["spot"])

    def finish_batch(self):
        with LOCK:
            self.kept.extend(self.spots)


KEPT = []


def topology():
    builder = TransactionalTopologyBuilder("spots", "numbers", MemoryTransactionalSpout([(0,), (1,), (2,)], "number", take=3))
    builder.set_bolt("make", Make).shuffle_grouping("numbers")
    return _with_check(builder)


def sent():
    builder = TransactionalTopologyBuilder("sent", "numbers", Batches([[Color.RED, Color.BLUE]]))
    builder.set_bolt("make", Colors).shuffle_grouping("numbers")
    return _with_check(builder)


def _with_check(builder):
    builder.set_bolt("check", Check).fields_grouping("make", "color")
    builder.set_committer("keep", lambda: Keep(KEPT)).global_grouping("check")
    return builder.build()


def wrong():
    """Return the spots that are not those of this file."""
    return [spot for spot in KEPT if type(spot) is not Spot or type(spot.size) is not Size or spot.size.color not in Color]
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "spots.py"
    path.write_text(FILE)
    return path


@pytest.fixture
def module(file: Path) -> Iterator[ModuleType]:
    """Return the imported file, as the command line imports it."""
    path = list(sys.path)
    module = UserFile(file, "topology", TopologyFileError).load()
    yield module
    sys.path[:] = path
    del sys.modules[module.__name__]


def _imports(file: Path) -> int:
    return len(Path(f"{file}.imports").read_text())


@pytest.mark.guarantee("CL-2")
@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["topology", pytest.param("sent", marks=pytest.mark.deep)])
async def test_values_of_a_topology_file_cross_levels_in_processes_without_the_file(module: ModuleType, file: Path, name: str) -> None:
    played = await play(lambda _: getattr(module, name)(), jobs=ProcessJobs())

    assert played.error is None
    assert not played.errors
    assert len(module.KEPT) == (3 if name == "topology" else 2)
    assert not module.wrong()
    assert _imports(file) == 1  # no other process has run the file


@pytest.mark.guarantee("CL-2")
def test_values_of_a_script_cross_levels_and_the_script_runs_once(file: Path) -> None:
    file.write_text(f"{FILE}\n{SCRIPT}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [2, 0, [], "None"]
    assert _imports(file) == 1


SCRIPT = """
import asyncio, json
from tests.spark_bridge.topology.both_engines import play
from tests.spark_bridge.topology.level_process import ProcessJobs

played = asyncio.run(play(lambda _: sent(), jobs=ProcessJobs()))
print(json.dumps([len(KEPT), len(wrong()), played.errors, repr(played.error)]))
"""


def test_classes_that_cannot_be_sent_and_components_stay_here(module: ModuleType) -> None:
    program = cluster_run.ClusterRun(*_run_of(module)).program()
    _, classes = pickling.loads(pickle_program(program))
    assert {each.__name__ for each in classes if each.__module__ == module.__name__} == {"Color", "Size", "Spot"}
    assert unpickle_program(pickle_program(program)).described.name == "spots"
    assert vars(module)["Spot"] in classes  # in this process they are the classes themselves


def _run_of(module: ModuleType) -> tuple[Topology, Config, Any]:
    topology: Topology = cluster_run.on_spark(module.topology())
    [feature] = [each for each in topology.features if isinstance(each, cluster_run.ClusterTransactions)]
    return topology, Config(), feature


@pytest.mark.deep
@pytest.mark.guarantee("CL-2")
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("is_shared", [True, False])
async def test_values_of_a_topology_file_cross_a_real_spark(
    spark_child: SparkChild, module: ModuleType, file: Path, monkeypatch: pytest.MonkeyPatch, *, is_shared: bool
) -> None:
    monkeypatch.setattr(type(LOCAL), "is_on_this_machine", is_shared)
    running = cluster_run.run(module.topology(), Config(), spark=LOCAL)
    async with asyncio.timeout(100), running:
        await running.completed()

    assert not running.snapshot().errors
    assert len(module.KEPT) == 3
    assert not module.wrong()
    assert _imports(file) == 1
