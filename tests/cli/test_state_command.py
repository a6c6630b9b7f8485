"""`state list`, `show`, `export` and `delete` on SQLite: their output, and their effect on the store."""

import asyncio
import errno
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.cli import stored_state
from engine.cli.main import run_command_line
from engine.state.sqlite.provider import SqliteProvider
from engine.state.sqlite.tables import note_catalogue
from tests.checkpoint.stored_states import WORDS, write_words
from tests.cli.commands import run_command
from tests.cli.test_json_values import read
from tests.project.sources import ROOT

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with one topology: rows, a committed delta, and a prepared one."""
    found = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(write_words(found))
    return found


def own_provider(path: str) -> SqliteProvider:
    """Provider for a URL `package.module:function?text`."""
    return SqliteProvider(Path(path))


def lines(capsys: Captured, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_command(capsys, "state", *arguments)[0].splitlines()]


def test_list_prints_the_components(url: str, capsys: Captured) -> None:
    out = [line.split() for line in run_command(capsys, "state", "list", url)[0].splitlines()]
    assert out == [
        ["topology", "component", "phase", "codec", "keyed", "tasks", "key", "groups", "keys", "bytes", "deltas", "txid"],
        ["counts", "count", "preparing", "2", "msgpack", "yes", "2", "8", "3", out[1][-3], "3", "1"],
        ["counts", "seen", "preparing", "2", "msgpack", "no", "2", "–", "3", out[2][-3], "0", "1"],
    ]


def test_list_prints_json(url: str, capsys: Captured) -> None:
    count, seen = lines(capsys, "list", url, "--json")
    sizes = {name: count.pop(name) for name in ("row_bytes", "delta_bytes")}
    assert all(sizes.values())
    assert count == {
        "topology": "counts",
        "component": "count",
        "tasks": 2,
        "keyed": True,
        "key_groups": 8,
        "keys": 3,
        "namespaces": 0,
        "rows": 3,
        "deltas": 3,
        "committed_txid": 1,
        "phase": "preparing",
        "txid": 2,
        "codec": "msgpack",
        "deleting": False,
    }
    assert (seen["keyed"], seen["key_groups"], seen["keys"]) == (False, None, 3)


def test_list_prints_several_topologies(url: str, capsys: Captured) -> None:
    asyncio.run(write_words(url, "another", folds=False))
    assert [(line["topology"], line["component"], line["keys"]) for line in lines(capsys, "list", url, "--json")] == [
        ("another", "count", 3),
        ("another", "seen", 3),
        ("counts", "count", 3),
        ("counts", "seen", 3),
    ]
    assert len(lines(capsys, "list", url, "--topology", "another", "--json")) == 2


def test_list_reads_a_users_own_provider(url: str, tmp_path: Path, capsys: Captured) -> None:
    own = f"tests.cli.test_state_command:own_provider?{tmp_path}/state.db"
    assert run_command(capsys, "state", "list", own)[0] == run_command(capsys, "state", "list", url)[0]
    assert run_command(capsys, "state", "export", own)[0] == run_command(capsys, "state", "export", url)[0]
    run_command(capsys, "state", "delete", own, "--yes")
    assert run_command(capsys, "state", "list", url)[0] == "the store contains no topology\n"


def test_show_prints_keys_and_values(url: str, capsys: Captured) -> None:
    out = run_command(capsys, "state", "show", url, "--component", "count")[0]
    assert out.startswith("topology 'counts': txid 1 is committed; record: preparing 2, round 3; codec msgpack, format 1\n\ncount: 3 ")
    assert "3 staged deltas, 8 key groups, 2 tasks\n" in out
    shown = dict(line.split(maxsplit=1) for line in out.splitlines()[4:])
    assert shown == {repr(key): repr(value) for key, value in WORDS.items()}


def test_show_has_a_limit(url: str, capsys: Captured) -> None:
    out = run_command(capsys, "state", "show", url, "--limit", "1")[0]
    assert out.count("… and 2 more") == 2
    assert len(lines(capsys, "show", url, "--limit", "2", "--json")[0]["head"]) == 2
    assert lines(capsys, "show", url, "--limit", "0", "--json")[0]["head"] == []


def test_show_as_json_has_the_record(url: str, capsys: Captured) -> None:
    [shown] = lines(capsys, "show", url, "--component", "seen", "--json")
    assert (shown["phase"], shown["txid"], shown["round"], shown["counted"]) == ("preparing", 2, 3, [[0, 1], [1, 2]])
    assert {"key": "k", "value": "first"} in shown["head"]


def test_export_prints_all_rows(url: str, capsys: Captured) -> None:
    found = lines(capsys, "export", url)
    counted = [line for line in found if line["component"] == "count"]
    assert {line["key"]: read(line["value"]) for line in counted} == WORDS
    assert set(counted[0]) == {"topology", "component", "key", "value"}
    assert sorted((line["task"], json.dumps(line["key"]), line["value"]) for line in found if line["component"] == "seen") == [
        (0, '"k"', "first"),
        (1, '"k"', "second"),
        (1, '{"$tuple": [1, "x"]}', [1]),
    ]


def test_export_of_a_component_into_a_file(url: str, tmp_path: Path, capsys: Captured) -> None:
    target = tmp_path / "words.jsonl"
    target.write_text("what was there")
    out, err = run_command(capsys, "state", "export", url, "--component", "count", "-o", str(target))
    assert (out, err) == ("", f"wrote {target}: 3 keys of topology 'counts' at txid 1\n")
    assert len(target.read_text().splitlines()) == 3
    assert not list(tmp_path.glob(".*"))


def test_a_failed_export_does_not_change_the_file(url: str, tmp_path: Path, capsys: Captured, monkeypatch: Any) -> None:
    target = tmp_path / "words.jsonl"
    target.write_text("what was there")
    monkeypatch.setattr(stored_state, "decoded", _fails)
    assert run_command_line(["state", "export", url, "-o", str(target)]) == 2
    assert "user code raised ZeroDivisionError" in capsys.readouterr().err
    assert target.read_text() == "what was there"
    assert not list(tmp_path.glob(".*"))


def test_an_export_that_the_disk_does_not_keep_does_not_change_the_file(
    url: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = tmp_path / "words.jsonl"
    target.write_text("what was there")
    monkeypatch.setattr(stored_state.os, "fsync", full)
    assert "No space left" in run_command(capsys, "state", "export", url, "--component", "count", "-o", str(target), status=2)[1]
    assert target.read_text() == "what was there"
    assert not list(tmp_path.glob(".*"))


def _fails(*_: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("target", ["no/folder/words.jsonl", ".", "loop", "x" * 300])
def test_export_reports_an_unwritable_file(url: str, target: str, tmp_path: Path, capsys: Captured, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    err = run_command(capsys, "state", "export", url, "-o", target, status=2)[1]
    assert "Name another" in err


def test_export_ends_when_its_reader_closes_the_pipe(url: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m engine state export {url} | head -n 1", shell=True, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_export_reports_a_full_disk(url: str) -> None:
    command = [sys.executable, "-m", "engine", "state", "export", url]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert "the output cannot be written: No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_pickles_are_loaded_only_on_request(tmp_path: Path, capsys: Captured) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(write_words(url, codec="pickle"))
    assert lines(capsys, "list", url, "--json")[0]["keys"] is None
    assert lines(capsys, "list", url, "--json", "--unpickle")[0]["keys"] == 3
    assert "pickle of " in run_command(capsys, "state", "show", url, "--component", "seen")[0]
    assert all(set(line["value"]) == {"$pickle"} for line in lines(capsys, "export", url, "--component", "seen"))
    assert "--unpickle" in run_command(capsys, "state", "export", url, status=2)[1]
    found = lines(capsys, "export", url, "--unpickle", "--component", "count")
    assert {line["key"]: read(line["value"]) for line in found} == WORDS


def test_delete_removes_a_component(url: str, capsys: Captured) -> None:
    err = run_command(capsys, "state", "delete", url, "--component", "count", "--yes")[1]
    assert err == "deleted the state of 'count' of topology 'counts'\n"
    assert [line["component"] for line in lines(capsys, "list", url, "--json")] == ["seen"]


def test_delete_removes_a_topology(url: str, capsys: Captured) -> None:
    asyncio.run(write_words(url, "another"))
    assert "the store contains 2 topologies" in run_command(capsys, "state", "delete", url, "--yes", status=2)[1]
    run_command(capsys, "state", "delete", url, "--topology", "counts", "--yes")
    assert {line["topology"] for line in lines(capsys, "list", url, "--json")} == {"another"}
    run_command(capsys, "state", "delete", url, "--yes")
    assert run_command(capsys, "state", "list", url)[0] == "the store contains no topology\n"


def test_delete_asks_only_on_a_terminal(url: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    err = run_command(capsys, "state", "delete", url, status=2)[1]
    assert "the state of topology 'counts': 6 keys, " in err
    assert "Confirm with --yes" in err
    assert len(lines(capsys, "list", url, "--json")) == 2


@pytest.mark.parametrize(("answer", "status", "left"), [("n", 1, 2), ("", 1, 2), ("y", 0, 0)])
def test_delete_on_a_terminal_asks_for_confirmation(url: str, answer: str, status: int, left: int, capsys: Captured) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        command = [sys.executable, "-m", "engine", "state", "delete", url]
        done = subprocess.run(command, cwd=ROOT, stdin=theirs, capture_output=True, text=True, check=False, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == status
    assert "The deletion is refused while a process runs the topology." in done.stderr
    assert "This cannot be undone. Delete it? [y/N]" in done.stderr
    assert ("nothing was deleted" in done.stderr) == (answer != "y")
    assert len(lines(capsys, "list", url, "--json")) == left


def test_an_export_shows_its_progress(url: str, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "engine", "state", "export", url, "-o", str(tmp_path / "words.jsonl")]
        done = subprocess.run(command, cwd=ROOT, stderr=theirs, stdout=subprocess.PIPE, check=True, timeout=60)
        shown = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout == b""
    assert "keys exported" in shown
    assert "6 keys of topology 'counts'" in shown


@pytest.mark.parametrize("command", ["list", "show", "export", "delete"])
def test_help_shows_examples(command: str, capsys: Captured) -> None:
    assert f"  state {command} sqlite:///counts.db" in run_command(capsys, "state", command, "--help")[0]


def test_control_characters_in_names_are_escaped(tmp_path: Path, capsys: Captured) -> None:
    url, name = f"sqlite:///{tmp_path}/state.db", "evil\x1b[2J\nname"
    asyncio.run(write_words(url, name))
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as database:
        database.execute("INSERT INTO components (topology, name) SELECT id, char(27) || '[31m' FROM topologies")
        note_catalogue(database)
    for command in ("list", "show"):
        shown, _ = run_command(capsys, "state", command, url)
        assert r"'evil\x1b[2J\nname'" in shown
        assert r"\x1b[31m'" in shown
        assert all(each.isprintable() for each in shown.splitlines())
