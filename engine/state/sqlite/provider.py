"""The provider of `sqlite:///path`: state in one SQLite file, the usual durable store (CP-8).

A file may hold the state of several topologies. A lock beside it prevents a second process from running the same topology.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from engine.errors import StateError
from engine.state.api import Ledger, StateInventory, StateProvider
from engine.state.sqlite.file import FileLock, SqliteFile, check_place, lock_of
from engine.state.sqlite.inventory import SqliteInventory
from engine.state.sqlite.store import SqliteLedger, SqliteStore
from engine.state.sqlite.tables import note_catalogue

STANDBY_SECS: Final = 0.2
TRIES_OF_LOCK: Final = 3
TRY_LOCK_SECS: Final = 0.002
"""Pause before another attempt. A tool that checks the lock takes it for a moment."""


class SqliteProvider(StateProvider):
    """State in a SQLite file."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path)
        self._lock: FileLock | None = None
        self._topology = 0
        self._ledgers: dict[str, SqliteLedger] = {}

    async def open(self, topology_name: str) -> None:
        check_place(self._file.path)
        try:
            if self._lock is None:
                self._take_lock(topology_name)
            await self._file.open()
            self._topology = await self._file.write(lambda writer: _topology_id(writer, topology_name))
        except BaseException:
            await self.close()
            raise

    async def stand_by(self, topology_name: str, on_waiting: Callable[[str], None]) -> None:
        check_place(self._file.path)
        lock = lock_of(self._file.path, topology_name)
        if lock is None:
            return
        if not _taken(lock):
            on_waiting("")
            while not _taken(lock):  # noqa: ASYNC110 - nothing reports the release of another process's lock
                await asyncio.sleep(STANDBY_SECS)
        self._lock = lock

    def _take_lock(self, topology_name: str) -> None:
        lock = lock_of(self._file.path, topology_name)
        if lock is None:
            return
        for _ in range(TRIES_OF_LOCK):
            if _taken(lock):
                self._lock = lock
                return
            threading.Event().wait(TRY_LOCK_SECS)
        raise StateError(
            f"topology {topology_name!r} runs already, in this or another process, on the state in {str(self._file.path)!r}",
            hint="Stop that process, use another state_provider, or let this process wait: -c standby=true.",
        )

    async def close(self) -> None:
        try:
            await self._file.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def ledger(self, name: str) -> Ledger:
        return self._ledgers.setdefault(name, SqliteLedger(self._file, self._topology, name))

    async def store(self, component_id: str, task_index: int, slots: range) -> SqliteStore:
        topology = self._topology
        component = await self._file.write(lambda writer: _component_id(writer, topology, component_id))
        return SqliteStore(self._file, component, task_index, slots)

    def inventory(self) -> StateInventory:
        return SqliteInventory(self._file, self._topology)


def _taken(lock: FileLock) -> bool:
    try:
        return lock.take()
    except OSError as error:
        raise StateError(
            f"the lock {str(lock.path)!r} beside the state cannot be created: {error.strerror}",
            hint="Let the engine's user write the folder, or choose another sqlite:/// path.",
        ) from error


def _topology_id(writer: sqlite3.Connection, name: str) -> int:
    if writer.execute("INSERT INTO topologies (name) VALUES (?) ON CONFLICT DO NOTHING", (name,)).rowcount:
        note_catalogue(writer)
    [[found]] = writer.execute("SELECT id FROM topologies WHERE name = ?", (name,))
    return int(found)


def _component_id(writer: sqlite3.Connection, topology: int, name: str) -> int:
    if writer.execute("INSERT INTO components (topology, name) VALUES (?, ?) ON CONFLICT DO NOTHING", (topology, name)).rowcount:
        note_catalogue(writer)
    [[found]] = writer.execute("SELECT id FROM components WHERE topology = ? AND name = ?", (topology, name))
    return int(found)
