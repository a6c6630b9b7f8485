"""Import of a topology file, and the errors if it fails."""

import os
import pickle
import sys
from pathlib import Path

import pytest

from engine.cli.console.user_file import split_spec
from engine.cli.topology_file import load_topology
from engine.config import Config
from engine.errors import ConfigError, TopologyError, TopologyFileError
from tests.cli.topology_files import HEAD, Write, load_error

# Import


def test_the_folder_of_the_file_is_importable_also_later(write: Write) -> None:
    write("NAME = 'from-helper'", "flow_helper.py", head="")
    write("NAME = 'from-late-helper'", "late_helper.py", head="")
    early = write("import flow_helper\ntopology = _builder(flow_helper.NAME).build()", "early.py")
    late = write("def topology():\n    import late_helper\n    return _builder(late_helper.NAME)", "late.py")

    assert load_topology(early).topology.name == "from-helper"
    assert load_topology(late).topology.name == "from-late-helper"


def test_the_file_is_not_the_main_module(write: Write) -> None:
    text = "import sys\nassert __name__ != '__main__' and sys.modules[__name__].Lines is Lines\ntopology = _builder(__file__).build()"
    spec = write(text)

    assert load_topology(spec).topology.name == str(Path(spec).resolve())


def test_a_file_named_like_another_module_shadows_nothing(write: Write) -> None:
    json = sys.modules["json"] = __import__("json")

    assert load_topology(write("topology = _builder().build()", "json.py")).topology.name == "words"
    assert sys.modules["json"] is json


def test_two_imports_of_a_file_make_two_modules(write: Write) -> None:
    spec = write("topology = _builder().build()")

    first, second = (load_topology(spec).topology.components["lines"] for _ in range(2))

    assert first is not second


def test_classes_of_the_file_can_be_pickled(write: Write) -> None:
    spec = write("import pickle\ntopology = _builder().build()\nclass Word: pass\nconfig = {'pickled': pickle.dumps(Word())}")

    config = load_topology(spec).config
    assert isinstance(config, dict)
    assert type(pickle.loads(config["pickled"])).__name__ == "Word"


def test_a_relative_path_works(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("topology = _builder().build()")
    monkeypatch.chdir(tmp_path)

    loaded = load_topology("flow.py")

    assert loaded.path == Path("flow.py")
    assert str(tmp_path) in sys.path


def test_a_failed_import_leaves_nothing_behind(write: Write) -> None:
    spec = write("import flow_sibling\nraise ValueError('bad')")
    write("", "flow_sibling.py", head="")
    folders = list(sys.path)

    load_error(spec)

    assert sys.path == folders
    assert spec not in {getattr(module, "__file__", None) for module in list(sys.modules.values())}


# Settings in the file


def test_a_config_in_the_file_is_used(write: Write) -> None:
    spec = write("from engine.config import Config\ntopology = _builder().build()\nconfig = Config(burst=8)")

    assert load_topology(spec).config == Config(burst=8)


def test_a_mapping_called_config_is_used(write: Write) -> None:
    assert load_topology(write("topology = _builder().build()\nconfig = {'burst': 8}")).config == {"burst": 8}


def test_another_object_called_config_is_ignored(write: Write) -> None:
    assert load_topology(write("import sys as config\ntopology = _builder().build()")).config is None


def test_a_wrong_config_is_reported_with_its_place(write: Write) -> None:
    spec = write("from engine.config import Config\nconfig = Config(bursts=8)")

    with pytest.raises(ConfigError, match="Did you mean 'burst'") as caught:
        load_topology(spec)
    assert caught.value.__notes__ == [f"raised in {spec}, line {HEAD.count(chr(10)) + 2}"]


# Wrong paths


def test_the_error_for_a_missing_file_names_the_nearest(write: Write, tmp_path: Path) -> None:
    write("")

    assert load_error(str(tmp_path / "flwo.py")) == f"{tmp_path}/flwo.py does not exist\nFix: Did you mean {tmp_path}/flow.py?"
    assert load_error(str(tmp_path / "elsewhere.py:x")).endswith("Fix: There is flow.py.")
    assert load_error(str(tmp_path / "nowhere" / "flow.py")).endswith(
        f"and neither does its folder {tmp_path}/nowhere\nFix: Check the path."
    )


def test_a_folder_is_refused(write: Write, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    write("")

    assert load_error(str(tmp_path)) == f"{tmp_path} is a folder\nFix: Name a file in it. There is flow.py."
    assert load_error(str(empty)).endswith(f"There is no .py file in {empty}.")


def test_a_file_of_another_kind_is_refused(write: Write) -> None:
    assert "flow.yaml is not a .py file" in load_error(write("", "flow.yaml"))


def test_a_name_that_is_too_long_is_refused_and_cut() -> None:
    text = load_error("x" * 5000 + ".py")
    assert "x… cannot be read: File name too long" in text
    assert len(text) < 400


@pytest.mark.parametrize(("name", "why"), [("nowhere.py", "is a link to nowhere, which does not exist"), ("loop.py", "symbolic links")])
def test_a_broken_link_is_reported_as_one(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "nowhere.py").symlink_to("nowhere")
    (tmp_path / "loop.py").symlink_to("loop.py")
    text = load_error(str(tmp_path / name))
    assert why in text
    assert "Did you mean" not in text


def test_a_pipe_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "flow.py")
    assert "flow.py is not a regular file" in load_error(str(tmp_path / "flow.py"))


def test_a_colon_without_a_name_is_refused(write: Write) -> None:
    assert "has a colon, but no name after it" in load_error(write("") + ":")


def test_the_name_begins_after_the_colon_behind_the_suffix() -> None:
    assert split_spec("a/b.py", TopologyFileError) == (Path("a/b.py"), None)
    assert split_spec("a:b/c.py:word-count", TopologyFileError) == (Path("a:b/c.py"), "word-count")
    assert split_spec(r"C:\flows\c.py", TopologyFileError) == (Path(r"C:\flows\c.py"), None)


def test_a_file_that_cannot_be_read_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write("")

    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    assert load_error(spec) == f"{spec} cannot be read: Permission denied\nFix: Check its permissions."


def test_a_file_that_vanishes_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write("")

    def vanish(path: Path) -> bytes:
        path.unlink()
        return open(path, "rb").read()

    monkeypatch.setattr(Path, "read_bytes", vanish)
    assert f"{spec} cannot be read: No such file or directory" in load_error(spec)


# Wrong files


def test_a_syntax_error_is_reported_with_its_line(write: Write) -> None:
    spec = write("x = 1\ndef broken(:\n    pass\n", head="")

    text = load_error(spec)

    assert text.startswith(f"{spec}, line 2, is not valid Python:\n")
    assert "def broken(:" in text
    assert "SyntaxError" in text


@pytest.mark.parametrize("content", [b"x = '\xff'\n", b"x = 1\0\n"])
def test_a_file_of_undecodable_bytes_is_not_valid_python(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "flow.py").write_bytes(content)

    assert "is not valid Python" in load_error(str(tmp_path / "flow.py"))


def test_an_exception_during_the_import_shows_only_the_users_frames(write: Write) -> None:
    write("def parse(text):\n    return int(text)\n", "flow_parse.py", head="")
    spec = write("import flow_parse\nflow_parse.parse('x')\n", head="")

    text = load_error(spec)

    assert text.startswith(f"{spec} raised ValueError while it was imported:\nTraceback (most recent call last):\n")
    assert [line.rpartition("/")[2] for line in text.splitlines() if line.startswith("  File")] == [
        'flow.py", line 2, in <module>',
        'flow_parse.py", line 2, in parse',
    ]
    assert "ValueError: invalid literal" in text


def test_a_usage_error_during_the_import_shows_the_users_line_and_the_hint(write: Write) -> None:
    text = load_error(write("Fields('a', 'a')"))

    assert text.count("  File ") == 1
    assert text.count("Fix: ") == 1
    assert text.endswith("\nFix: Give each field its own name.")


def test_the_error_for_a_missing_module_says_what_to_install(write: Write) -> None:
    text = load_error(write("import no_such_module.part"))

    assert "Fix: Install 'no_such_module' into this Python" in text
    assert "or put no_such_module.py beside the file." in text


def test_a_script_that_exits_gets_a_hint_about_main(write: Write) -> None:
    assert "`if __name__ == '__main__':`" in load_error(write("import sys\nsys.exit(0)"))


def test_ctrl_c_is_not_swallowed(write: Write) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_topology(write("raise KeyboardInterrupt"))


@pytest.mark.parametrize("raised", ["BaseException('own')", "GeneratorExit", "__import__('asyncio').CancelledError"])
@pytest.mark.parametrize("text", ["raise {}", "def topology(): raise {}"])
def test_a_base_exception_during_the_import_is_reported(write: Write, text: str, raised: str) -> None:
    name = raised.partition("(")[0] if "import" not in raised else "CancelledError"
    assert f"flow.py raised {name} " in load_error(write(text.format(raised)))


def test_a_function_that_raises_shows_the_users_frames(write: Write) -> None:
    spec = write("async def topology():\n    return 1 / 0")

    text = load_error(spec)

    assert text.startswith(f"{spec} raised ZeroDivisionError in topology:\n")
    assert text.count("  File ") == 1
    assert f"line {HEAD.count(chr(10)) + 2}, in topology" in text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("def topology(): pass", "returns None, not a topology"),
        ("def topology(): return [_builder()]", "returns a value of type list, not a topology"),
        ("def topology(): return TopologyBuilder", "returns the class TopologyBuilder, not a topology"),
        ("class Mine(TopologyBuilder):\n    def build(self): return 3\nmine = Mine('x')", "builds a value of type int, not a topology"),
    ],
)
def test_an_object_of_a_wrong_type_is_named(write: Write, text: str, what: str) -> None:
    assert what in load_error(write(text))


@pytest.mark.guarantee("GRP-5")
@pytest.mark.parametrize(
    "text", ["topology = TopologyBuilder('x').build()", "builder = TopologyBuilder('x')", "def topology(): return TopologyBuilder('x')"]
)
def test_the_faults_of_an_invalid_topology_are_reported(write: Write, text: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load_topology(write(text))

    assert "spout" in str(caught.value)
