"""Missing, foreign and damaged stores: `state` shows one error, exits with status 2, and writes nothing."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from engine.checkpoint.record_entries import LEDGER, deletion_entry
from engine.cli.main import run_command_line
from engine.state import provider_of
from engine.state.sqlite.file import APPLICATION_ID
from tests.checkpoint.stored_states import write_words
from tests.project.sources import ROOT

COMMANDS = ["list", "show", "export", "delete"]


def error_of(capsys: pytest.CaptureFixture[str], command: str, url: str, *arguments: str) -> str:
    sure = ["--yes"] if command == "delete" else []
    assert run_command_line(["state", command, url, *arguments, *sure]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: ")
    assert "Traceback" not in err
    assert "tries again" not in err
    return str(err)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlit:///state.db", "Did you mean 'sqlite'?"),
        ("state.db", "there is no such state provider"),
        ("sqlite://state.db", "Three slashes"),
        ("sqlite:///", "names no file"),
        ("sqlite:///a%00b.db", "names no file"),
        ("sqlite:///stat.db", "Did you mean 'state.db'?"),
        ("sqlite:///no/state.db", "the folder 'no' does not exist"),
        ("sqlite:///.", "is not a file"),
        ("sqlite:///loop.db", "its links are circular"),
        (f"sqlite:///{'x' * 300}.db", "File name too long"),
        ("sqlite://[", "names no file"),
        ("sqlite:///text.db", "is damaged, or not a SQLite file"),
        ("sqlite:///theirs.db", "a SQLite database of another program"),
        ("sqlite:///newer.db", "written by a newer version of the engine (format 99"),
        ("memory://", "memory:// stores nothing that a tool could read"),
        ("redis://127.0.0.1:1/0", "cannot be reached"),
        ("redis://127.0.0.1/x", "is not the number of a database"),
        ("nomodule:provider", "cannot be loaded"),
        ("tests.cli.test_state_refusals:error_of", "raised TypeError"),
        ("tests.checkpoint.killing:deadly_provider?x|1|sqlite:///state.db", "DeadlyProvider has no inventory"),
    ],
)
def test_a_url_without_state_is_refused(
    command: str, url: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(write_words("sqlite:///state.db"))
    Path("text.db").write_text("no database " * 500)
    _database("theirs.db", "CREATE TABLE t (a)")
    _database("newer.db", f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 99", "CREATE TABLE t (a)")
    Path("loop.db").symlink_to("loop.db")
    before = sorted(tmp_path.iterdir())

    assert why in error_of(capsys, command, url)

    assert sorted(tmp_path.iterdir()) == before


def _database(name: str, *statements: str) -> None:
    with closing(sqlite3.connect(name, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("command", ["list", "show", "export"])
def test_a_truncated_file_is_refused(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(write_words(f"sqlite:///{tmp_path}/state.db"))
    path = tmp_path / "state.db"
    path.write_bytes(path.read_bytes()[:9000])
    assert "is damaged" in error_of(capsys, command, f"sqlite:///{path}")


def test_an_empty_file_has_no_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state.db").touch()
    assert run_command_line(["state", "list", f"sqlite:///{tmp_path}/state.db"]) == 0
    assert "the store contains no topology" in capsys.readouterr().out
    assert "the store contains no topology" in error_of(capsys, "show", f"sqlite:///{tmp_path}/state.db")


@pytest.mark.parametrize("command", ["show", "export", "delete"])
def test_unknown_names_are_refused(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(write_words(url))
    assert "Did you mean 'counts'?" in error_of(capsys, command, url, "--topology", "count")
    assert "Did you mean 'seen'?" in error_of(capsys, command, url, "--component", "sen")
    asyncio.run(write_words(url, "other"))
    assert "Choose one with --topology. Known: 'counts', 'other'." in error_of(capsys, command, url)


async def _write_entries(url: str, entries: dict[str, object]) -> None:
    provider = provider_of(url)
    await provider.open("counts")
    await provider.ledger(LEDGER).claim()
    await provider.ledger(LEDGER).write(entries)
    await provider.close()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("entry", "why"), [({"codec": ["msgpack", 2]}, "written by a newer version of the engine"), ({"codec": ["cbor", 1]}, "no codec 'cbor'")]
)
def test_an_unknown_codec_is_refused(
    command: str, entry: dict[str, object], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(write_words(url))
    asyncio.run(_write_entries(url, entry))
    assert why in error_of(capsys, command, url)


def test_a_half_deleted_state_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(write_words(url))
    asyncio.run(_write_entries(url, deletion_entry(["count"])))
    assert "the state of 'count' of topology 'counts' is being deleted" in error_of(capsys, "export", url)
    assert run_command_line(["state", "list", url]) == 0
    assert "being deleted" in capsys.readouterr().out
    assert run_command_line(["state", "delete", url, "--component", "count", "--yes"]) == 0
    assert run_command_line(["state", "export", url]) == 0


def test_delete_of_a_running_topology_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    asyncio.run(write_words(url))
    holding = (
        "import asyncio, sys; from engine.state import provider_of; p = provider_of(sys.argv[1]); asyncio.run(p.open('counts'));"
        "print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", holding, url]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"open\n"
        try:
            assert "runs already" in error_of(capsys, "delete", url)
            assert run_command_line(["state", "export", url]) == 0
        finally:
            running.kill()
    assert len(capsys.readouterr().out.splitlines()) == 6


@pytest.mark.parametrize(
    ("arguments", "why"), [(["lst"], "Did you mean 'list'?"), (["list"], "Missing argument 'URL'"), (["show", "x", "--limit", "-1"], "-1")]
)
def test_a_wrong_command_line_is_status_2(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["state", *arguments]) == 2
    assert why in capsys.readouterr().err
