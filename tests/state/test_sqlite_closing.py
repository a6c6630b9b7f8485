"""SQLite: any end of the use of a file closes its connections, without the garbage collector."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StateDamaged
from engine.state import Row
from engine.state.sqlite.file import SqliteFile
from engine.state.sqlite.inventory import ROWS_PER_CHUNK, ReadOnlyFile
from engine.state.sqlite.provider import SqliteProvider
from engine.testing.state_provider_suite import chunks
from tests.patience import PATIENCE_SECS
from tests.state.connections import is_closed

Opens = Callable[[Path], Awaitable[None]]


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[Path]:
    """A file of state with more rows than one chunk, opened by a process."""
    provider = SqliteProvider(tmp_path / "state.db")
    await provider.open("words")
    rows = [Row(0, b"%05d" % number, b"value") for number in range(2 * ROWS_PER_CHUNK)]
    await (await provider.store("count", 0, range(1))).fold(chunks(rows), 0)
    yield tmp_path / "state.db"
    await provider.close()


class Held:
    """Return a call that begins in a thread and ends only after the shutdown of the thread pool began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self._may_end = threading.Event(), threading.Event()
        shutdown = ThreadPoolExecutor.shutdown

        def ending(pool: ThreadPoolExecutor, **options: Any) -> None:
            self._may_end.set()
            shutdown(pool, **options)

        monkeypatch.setattr(ThreadPoolExecutor, "shutdown", ending)

    def __call__(self, *_: object) -> None:
        self.begun.set()
        assert self._may_end.wait(PATIENCE_SECS)


opens = pytest.mark.parametrize(
    "opens",
    [lambda path: SqliteFile(path).open(), lambda path: SqliteProvider(path).open("other"), lambda path: ReadOnlyFile(path).open()],
    ids=["file", "provider", "to read"],
)


@opens
async def test_a_file_with_invalid_utf8_is_closed(opens: Opens, tmp_path: Path, connections: list[sqlite3.Connection]) -> None:
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as database:
        for statement in ("CREATE TABLE topologies (id)", "PRAGMA writable_schema = ON"):
            database.execute(statement)
        database.execute("UPDATE sqlite_master SET sql = CAST(x'435245415445ff' AS TEXT)")
    with pytest.raises(StateDamaged, match="a text that is not UTF-8"):
        await opens(tmp_path / "state.db")
    assert [is_closed(each) for each in connections] == [True, True]


@opens
async def test_a_cancelled_opening_closes_the_connection_that_its_thread_opens(
    opens: Opens, path: Path, connections: list[sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    held, connect = Held(monkeypatch), sqlite3.connect

    def connected(*args: Any, **options: Any) -> sqlite3.Connection:
        held()
        return connect(*args, **options)

    monkeypatch.setattr(sqlite3, "connect", connected)
    opening = asyncio.ensure_future(opens(path))
    assert await asyncio.to_thread(held.begun.wait, PATIENCE_SECS)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert [is_closed(each) for each in connections] == [True]


async def test_a_cancelled_closing_still_closes(path: Path, connections: list[sqlite3.Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a write in its thread, when the waiting close is cancelled, then the write ends first."""
    file = SqliteFile(path)
    await file.open()
    held = Held(monkeypatch)
    writing = asyncio.create_task(file.write(held))
    assert await asyncio.to_thread(held.begun.wait, PATIENCE_SECS)
    closes = asyncio.create_task(file.close())
    await asyncio.sleep(0)
    closes.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closes
    assert [is_closed(each) for each in connections] == [True, True]
    await writing


async def test_a_file_is_closed_even_if_its_rows_were_not_read_to_the_end(path: Path) -> None:
    """An unclosed reader would keep its view in SQLite, and the log could not be emptied."""
    async with SqliteProvider(path).inventory().look("words") as stored:
        rows = stored.rows("count")
        assert len(await anext(rows)) == ROWS_PER_CHUNK
    with closing(sqlite3.connect(path, timeout=0)) as database:
        [[is_busy, _, _]] = database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert not is_busy
    await rows.aclose()  # type: ignore[attr-defined]


async def test_each_commit_is_forced_to_the_disk(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "state.db")
    await file.open()
    [[synchronous]] = await file.write_once(lambda writer: writer.execute("PRAGMA synchronous").fetchall())
    await file.close()
    assert synchronous == 2, "FULL, because with a write-ahead log NORMAL may lose the last commits in a power failure"
