"""Faults of SQLite: other files, a full disk, a second process. Each has a clear error, and no data is changed."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StateError, StateFenced, StateUnavailable
from engine.state import LayeredState, StatePlace, codec_named, fold_committed
from engine.state.sqlite.file import APPLICATION_ID, SqliteFile, format_in
from engine.state.sqlite.provider import SqliteProvider
from engine.state.sqlite.store import SqliteLedger
from engine.state.sqlite.tables import FORMAT
from tests.patience import PATIENCE_SECS

PLACE = StatePlace("count", 0, 1, True, 8)
ROOT = Path(__file__).resolve().parents[2]


async def opening_error(path: Path) -> StateError:
    """Return the error with which the file cannot be opened."""
    provider = SqliteProvider(path)
    with pytest.raises(StateError) as caught:
        await provider.open("words")
    await provider.close()
    return caught.value


async def open_provider(path: Path, topology: str = "words") -> SqliteProvider:
    provider = SqliteProvider(path)
    await provider.open(topology)
    return provider


async def state_in(provider: SqliteProvider, txid: int = -1) -> LayeredState[object, object]:
    await fold_committed(provider, codec_named("msgpack"), PLACE, lambda *_: True, txid)
    state: LayeredState[object, object] = LayeredState(await provider.store("count", 0, PLACE.slots), codec_named("msgpack"), PLACE)
    await state.load(txid)
    return state


async def fill_store(path: Path) -> None:
    provider = await open_provider(path)
    state = await state_in(provider)
    for number in range(2000):
        state.put(number, "x" * 50)
    await state.prepare_commit(0)
    await state.commit(0)
    await state.close()
    await provider.close()


def database(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


# Files without state of the engine


async def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    error = await opening_error(tmp_path / "gone" / "state.db")
    assert "the folder" in error.message
    assert not (tmp_path / "gone").exists()


async def test_a_path_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    assert "is not a file" in (await opening_error(tmp_path / "state.db")).message


async def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "the folder" in (await opening_error(tmp_path / "file" / "state.db")).message


async def test_a_lock_file_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 240)
    assert "the lock" in (await opening_error(path)).message


@pytest.mark.parametrize("size", [100, 5000])
async def test_a_file_that_is_not_a_database_is_an_error(tmp_path: Path, size: int) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"not a database " * size)
    error = await opening_error(path)
    assert "is damaged, or not a SQLite file" in error.message
    assert str(path) in error.message
    assert path.read_bytes() == b"not a database " * size


async def test_a_foreign_database_is_an_error(tmp_path: Path) -> None:
    for number, statements in enumerate(
        (["CREATE TABLE theirs (x)"], ["PRAGMA application_id = 77", "CREATE TABLE theirs (x)"], ["PRAGMA user_version = 3"])
    ):
        path = tmp_path / f"{number}.db"
        database(path, *statements)
        before = path.read_bytes()
        assert "of another program" in (await opening_error(path)).message
        assert path.read_bytes() == before


async def test_a_file_of_a_newer_version_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    await fill_store(path)
    database(path, f"PRAGMA user_version = {FORMAT + 1}")
    before = path.read_bytes()
    error = await opening_error(path)
    assert f"newer version of the engine (format {FORMAT + 1}; this one knows {FORMAT})" in error.message
    assert path.read_bytes() == before


async def test_an_empty_file_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch()
    await fill_store(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


@pytest.mark.parametrize("left", [0.05, 0.3, 0.7, 0.98])
async def test_a_truncated_file_is_an_error(tmp_path: Path, left: float) -> None:
    path = tmp_path / "state.db"
    await fill_store(path)
    with path.open("r+b") as file:
        file.truncate(int(path.stat().st_size * left))

    async def use() -> None:
        provider = SqliteProvider(path)
        try:
            await provider.open("words")
            state = await state_in(provider, 0)
            found = dict(state.items())
            assert found == dict.fromkeys(range(2000), "x" * 50)
        finally:
            await provider.close()

    with pytest.raises(StateError, match="is damaged, or not a SQLite file"):
        await use()


async def test_a_damaged_page_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    await fill_store(path)
    provider = await open_provider(path)
    with path.open("r+b") as file:
        file.seek(4096 * 8)
        file.write(b"\xff" * 4096 * 20)

    async def use() -> None:
        dict((await state_in(provider, 0)).items())

    try:
        with pytest.raises(StateError, match="is damaged, or not a SQLite file"):
            await use()
    finally:
        await provider.close()


async def test_a_read_only_file_is_an_error(tmp_path: Path) -> None:
    """The tests may run as root, who may write any file. SQLite's own switch also stops root."""
    path = tmp_path / "state.db"
    await fill_store(path)
    provider = await open_provider(path)
    try:
        state = await state_in(provider, 0)
        await provider._file._in_thread(lambda: provider._file._writer.execute("PRAGMA query_only = 1"))  # type: ignore[union-attr]
        state.put("a", 1)
        with pytest.raises(StateError, match="cannot be written") as caught:
            await state.prepare_commit(1)
        assert not isinstance(caught.value, StateUnavailable)
        assert state.get(5) == "x" * 50
    finally:
        await provider.close()


# Temporary faults


@pytest.mark.guarantee("CP-7")
async def test_a_full_disk_loses_nothing_and_the_run_recovers(tmp_path: Path) -> None:
    provider = await open_provider(tmp_path / "state.db")
    state = await state_in(provider)
    state.put("kept", 1)
    await state.prepare_commit(0)
    await state.commit(0)
    [[pages]] = await provider._file.write(lambda writer: writer.execute("PRAGMA page_count").fetchall())
    await provider._file._in_thread(lambda: provider._file._writer.execute(f"PRAGMA max_page_count = {pages + 2}"))  # type: ignore[union-attr]
    for number in range(3000):
        state.put(number, "x" * 50)
    state.freeze(1)
    for _ in range(3):
        with pytest.raises(StateUnavailable, match="the disk is full"):
            await state.write_frozen()
    assert state.get("kept") == 1
    await provider._file._in_thread(lambda: provider._file._writer.execute("PRAGMA max_page_count = 1000000"))  # type: ignore[union-attr]
    await state.write_frozen()
    await state.commit(1)
    await provider.close()
    provider = await open_provider(tmp_path / "state.db")
    state = await state_in(provider, 1)
    assert dict(state.items()) == {"kept": 1} | dict.fromkeys(range(3000), "x" * 50)
    await provider.close()


async def test_a_disk_that_is_full_at_a_fold_loses_nothing(tmp_path: Path) -> None:
    provider = await open_provider(tmp_path / "state.db")
    state = await state_in(provider)
    for number in range(3000):
        state.put(number, "x" * 50)
    await state.prepare_commit(0)
    await state.commit(0)
    [[pages]] = await provider._file.write(lambda writer: writer.execute("PRAGMA page_count").fetchall())
    await provider._file._in_thread(lambda: provider._file._writer.execute(f"PRAGMA max_page_count = {pages + 40}"))  # type: ignore[union-attr]
    with pytest.raises(StateUnavailable, match="the disk is full"):
        await state.fold()
    assert dict(state.items()) == dict.fromkeys(range(3000), "x" * 50)
    await provider.close()
    provider = await open_provider(tmp_path / "state.db")
    assert dict((await state_in(provider, 0)).items()) == dict.fromkeys(range(3000), "x" * 50)
    await provider.close()


async def test_a_long_write_of_another_process_is_waited_for_then_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.state.sqlite.file.WRITER_BUSY_SECS", 0.05)
    provider = await open_provider(tmp_path / "state.db")
    state = await state_in(provider)
    state.put("a", 1)
    state.freeze(0)
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateUnavailable, match="cannot be reached now"):
            await state.write_frozen()
        other.execute("ROLLBACK")
    await state.write_frozen()
    await state.commit(0)
    await provider.close()


# Processes

HOLDER = """
import asyncio, sys
from pathlib import Path
from engine.state.sqlite.provider import SqliteProvider

async def main():
    provider = SqliteProvider(Path(sys.argv[1]))
    await provider.open("words")
    await provider.ledger("one").claim()
    await provider.ledger("one").write({"by": "the first"})
    print("open", flush=True)
    await asyncio.sleep(100)

asyncio.run(main())
"""


@pytest.mark.guarantee("CP-8")
async def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLDER, str(path), cwd=ROOT, env=environment, stdout=subprocess.PIPE)
    try:
        assert first.stdout is not None
        assert await first.stdout.readline() == b"open\n"
        error = await opening_error(path)
        assert "topology 'words' runs already, in this or another process" in error.message
        await (await open_provider(path, "another topology")).close()
    finally:
        first.kill()
        await first.wait()
    provider = await open_provider(path)
    assert await provider.ledger("one").read() == {"by": "the first"}
    assert await provider.ledger("one").claim() == 2
    await provider.close()


async def test_a_second_opening_in_the_same_process_is_refused(tmp_path: Path) -> None:
    first = await open_provider(tmp_path / "state.db")
    assert "runs already" in (await opening_error(tmp_path / "state.db")).message
    await first.close()
    await first.close()
    await (await open_provider(tmp_path / "state.db")).close()


async def test_a_link_is_locked_like_its_file(tmp_path: Path) -> None:
    (tmp_path / "linked").mkdir()
    os.symlink(tmp_path / "state.db", tmp_path / "linked" / "other.db")
    os.symlink(tmp_path, tmp_path / "linked" / "folder")
    first = await open_provider(tmp_path / "state.db")
    for path in (tmp_path / "linked" / "other.db", tmp_path / "linked" / "folder" / "state.db"):
        assert "runs already" in (await opening_error(path)).message
    await first.close()


@pytest.mark.parametrize("statements", range(4))
async def test_a_file_that_another_process_initialises_meanwhile_is_accepted(tmp_path: Path, statements: int) -> None:
    path = tmp_path / "state.db"
    other = SqliteFile(path)

    class Looking(sqlite3.Connection):
        looks = 0

        def execute(self, *args: Any) -> sqlite3.Cursor:
            if self.looks == statements:
                other._open_writer()
            self.looks += 1
            return super().execute(*args)

    connection = sqlite3.connect(path, isolation_level=None, factory=Looking)
    assert (format_in(connection, path) == 0) == (statements == 3)
    connection.close()
    await other.close()


async def test_two_topologies_may_create_the_file_at_the_same_time(tmp_path: Path) -> None:
    providers = await asyncio.gather(*(open_provider(tmp_path / "state.db", f"topology {number}") for number in range(6)))
    for number, provider in enumerate(providers):
        await provider.ledger("one").claim()
        await provider.ledger("one").write({"number": number})
    assert [await provider.ledger("one").read() for provider in providers] == [{"number": number} for number in range(6)]
    for provider in providers:
        await provider.close()


@pytest.mark.guarantee("CP-8")
async def test_a_ledger_that_another_process_claimed_is_fenced(tmp_path: Path) -> None:
    provider = await open_provider(tmp_path / "state.db")
    first, second = (SqliteLedger(provider._file, provider._topology, "one") for _ in range(2))
    await first.claim()
    await first.write({"a": 1})
    await second.claim()
    with pytest.raises(StateFenced):
        await first.write({"a": 2})
    assert await second.read() == {"a": 1}
    await provider.close()


async def test_closing_waits_for_a_running_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a write whose task was cancelled, when the provider is closed, then the write ends first."""
    provider = await open_provider(tmp_path / "state.db")
    state = await state_in(provider)
    for number in range(20_000):
        state.put(number, number)
    state.freeze(0)
    begun, may_end = threading.Event(), threading.Event()
    told = SqliteFile._translate

    def held(file: SqliteFile, work: Any) -> Any:
        result = told(file, work)
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            may_end.wait(PATIENCE_SECS)
        return result

    monkeypatch.setattr(SqliteFile, "_translate", held)
    writing = asyncio.create_task(state.write_frozen())
    assert await asyncio.to_thread(begun.wait, PATIENCE_SECS)
    writing.cancel()
    closing = asyncio.create_task(provider.close())
    await asyncio.sleep(0.01)
    assert not closing.done()
    may_end.set()
    await closing
    assert [name for name in os.listdir(tmp_path) if not name.endswith(".lock")] == ["state.db"], "no journal is left"


async def test_a_file_opens_while_another_process_still_reads_the_new_file(tmp_path: Path) -> None:
    """SQLite refuses a write-ahead log at once while a reader has the file, so two processes that create it would meet."""
    path = tmp_path / "c.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        opened = asyncio.create_task(open_and_close(path))
        await asyncio.sleep(0.1)
        assert not opened.done()
        other.execute("ROLLBACK")
        await asyncio.wait_for(opened, PATIENCE_SECS)


async def open_and_close(path: Path) -> None:
    file = SqliteFile(path)
    await file.open()
    await file.close()
