"""Functions and classes of a topology file work in child processes, by reference."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.user_files import UserFileFinder, module_name
from tests.project.sources import ROOT

TOPOLOGY = """
import asyncio
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from engine import BasicBolt, TopologyBuilder, spout


class Number:
    def __init__(self, value):
        self.value = value


def square(number):
    return Number(number.value ** 2), os.getpid()


@spout("number")
def numbers():
    yield from [(number,) for number in range(4)]


class Squares(BasicBolt):
    def prepare(self):
        self.pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context({method!r}))

    async def execute(self, tup):
        found, pid = await asyncio.get_running_loop().run_in_executor(self.pool, square, Number(tup["number"]))
        assert type(found) is Number and pid != os.getpid()
        print(found.value)

    def cleanup(self):
        self.pool.shutdown()


builder = TopologyBuilder("squares")
builder.set_spout("numbers", numbers)
builder.set_bolt("squares", Squares).shuffle_grouping("numbers")

if __name__ == "__main__":
    raise SystemExit("the file ran as a script")
"""

TWO_FILES = """
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

from engine.cli.topology_file import load_topology


def call_pickled(pickled):
    import pickle

    return pickle.loads(pickled)()


if __name__ == "__main__":
    functions = [load_topology(path).config["where"] for path in sys.argv[1:]]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        print(*pool.map(call_pickled, map({dumps}, functions)))
"""

SMALL = """
from engine import TopologyBuilder, bolt, spout

@spout("number")
def numbers():
    yield (1,)

def where():
    return {place!r}

config = {{"where": where}}
builder = TopologyBuilder({place!r})
builder.set_spout("numbers", numbers)
"""


def output_of(folder: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_process_pool_calls_functions_of_the_file(method: str, tmp_path: Path) -> None:
    (tmp_path / "my flow.1.py").write_text(TOPOLOGY.format(method=method))
    assert output_of(tmp_path, "-m", "engine", "run", "my flow.1.py", "--plain").split() == ["0", "1", "4", "9"]


@pytest.mark.parametrize("dumps", ["__import__('pickle').dumps", "__import__('pyspark.cloudpickle').cloudpickle.dumps"])
def test_files_of_the_same_name_in_two_folders_do_not_clash(dumps: str, tmp_path: Path) -> None:
    if "pyspark" in dumps:
        pytest.importorskip("pyspark")
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "flow.py").write_text(SMALL.format(place=place))
    (tmp_path / "program.py").write_text(TWO_FILES.format(dumps=dumps))
    assert output_of(tmp_path, "program.py", "here/flow.py", "there/flow.py") == "here there\n"


def test_the_finder_finds_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flow.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    name = module_name("topology", tmp_path / "flow.py")
    found = UserFileFinder().find_spec(f"{name}_2", None)
    assert found is not None
    assert found.origin == str(tmp_path / "flow.py")
    for other in ("flow", "engine.user_files.flow", name.replace("flow", "glow"), name.removeprefix("engine."), f"{name}.more"):
        assert UserFileFinder().find_spec(other, None) is None
