"""Values whose classes are defined in the topology's own file cross every level and come back (CL-2)."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engine import Config
from engine.topology import Topology
from spark_bridge.process import SparkChild, pickling
from spark_bridge.topology import cluster_run
from spark_bridge.topology.pickled_program import pickle_program, unpickle_program
from tests.project.sources import ROOT
from tests.spark_bridge.spark_fixtures import LOCAL
from tests.spark_bridge.topology.both_engines import play
from tests.spark_bridge.topology.level_process import ProcessJobs
from tests.spark_bridge.topology.spots import FILE


def _imports(spots_file: Path) -> int:
    return len(Path(f"{spots_file}.imports").read_text())


@pytest.mark.guarantee("CL-2")
@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["topology", pytest.param("sent", marks=pytest.mark.deep)])
async def test_values_of_a_topology_file_cross_levels_in_processes_without_the_file(spots: ModuleType, spots_file: Path, name: str) -> None:
    played = await play(lambda _: getattr(spots, name)(), jobs=ProcessJobs())

    assert played.error is None
    assert not played.errors
    assert len(spots.KEPT) == (3 if name == "topology" else 2)
    assert not spots.wrong()
    assert _imports(spots_file) == 1  # no other process has run the file


@pytest.mark.guarantee("CL-2")
def test_values_of_a_script_cross_levels_and_the_script_runs_once(spots_file: Path) -> None:
    spots_file.write_text(f"{FILE}\n{SCRIPT}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(spots_file)], env=environment, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [2, 0, [], "None"]
    assert _imports(spots_file) == 1


SCRIPT = """
import asyncio, json
from tests.spark_bridge.topology.both_engines import play
from tests.spark_bridge.topology.level_process import ProcessJobs

played = asyncio.run(play(lambda _: sent(), jobs=ProcessJobs()))
print(json.dumps([len(KEPT), len(wrong()), played.errors, repr(played.error)]))
"""


def test_classes_that_cannot_be_sent_and_components_stay_here(spots: ModuleType) -> None:
    program = cluster_run.ClusterRun(*_run_of(spots)).program()
    _, classes = pickling.loads(pickle_program(program))
    assert {each.__name__ for each in classes if each.__module__ == spots.__name__} == {"Color", "Size", "Spot"}
    assert unpickle_program(pickle_program(program)).described.name == "spots"
    assert vars(spots)["Spot"] in classes  # in this process they are the classes themselves


def _run_of(spots: ModuleType) -> tuple[Topology, Config, Any]:
    topology: Topology = cluster_run.on_spark(spots.topology())
    [feature] = [each for each in topology.features if isinstance(each, cluster_run.ClusterTransactions)]
    return topology, Config(), feature


@pytest.mark.deep
@pytest.mark.guarantee("CL-2")
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("is_shared", [True, False])
async def test_values_of_a_topology_file_cross_a_real_spark(
    spark_child: SparkChild, spots: ModuleType, spots_file: Path, monkeypatch: pytest.MonkeyPatch, *, is_shared: bool
) -> None:
    monkeypatch.setattr(type(LOCAL), "is_on_this_machine", is_shared)
    running = cluster_run.run(spots.topology(), Config(), spark=LOCAL)
    async with asyncio.timeout(100), running:
        await running.completed()

    assert not running.snapshot().errors
    assert len(spots.KEPT) == 3
    assert not spots.wrong()
    assert _imports(spots_file) == 1
