"""Inventory of a SQLite file that others write, or that the reader may not write. It changes nothing."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import StateError, StateUnavailable
from engine.state import Row, StoredTopology
from engine.state.sqlite.provider import SqliteProvider
from engine.testing.state_provider_suite import chunks

KILLED_WRITER = """
import asyncio, os, sys
from pathlib import Path
from engine.state.api import Row
from engine.state.sqlite.provider import SqliteProvider
from engine.testing.state_provider_suite import chunks
async def main():
    provider = SqliteProvider(Path(sys.argv[1]))
    await provider.open("words")
    await (await provider.store("count", 0, range(4))).fold(chunks([Row(0, b"a", b"killed")]), 0)
    os._exit(9)
asyncio.run(main())
"""


async def open_provider(path: Path) -> SqliteProvider:
    provider = SqliteProvider(path)
    await provider.open("words")
    return provider


async def fold(provider: SqliteProvider, value: bytes, txid: int = 0) -> None:
    await (await provider.store("count", 0, range(4))).fold(chunks([Row(0, b"a", value)]), txid)


async def value_in(stored: StoredTopology) -> bytes | None:
    [[row]] = [rows async for rows in stored.rows("count")]
    return row.value


async def read_with_inventory(path: Path) -> bytes | None:
    async with SqliteProvider(path).inventory().look("words") as stored:
        return await value_in(stored)


def contents(folder: Path) -> dict[str, bytes]:
    """Content of the files without the index of a log, which every reader recreates."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


async def look_while_a_run_begins(path: Path) -> None:
    async with SqliteProvider(path).inventory().look("words") as stored:
        await stored.components()
        provider = await open_provider(path)
        await fold(provider, b"2", 1)
        await provider.close()


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A file with the log of a process that was killed."""
    path = tmp_path / "state.db"
    done = subprocess.run([sys.executable, "-c", KILLED_WRITER, str(path)], check=False)
    assert done.returncode == 9
    assert (tmp_path / "state.db-wal").stat().st_size
    return path


async def test_a_closed_file_is_read_without_creating_other_files(tmp_path: Path) -> None:
    provider = await open_provider(tmp_path / "state.db")
    await fold(provider, b"1")
    await provider.close()
    before = contents(tmp_path)
    assert await read_with_inventory(tmp_path / "state.db") == b"1"
    assert contents(tmp_path) == before
    assert len(before) == 2, "the file and its lock"


async def test_the_log_of_a_killed_process_is_read_and_not_removed(killed: Path, tmp_path: Path) -> None:
    before = contents(tmp_path)
    assert await read_with_inventory(killed) == b"killed"
    assert contents(tmp_path) == before


async def test_a_copy_with_its_log_is_read(killed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("state.db", "state.db-wal"):
        shutil.copy(tmp_path / name, copy)
    assert await read_with_inventory(copy / "state.db") == b"killed"


async def test_a_link_is_read_with_the_log_of_its_file(killed: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "other.db").symlink_to(killed)
    assert await read_with_inventory(tmp_path / "links" / "other.db") == b"killed"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write every folder")
def test_the_error_for_a_log_in_a_read_only_folder_says_to_copy_both_files(killed: Path, tmp_path: Path) -> None:
    killed.with_name("state.db-shm").unlink()
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(StateError, match="log beside it") as told:
            asyncio.run(read_with_inventory(killed))
        assert "Copy both files" in str(told.value)
    finally:
        tmp_path.chmod(0o755)


async def test_the_error_for_an_index_that_cannot_be_created_names_the_log(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail like in a read-only folder, also for root."""
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorname = "SQLITE_CANTOPEN"

    def connect(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(StateError, match=r"its log state\.db-wal can be read only if") as told:
        await read_with_inventory(killed)
    assert "Copy both files" in str(told.value)


async def test_a_read_during_a_run_sees_one_consistent_moment(tmp_path: Path) -> None:
    provider = await open_provider(tmp_path / "state.db")
    await fold(provider, b"1")
    async with SqliteProvider(tmp_path / "state.db").inventory().look("words") as stored:
        assert await stored.components() == ["count"]
        await fold(provider, b"2", 1)
        assert await value_in(stored) == b"1"
    assert await read_with_inventory(tmp_path / "state.db") == b"2"
    await provider.close()


async def test_a_run_that_starts_during_the_read_makes_the_store_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    provider = await open_provider(path)
    await fold(provider, b"1")
    await provider.close()
    with pytest.raises(StateUnavailable, match="began to write"):
        await look_while_a_run_begins(path)
    assert await read_with_inventory(path) == b"2"


async def test_a_file_that_disappears_during_the_read_is_noticed(tmp_path: Path) -> None:
    await (await open_provider(tmp_path / "state.db")).close()
    with pytest.raises(StateUnavailable, match="while it was read"):
        async with SqliteProvider(tmp_path / "state.db").inventory().look("words"):
            (tmp_path / "state.db").unlink()
