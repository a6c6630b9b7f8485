"""Functions are pickled for another process, also those that it cannot import (SP-5)."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_bridge.process import pickling
from tests.project.sources import ROOT

FLOW = """
from engine import TopologyBuilder, spout
@spout("x")
def numbers():
    yield (1,)
def add(n):
    return n + 40
builder = TopologyBuilder("flow")
builder.set_spout("numbers", numbers)
"""
READ = "import sys; from spark_bridge.process import pickling; print(pickling.loads(sys.stdin.buffer.read())(3))"


def sent_and_called(script: str, folder: Path) -> str:
    """Run a script that writes a pickled function, and call the function in another process and folder."""
    path = folder / "made.py"
    path.write_text(script)
    run = [sys.executable, str(path)]
    packed = subprocess.run(run, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=True).stdout
    called = subprocess.run([sys.executable, "-c", READ], cwd=ROOT, input=packed, capture_output=True, check=True)
    return called.stdout.decode().strip()


def test_a_function_of_main_is_sent_with_the_functions_it_calls(tmp_path: Path) -> None:
    script = """
import sys
from spark_bridge.process import pickling
FACTOR = 2
def twice(n):
    return FACTOR * n
def main(n):
    return (lambda m: twice(m) + 1)(n)
sys.stdout.buffer.write(pickling.dumps(main))
"""
    assert sent_and_called(script, tmp_path) == "7"


def test_a_function_of_a_topology_file_is_sent(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    script = f"""
import sys
from engine.cli.topology_file import load_topology
from spark_bridge.process import pickling
load_topology({str(tmp_path / "flow.py")!r})
add = sys.modules["flow"].add
sys.stdout.buffer.write(pickling.dumps(lambda n: add(n)))
"""
    assert sent_and_called(script, tmp_path) == "43"


def test_concurrent_threads_pickle_with_one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two instances of the module, one could not pickle objects of the other."""
    monkeypatch.delitem(sys.modules, pickling._MODULE_NAME, raising=False)
    begin = threading.Barrier(4)

    def send(number: int) -> int:
        begin.wait(60)
        received: int = pickling.loads(pickling.dumps(lambda: number))()
        return received

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(send, range(4))) == [0, 1, 2, 3]
    assert pickling._cloudpickle() is sys.modules[pickling._MODULE_NAME]


def test_pickling_does_not_import_pyspark(tmp_path: Path) -> None:
    script = """
import sys
from spark_bridge.process import SparkChild, SparkConfig, pickling
pickling.loads(pickling.dumps(lambda: 1))
print([name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j", "pyarrow", "pandas")])
"""
    said = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


@pytest.mark.guarantee("SP-5")
def test_the_child_needs_no_engine() -> None:
    script = """
import sys
from spark_bridge.process.child import __main__, calls, connect
print([name for name in sys.modules if name.split(".")[0] in ("engine", "_native")])
"""
    said = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"
