"""The command line finds flows in files, and names them as topologies."""

from pathlib import Path

import pytest

from engine import TopologyFileError, UsageError
from engine.cli.topology_file import load_topology

HEAD = """
from engine import Config, spout
from engine.streams import Flow

@spout("text")
def texts():
    yield ("a",)

flow = Flow("shown", Config(burst=7))
flow.stream("texts", texts, str).map(str.upper, name="upper").sink("show", print)
"""


@pytest.mark.parametrize(
    ("more", "spec"),
    [
        ("", ""),
        ("topology = flow.topology()", ""),
        ("other = 1", ":flow"),
        ("", ":shown"),
        ("def topology(): return flow", ":topology"),
    ],
)
def test_a_flow_of_a_file_is_its_topology(tmp_path: Path, more: str, spec: str) -> None:
    path = tmp_path / "shown.py"
    path.write_text(HEAD + more)
    loaded = load_topology(f"{path}{spec}")
    assert loaded.topology.name == "shown"
    assert list(loaded.topology.components) == ["texts", "upper", "show"]
    assert loaded.config is not None
    assert loaded.topology.config is not None
    assert loaded.topology.config.burst == 7


def test_two_flows_of_a_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(HEAD + 'second = Flow("second")\n')
    both = r"contains 2 topologies:\n  - flow \(builder of 'shown'\)\n  - second \(builder of 'second'\)"
    with pytest.raises(TopologyFileError, match=both):
        load_topology(str(path))


def test_a_mistake_in_a_flow_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(HEAD + 'flow.stream("more", texts, str).map(str.upper, name="upper").sink("end", print)\n')
    with pytest.raises((TopologyFileError, UsageError), match="two stages called 'upper'"):
        load_topology(str(path))
