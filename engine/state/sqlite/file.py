"""Opens and checks one SQLite file, translates its errors, and locks a topology.

One connection writes in its own thread. The other reads on the loop's thread, since in WAL mode a reader does not wait for writers.
"""

import errno
import hashlib
import io
import os
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from engine.backoff import Backoff
from engine.errors import StateDamaged, StateError, StateProviderError, StateUnavailable
from engine.forks import open_unshared
from engine.in_thread import in_thread
from engine.state.sqlite.tables import FORMAT, faults, make_tables, upgrade

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: io.FileIO) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

    def _unlock(file: io.FileIO) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(file: io.FileIO) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(file: io.FileIO) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)


APPLICATION_ID: Final = 0x53_74_6F_72
WRITER_BUSY_SECS: Final = 5.0
LOG_BACKOFF: Final = Backoff(0.001, 2.0)
"""Pauses while another process switches a new file to a write-ahead log. When they are longest, the file is busy for another reason."""
READER_BUSY_SECS: Final = 0.5
"""Longest wait for a lock of another process. The reader blocks the event loop, but in WAL mode it rarely waits."""
RESTORE: Final = "Restore it from a backup, with its -wal. Nothing was changed. To start empty, remove the file, and its -wal and -shm."
_T = TypeVar("_T")


@dataclass(frozen=True)
class Schema:
    """Purpose and tables of a file. A file never has more than one purpose."""

    holds: str
    """Name of the content in errors, such as "state" in "the state in 'counts.db'"."""
    application_id: int
    format: int
    """Stored as `user_version`."""
    make: Callable[[sqlite3.Connection], None]
    """Creates the tables in an empty file, in a transaction."""
    upgrade: Callable[[sqlite3.Connection], None] | None = None
    """Upgrades tables of an older format, in a transaction."""
    faults: Callable[[sqlite3.Connection, int], Iterator[str]] = lambda connection, format_: iter(())
    """Yields descriptions of damage in tables of a format."""
    closed_hint: str = "Use it before that, or open it anew."


STATE: Final = Schema(
    "state", APPLICATION_ID, FORMAT, make_tables, upgrade, faults, "Use it before that. Later: python -m engine state export URL."
)


class SqliteFile:
    """The two connections to one file."""

    def __init__(self, path: Path, schema: Schema = STATE) -> None:
        self.path = path
        self._schema = schema
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix=f"{schema.holds}-writer")
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Open or create the file, once. Raises StateError for a file of another program or purpose."""
        if self._is_closed:
            raise self._not_open()
        check_place(self.path, self._schema)
        try:
            await self._in_thread(self._open_writer)
            self._reader = self._translate(lambda: self._connect(READER_BUSY_SECS))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close both connections, after pending writes."""
        self._is_closed = True
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        try:
            if self._writer is not None:
                await self._in_thread(self._close_writer)
        finally:
            self._thread.shutdown(wait=True)
            self._close_writer()  # if open or close was cancelled: the thread has ended by now

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _connect(self, busy_secs: float) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=busy_secs)
        try:
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:  # a damaged text raises UnicodeDecodeError, which is not an sqlite3.Error
            connection.close()
            raise
        return connection

    def _open_writer(self) -> None:
        check_file(self.path, self._schema, writes=True)
        writer = self._writer = self._connect(WRITER_BUSY_SECS)
        version = self._checked(writer)
        mode = _use_log(writer)
        if mode != "wal":
            raise StateError(
                f"{str(self.path)!r} cannot use a write-ahead log: SQLite keeps its journal_mode at {mode!r}",
                hint="Choose a sqlite:/// path on a local disk, writable for the engine's user.",
            )
        if version < self._schema.format:
            self._transaction(self._make_tables)

    def _checked(self, connection: sqlite3.Connection) -> int:
        """Check the whole file in one transaction. Return its format, 0 for an empty file."""
        connection.execute("BEGIN")
        try:
            version = format_in(connection, self.path, self._schema)
            check_whole(connection, version, self.path, self._schema)
        finally:
            if connection.in_transaction:  # an error may have ended the transaction, and must not be hidden
                connection.execute("ROLLBACK")
        return version

    def _make_tables(self, writer: sqlite3.Connection) -> None:
        schema = self._schema
        version = format_in(writer, self.path, schema)
        if version == schema.format:
            return  # the process of another topology was faster
        if version == 0:
            schema.make(writer)
        elif schema.upgrade is not None:
            schema.upgrade(writer)
        writer.execute(f"PRAGMA application_id = {schema.application_id}")
        writer.execute(f"PRAGMA user_version = {schema.format}")

    def _not_open(self) -> StateError:
        """Return the error of a call before `open` or after `close`, such as that of a bolt's state whose run has ended."""
        where = f"the file {str(self.path)!r} of the {self._schema.holds}"
        if not self._is_closed:
            return StateError(f"{where} is not open", hint="Call open() first.")
        return StateError(f"{where} is closed, as after the end of a run", hint=self._schema.closed_hint)

    async def write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run work in one transaction of the writing thread. Return its result when it is durable."""
        if self._writer is None or self._is_closed:
            raise self._not_open()
        return await self._in_thread(lambda: self._transaction(work))

    async def write_once(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run work that consists of one statement. SQLite makes each single statement a transaction.

        Every checkpoint uses this, because BEGIN and COMMIT would cost time. Each statement waits up to 5 ms for the interpreter's lock
        while the event loop is busy.
        """
        writer = self._writer
        if writer is None or self._is_closed:
            raise self._not_open()
        return await self._in_thread(lambda: work(writer))

    def _transaction(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        assert self._writer is not None
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            result = work(self._writer)
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise
        return result

    def read(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run one bounded query on the calling thread."""
        reader = self._reader
        if reader is None:
            raise self._not_open()
        return self._translate(lambda: reader.execute(statement, values).fetchall())

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await in_thread(self._thread, lambda: self._translate(work))

    def _translate(self, work: Callable[[], _T]) -> _T:
        return translate_errors(work, self.path, self._schema)


def _use_log(writer: sqlite3.Connection) -> str:
    """Switch to a write-ahead log, and return the journal mode that the file has then.

    While another process switches or reads the new file, SQLite refuses that at once, without the connection's own wait for locks.
    """
    for pause_secs in LOG_BACKOFF.pauses():
        try:
            return str(writer.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorname", "") != "SQLITE_BUSY" or pause_secs >= LOG_BACKOFF.longest_secs:
                raise
        threading.Event().wait(pause_secs)
    raise AssertionError("the pauses have no end")


def translate_errors(work: Callable[[], _T], path: Path, schema: Schema = STATE) -> _T:
    """Run work on a file, and translate its errors."""
    try:
        return work()
    except UnicodeDecodeError as error:  # from a stored text, or a text in an error
        raise StateDamaged(f"the {schema.holds} in {str(path)!r} is damaged: it has a text that is not UTF-8", hint=RESTORE) from error
    except sqlite3.Error as error:
        raise _translated_error(error, path, schema.holds) from error


def check_place(path: Path, schema: Schema = STATE) -> None:
    """Raise StateProviderError if the folder of a path does not exist, or the path is not a file."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not path.parent.is_dir():
            text = f"the folder {str(path.parent)!r} of the {schema.holds} does not exist"
            raise StateProviderError(text, hint="Create it, or choose another sqlite:/// path.") from None
    except PermissionError:
        return  # the path has no fault, and `open` reports this error
    except OSError as error:
        why = "its links are circular" if error.errno == errno.ELOOP else error.strerror
        text = f"the {schema.holds} in {str(path)!r} cannot be opened: {why}"
        raise StateProviderError(text, hint="Choose another sqlite:/// path.") from None
    else:
        if not stat.S_ISREG(mode):
            raise StateProviderError(f"{str(path)!r} is not a file", hint="Name the file of the state: sqlite:///counts.db.")


def check_file(path: Path, schema: Schema = STATE, *, writes: bool = False) -> None:
    """Raise StateError if SQLite must not open an existing file, because it is read-only or has several names."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        text = f"the {schema.holds} in {str(path)!r} cannot be opened: {error}"
        raise StateError(text, hint="Check the path and its permissions.") from None
    if writes and not os.access(path, os.W_OK):  # SQLite would open it nevertheless, and leave -wal and -shm files
        text = f"the {schema.holds} in {str(path)!r} cannot be written: this process lacks the permission"
        raise StateError(text, hint="Let the engine's user write the file and its folder.")
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise StateError(
            f"{str(path)!r} has {found.st_nlink} names (hard links, inode {found.st_ino}): SQLite finds its log by the name, so two "
            "processes could write the file at once",
            hint="find -samefile lists the names. Remove all but one, or copy the file while no process has it open.",
        )


def check_whole(connection: sqlite3.Connection, version: int, path: Path, schema: Schema = STATE) -> None:
    """Raise StateDamaged if a file of a format (0: empty) is damaged. Rows and deltas have checksums of their own."""
    fault = next(_faults(connection, version, schema), None) if version else None
    if fault is not None:
        raise StateDamaged(f"the {schema.holds} in {str(path)!r} is damaged: {fault}", hint=RESTORE)


def _faults(connection: sqlite3.Connection, version: int, schema: Schema) -> Iterator[str]:
    [[encoding]] = connection.execute("PRAGMA encoding")
    if encoding != "UTF-8":
        yield f"it claims that its texts are {encoding}"
    for (report,) in connection.execute("PRAGMA integrity_check(1)"):
        if report != "ok":
            yield " ".join(report.split())
    yield from schema.faults(connection, version)


def format_in(connection: sqlite3.Connection, path: Path, schema: Schema = STATE) -> int:
    """Return the format of the tables, 0 without tables. Raises StateError for a file of another program or purpose."""
    # In this order: another process may create the tables between two reads, and the application id must be read last.
    [[tables]] = connection.execute("SELECT count(*) FROM sqlite_master")
    [[version]] = connection.execute("PRAGMA user_version")
    [[application]] = connection.execute("PRAGMA application_id")
    if version == application == tables == 0:
        return 0
    if application == STATE.application_id != schema.application_id:
        raise StateError(
            f"{str(path)!r} holds the state of topologies; {schema.holds} need a file of their own", hint="Choose another sqlite:/// path."
        )
    if application != schema.application_id:
        raise StateError(f"{str(path)!r} is a SQLite database of another program", hint="Choose another sqlite:/// path.")
    if version == 0:  # the tables were created after the first read
        [[version]] = connection.execute("PRAGMA user_version")
    if version > schema.format:
        raise StateError(
            f"{str(path)!r} was written by a newer version of the engine (format {version}; this one knows {schema.format})",
            hint="Install that version. Nothing was changed.",
        )
    if version < 1:
        raise StateDamaged(f"the {schema.holds} in {str(path)!r} is damaged: format {version}", hint=RESTORE)
    return int(version)


def _translated_error(error: sqlite3.Error, path: Path, holds: str) -> StateError:
    name = getattr(error, "sqlite_errorname", "") or ""
    where = f"the {holds} in {str(path)!r}"
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StateError(f"{where} is damaged, or not a SQLite file: {error}", hint="Restore it from a backup. Nothing was changed.")
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        hint = "Check the permissions of the file and its folder, and whether their file system is mounted read-only."
        return StateError(f"{where} cannot be written: {error}", hint=hint)
    if name.startswith("SQLITE_CANTOPEN"):
        return StateError(f"{where} cannot be opened: {error}", hint="Check the path and its permissions.")
    if name.startswith("SQLITE_FULL"):
        return StateUnavailable(f"{where}: the disk is full", hint="Free disk space.")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_INTERRUPT")):
        return StateUnavailable(
            f"{where} cannot be reached now: {error}",
            hint="Another process may hold it, or its disk may be missing. Then start again.",
        )
    return StateError(f"{where}: {error}")


class FileLock:
    """An exclusive lock on an empty file, which the operating system releases when the process dies. The file stays.

    Processes that the owner forks do not keep the lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: io.FileIO | None = None

    def take(self) -> bool:
        """Take the lock. Return False if it is taken. Raises OSError if the file cannot be created."""
        file = open_unshared(lambda: io.FileIO(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+"))
        try:
            _try_lock(file)
        except OSError:
            file.close()
            return False
        self._file = file
        return True

    def is_taken(self) -> bool | None:
        """Return whether a process has the lock, None if this process may not ask. Takes a free lock for a moment."""
        if not self.path.exists():
            return False
        try:
            taken = not self.take()
        except OSError:
            return None
        self.release()
        return taken

    def release(self) -> None:
        """Release the lock. No effect if it is not taken."""
        file, self._file = self._file, None
        if file is not None:
            with file:
                _unlock(file)  # not only closed: a process that was forked by C code may keep the file open


def lock_of(path: Path, topology_name: str) -> FileLock | None:
    """Return the lock of a topology in a state file. None if the folder is missing. Then `open` of the file raises the error."""
    if not path.parent.is_dir():
        return None
    digest = hashlib.sha256(topology_name.encode()).hexdigest()[:12]
    real = path.resolve()  # a link to the file has the same lock
    return FileLock(real.with_name(f"{real.name}.{digest}.lock"))
