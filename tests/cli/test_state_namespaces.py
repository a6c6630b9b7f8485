"""`state list`, `show`, `export` and `delete` on states with namespaces (CP-12)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import run_command_line
from tests.checkpoint.stored_states import PANE, write_panes
from tests.cli.commands import run_command

Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.guarantee("CP-12")


@pytest.fixture(params=["folded", "staged"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store whose last committed checkpoint has dropped a namespace and put one key into it again."""
    found = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(write_panes(found, folds=request.param == "folded"))
    return found


def lines(capsys: Captured, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_command(capsys, "state", *arguments)[0].splitlines()]


def test_list_counts_namespaces(url: str, capsys: Captured) -> None:
    [count] = lines(capsys, "list", url, "--json")
    assert (count["keys"], count["namespaces"]) == (6, 3)
    titles, row = (line.split() for line in run_command(capsys, "state", "list", url)[0].splitlines())
    assert (titles[-1], row[-1]) == ("namespaces", "3")


def test_show_has_the_plain_keys_or_those_of_a_namespace(url: str, capsys: Captured) -> None:
    out = run_command(capsys, "state", "show", url)[0]
    assert "count: 6 keys" in out
    assert "3 namespaces" in out
    assert [line.split() for line in out.splitlines()[3:]] == [["key", "value"], ["'plain'", "1"]]
    [pane] = lines(capsys, "show", url, "--namespace", str(PANE), "--json")
    assert pane["namespace"] == PANE
    assert {each["key"]: each["value"] for each in pane["head"]} == {"new": 7, "old 3": 8}
    out = run_command(capsys, "state", "show", url, "--namespace", "late", "--limit", "1")[0]
    assert "namespace 'late':\n" in out
    assert "… and 1 more" in out


def test_show_lists_the_namespaces_of_a_state_without_other_keys(tmp_path: Path, capsys: Captured) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(write_panes(url, folds=False, plain=False))
    out = run_command(capsys, "state", "show", url, "--limit", "2")[0].splitlines()
    assert [line.split() for line in out[3:6]] == [["namespace", "keys"], ["-5", "1"], [str(PANE), "2"]]
    assert out[6:] == ["… and 1 more", "To see the keys of one: --namespace NAME"]


def test_show_refuses_an_unknown_namespace(url: str, capsys: Captured) -> None:
    assert run_command_line(["state", "show", url, "--namespace", "lat"]) == 2
    error = capsys.readouterr().err
    assert "the chosen components have no namespace 'lat'" in error
    assert "Did you mean 'late'" in error


def test_export_writes_the_namespace_of_each_key(url: str, capsys: Captured) -> None:
    found = {(line.get("namespace"), line["key"]): line["value"] for line in lines(capsys, "export", url)}
    assert found == {
        (None, "plain"): 1,
        (PANE, "new"): 7,
        (PANE, "old 3"): 8,
        (-5, "k"): 1,
        ("late", "a"): 1,
        ("late", "b"): [2],
    }


def test_delete_removes_namespaces_too(url: str, capsys: Captured) -> None:
    run_command(capsys, "state", "delete", url, "--component", "count", "--yes")
    assert lines(capsys, "export", url) == []
