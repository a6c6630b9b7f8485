"""A topology file is a module of the user's: its name, its package and its logger have nothing of the engine."""

import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli.topology_file import load_topology
from engine.errors import TopologyFileError
from engine.user_files import module_name
from tests.project.sources import ROOT

FLOW = """
from engine import TopologyBuilder, spout
{imports}

@spout("number")
def numbers():
    yield (1,)

class Word:
    pass

config = {{"module": __name__, "package": __package__, "word": Word(), {entries}}}
builder = TopologyBuilder("flow")
builder.set_spout("numbers", numbers)
"""


def write(path: Path, imports: str = "", entries: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FLOW.format(imports=imports, entries=entries))
    return str(path)


def package(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").touch()
    return folder


def config_of(spec: str) -> dict[str, object]:
    config = load_topology(spec).config
    assert isinstance(config, dict)
    return config


def refusal(spec: str) -> str:
    with pytest.raises(TopologyFileError) as caught:
        load_topology(spec)
    return f"{caught.value}\n{caught.value.hint}"


@pytest.fixture(autouse=True)
def _fresh_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_file_is_imported_by_its_own_name(tmp_path: Path) -> None:
    config = config_of(write(tmp_path / "word_flow.py"))
    assert (config["module"], config["package"]) == ("word_flow", "")


def test_another_file_that_imports_it_gets_the_same_module(tmp_path: Path) -> None:
    write(tmp_path / "first_flow.py")
    word = config_of(write(tmp_path / "second_flow.py", "import first_flow", '"first": first_flow.Word'))["first"]
    assert config_of(str(tmp_path / "second_flow.py")) is not None
    assert word is sys.modules["first_flow"].Word


def test_relative_imports_find_modules_of_the_users_package(tmp_path: Path) -> None:
    topologies = package(package(tmp_path / "shop_app") / "topologies")
    (tmp_path / "shop_app" / "config.py").write_text("class Config:\n    brokers = 'shop:9092'\n")
    (topologies / "helpers.py").write_text("def split(text):\n    return text.split()\n")
    imports = "from . import helpers\nfrom .helpers import split\nfrom ..config import Config"
    config = config_of(write(topologies / "flow.py", imports, '"brokers": Config.brokers, "split": split'))
    assert (config["module"], config["package"]) == ("shop_app.topologies.flow", "shop_app.topologies")
    assert config["brokers"] == "shop:9092"
    assert importlib.import_module("shop_app.topologies").flow is sys.modules["shop_app.topologies.flow"]


@pytest.mark.filterwarnings("error")  # Python warns before it ignores `__package__`
@pytest.mark.parametrize("imports", ["from .config import Config", "from ..config import Config", "from . import config"])
@pytest.mark.parametrize("name", ["lone_flow.py", "queue.py", "my flow.1.py"])
def test_a_relative_import_never_finds_a_module_of_the_engine(imports: str, name: str, tmp_path: Path) -> None:
    text = refusal(write(tmp_path / "folder" / name, imports))
    assert "relative import" in text
    assert "put an __init__.py into the folder of the file" in text


def test_a_relative_import_in_another_process_never_finds_a_module_of_the_engine(tmp_path: Path) -> None:
    """It imports the file when it loads a function that was pickled by reference."""
    path = tmp_path / "lone.flow.py"
    path.write_text("from ..config import Config\n")
    sys.path.insert(0, str(tmp_path))
    with pytest.raises(ImportError, match="relative import"):
        importlib.import_module(module_name("topology", path))


def test_dots_that_lead_out_of_the_package_are_explained(tmp_path: Path) -> None:
    text = refusal(write(package(tmp_path / "lone_app") / "flow.py", "from ..config import Config"))
    assert "beyond top-level package" in text
    assert "put an __init__.py" in text


def test_an_error_of_the_package_names_its_line(tmp_path: Path) -> None:
    package(tmp_path / "broken_app").joinpath("__init__.py").write_text("1 / 0\n")
    text = refusal(write(tmp_path / "broken_app" / "flow.py"))
    assert "ZeroDivisionError" in text
    assert "broken_app/__init__.py" in text


@pytest.mark.parametrize("name", ["queue.py", "engine.py", "my flow.1.py"])
def test_a_file_whose_name_is_taken_hides_no_other_module(name: str, tmp_path: Path) -> None:
    taken = sys.modules.get(Path(name).stem)
    word = config_of(write(tmp_path / name))["word"]
    assert sys.modules.get(Path(name).stem) is taken
    assert type(pickle.loads(pickle.dumps(word))) is type(word)


def test_a_package_of_the_same_name_elsewhere_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path / "installed" / "twin_app")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    taken = importlib.import_module("twin_app")
    config = config_of(write(package(tmp_path / "twin_app") / "flow.py"))
    assert sys.modules["twin_app"] is taken
    assert str(config["module"]).startswith("engine.user_files.")


@pytest.mark.parametrize("is_loaded", [True, False])
def test_values_pickled_under_the_name_of_an_earlier_version_are_loaded(is_loaded: bool, tmp_path: Path) -> None:
    spec = write(tmp_path / "old_flow.py")
    word = config_of(spec)["word"]
    old = module_name("topology", tmp_path / "old_flow.py")
    stored = pickle.dumps(word, protocol=0).replace(b"old_flow", old.encode())
    if not is_loaded:
        del sys.modules["old_flow"]
    loaded = pickle.loads(stored)
    assert type(loaded) is sys.modules["old_flow"].Word
    assert sys.modules["old_flow"].__spec__.name == "old_flow"  # type: ignore[union-attr]


def test_a_child_process_of_the_program_finds_a_file_of_a_package(tmp_path: Path) -> None:
    topologies = package(package(tmp_path / "pool_app") / "topologies")
    write(topologies / "flow.py", "from ..squares import square", '"square": square, "Word": Word')
    (tmp_path / "pool_app" / "squares.py").write_text("def square(number):\n    return number ** 2\n")
    (tmp_path / "program.py").write_text(f"""
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from engine.cli.topology_file import load_topology

if __name__ == "__main__":
    config = load_topology({str(topologies / "flow.py")!r}).config
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        print(pool.submit(config["square"], 7).result(), type(pool.submit(config["Word"]).result()) is config["Word"])
""")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "49 True\n", done.stderr
