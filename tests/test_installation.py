"""Messages about missing packages and modules have the command that installs them, in a checkout and elsewhere."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import engine
import engine.installation
import spark_bridge.installation
from tests.project.sources import ROOT

MODULES = pytest.mark.parametrize("module", [engine.installation, spark_bridge.installation])


@MODULES
def test_in_a_checkout_the_command_names_the_folder(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert module.install_command("kafka", "redis") == "pip install '.[kafka,redis]'"
    monkeypatch.chdir(tmp_path)
    assert module.install_command("kafka") == f"pip install '{ROOT}[kafka]'"


@MODULES
def test_elsewhere_the_command_names_the_installed_package(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROOT", tmp_path)  # as site-packages, which has no pyproject.toml
    assert module.install_command("kafka") == "pip install 'stormcell[kafka]'"


@pytest.mark.parametrize(
    ("hidden", "text", "said"),
    [
        ("aiokafka", "from engine.kafka import KafkaSpout\n", "engine.kafka needs aiokafka, which is not installed\nFix: {}[kafka]'\n"),
        (
            "pyarrow",
            "from spark_bridge import SparkHandover\n",
            "needs pyarrow, which is not installed\nFix: {}[arrow]', or",
        ),
    ],
)
def test_a_topology_file_without_an_extra(hidden: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{hidden!r}] = None\n")
    (tmp_path / "flow.py").write_text(text)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-m", "engine", "run", "flow.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert said.format(f"pip install '{ROOT}") in done.stderr
    assert "Correct the file" not in done.stderr
    assert "beside the file" not in done.stderr


def test_no_other_module_writes_such_a_command() -> None:
    homes = {ROOT / package / "installation.py" for package in ("engine", "spark_bridge")}
    sources = [path for package in ("engine", "spark_bridge") for path in (ROOT / package).rglob("*.py") if path not in homes]
    assert not [path.name for path in sources if "stormcell[" in path.read_text(encoding="utf-8")]


def run_engine(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the checkout as `python -m engine`. The files in `folder` come first on `sys.path`."""
    environment = os.environ | {"PYTHONPATH": f"{folder}:{ROOT}"}
    return subprocess.run([sys.executable, "-m", "engine", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_a_checkout_that_is_not_compiled_says_so(tmp_path: Path) -> None:
    (tmp_path / "_native").mkdir()
    (tmp_path / "_native" / "__init__.py").touch()
    (tmp_path / "_native" / "acker.py").write_text("raise ImportError('no such module')")  # an editable install would find the compiled one
    said = run_engine(tmp_path, "run", str(ROOT / "examples" / "hello.py")).stderr.splitlines()[-1]
    assert said.startswith("ImportError: the compiled part of the engine does not load")
    assert f"the checkout {ROOT}, which is not compiled" in said
    assert "make build" in said
    assert "the command `stormcell`, or change to another folder" in said


def test_an_installed_package_that_does_not_load_is_installed_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine.installation, "_ROOT", tmp_path)
    assert engine.installation.build_hint() == f"Install stormcell again, into this Python: {sys.executable}"


@pytest.mark.parametrize(("installed", "is_noted"), [("99.1", True), (engine.__version__, False)])
def test_a_checkout_that_hides_another_version_says_so(installed: str, is_noted: bool, tmp_path: Path) -> None:
    metadata = tmp_path / f"stormcell-{installed}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: stormcell\nVersion: {installed}\n")
    done = run_engine(tmp_path, "--version")
    assert done.stdout == f"stormcell {engine.__version__}\n"
    note = f"Note: Python runs the checkout {ROOT}, version {engine.__version__}. The installed package has version 99.1."
    assert done.stderr.startswith(note) if is_noted else done.stderr == ""


def test_an_installed_package_hides_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine.installation, "_ROOT", tmp_path)
    assert engine.installation.hidden_version("0.0") is None
