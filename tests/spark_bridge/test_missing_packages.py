"""Without pyarrow or pyspark, one line names the extra to install, and the engine works."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.sources import ROOT
from tests.spark_bridge.pipeline.folders import Folder

ARROW = f"pip install '{ROOT}[arrow]'"
SPARK = f"pip install '{ROOT}[spark]'"


def said_without(packages: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python and its child processes as if these packages were not installed."""
    (folder / "hidden").mkdir()
    hide = f"import sys\nfor name in {packages.split()!r}:\n    sys.modules[name] = None\n"
    (folder / "hidden" / "sitecustomize.py").write_text(hide)
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'hidden'}:{os.getcwd()}"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize(
    ("packages", "statement", "extra"),
    [
        ("pyspark", "from spark_bridge import Parquet", SPARK),
        ("pyspark pyarrow", "from spark_bridge import Parquet", SPARK),
        ("pyspark", "from spark_bridge import register", SPARK),
        ("pyspark", "from spark_bridge import run_pipeline", SPARK),
        ("pyspark", "from spark_bridge.sinks import Sqlite", SPARK),
        ("pyarrow", "from spark_bridge import SparkHandover", ARROW),
        ("pyarrow", "from spark_bridge import SparkTransform", ARROW),
        ("pyarrow", "from spark_bridge import Parquet", ARROW),
    ],
)
def test_an_import_without_pyarrow_says_what_to_install(packages: str, statement: str, extra: str, tmp_path: Path) -> None:
    done = said_without(packages, tmp_path, "-c", statement)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: spark_bridge")
    assert "is not installed" in last
    assert extra in last
    assert "exception" not in done.stderr  # of another one, during whose handling it came


def test_with_pyarrow_alone_the_engine_hands_over(tmp_path: Path) -> None:
    statement = "from spark_bridge import Handover, SparkConfig, SparkHandover, SparkTransform; from spark_bridge.pipeline import per_batch"
    assert said_without("pyspark", tmp_path, "-c", statement).stderr == ""


@pytest.mark.parametrize(("package", "extra"), [("pyspark", SPARK), ("pyarrow", ARROW)])
def test_the_command_line_says_what_to_install(package: str, extra: str, tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text("def pipeline(batch, txid):\n    pass\n")
    Folder(tmp_path / "handover", consumers=["pipeline"])
    done = said_without(package, tmp_path, "-m", "spark_bridge", "run", "flow.py", "--folder", "handover")
    assert (done.returncode, done.stdout) == (2, "")
    error, fix = done.stderr.splitlines()
    assert error.startswith("Error: spark_bridge")
    assert error.endswith(f"needs {package}, which is not installed")
    assert fix.startswith(f"Fix: {extra}")


def test_the_engine_needs_neither_pyspark_nor_pyarrow(tmp_path: Path) -> None:
    done = said_without("pyspark pyarrow pandas", tmp_path, "-m", "engine", "run", f"{os.getcwd()}/examples/hello.py", "--plain")
    assert done.returncode == 0, done.stderr
    assert "Hello, world!" in done.stdout


@pytest.mark.parametrize("option", [(), ("--remove",)])
def test_prepare_without_pyspark_says_what_to_install(option: tuple[str, ...], tmp_path: Path) -> None:
    done = said_without("pyspark", tmp_path, "-m", "spark_bridge", "prepare", *option)
    assert done.returncode == 2
    assert "pyspark, which is not installed" in done.stderr
    assert SPARK in done.stderr
    assert "Traceback" not in done.stderr
