"""Connects to a PostgreSQL server and reconnects, limits the time of each call, and translates errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import asyncpg

from engine.errors import StateError, StateUnavailable

CONNECT_SECS: Final = 10.0
CALL_SECS: Final = 60.0
"""Limit of one statement, which may write 100,000 rows."""
EXAMPLE: Final = "It looks like postgresql://user:password@host:5432/database. Encode special characters of a password with %."
AGAIN: Final = "This is temporary. Start again later."
_SESSION: Final = """
SET default_transaction_isolation = 'read committed';
SET lock_timeout = '10s';
SET idle_in_transaction_session_timeout = '10s';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
"""The timeouts bound the locks of a process that is stopped in a transaction. Acknowledged writes are on disk."""
_FAILURES: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class PostgresLink:
    """A connection for one call at a time. A call is sent once, because only the caller knows whether it may be repeated."""

    def __init__(self, url: str, connect_secs: float = CONNECT_SECS, call_secs: float = CALL_SECS) -> None:
        self._url = url
        self._where = where_of(url)
        self._connect_secs, self._call_secs = connect_secs, call_secs
        self._lock = asyncio.Lock()
        self._connection: Any = None

    async def open(self) -> None:
        """Connect. Raises StateError or StateUnavailable."""
        async with self._lock, self._translate_errors(self._connect_secs):
            await self._connected()

    async def close(self) -> None:
        """Close the connection."""
        async with self._lock:
            self._drop()

    async def fetch(self, statement: str, *args: object) -> list[Any]:
        """Run one statement, and return its rows."""
        async with self._lock, self._translate_errors(self._call_secs):
            found: list[Any] = await (await self._connected()).fetch(statement, *args)
            return found

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Run several statements as one transaction."""
        async with self._lock, self._translate_errors(self._call_secs):
            connection = await self._connected()
            async with connection.transaction():
                yield connection

    async def _connected(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            try:
                made = await asyncpg.connect(self._url, timeout=self._connect_secs, command_timeout=self._call_secs)
            except (ValueError, asyncpg.ClientConfigurationError) as error:
                raise StateError(f"{self._where}: the URL is invalid: {_without(error, self._url)}", hint=EXAMPLE) from None
            try:
                await made.execute(_SESSION)
            except BaseException:
                made.terminate()
                raise
            self._connection = made
        return self._connection

    @asynccontextmanager
    async def _translate_errors(self, secs: float) -> AsyncIterator[None]:
        """Translate errors. After an error that is no answer of the server, the next call makes a new connection."""
        try:
            yield
        except StateError:
            raise
        except _FAILURES as error:
            if not isinstance(error, asyncpg.PostgresError) or isinstance(error, asyncpg.PostgresConnectionError):
                self._drop()
            raise translated_error(error, self._where, secs) from error
        except BaseException:
            self._drop()  # cancelled: the statement may still take effect, and the fence protects against that
            raise

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def where_of(url: str) -> str:
    """Return the server of a URL for messages, without secrets."""
    try:
        parts = urlsplit(url)
        port = parts.port or 5432
    except ValueError:
        raise StateError("the postgresql:// URL has no valid host and port", hint=EXAMPLE) from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise StateError("the URL of PostgresValues does not begin with postgresql://", hint=EXAMPLE)
    return f"PostgreSQL at {parts.hostname or 'its default host'}:{port}{parts.path}"


def _without(error: Exception, url: str) -> str:
    password = urlsplit(url).password
    return str(error).replace(password, "…") if password else str(error)


# Errors


class _Meaning(NamedTuple):
    kind: type[StateError]
    text: str
    hint: str


_MEANINGS: Final = {
    "28P01": _Meaning(StateError, "it refuses this password", "Check the URL: postgresql://user:password@host:port/database, %-encoded."),
    "28": _Meaning(StateError, "it refuses this user", "Check the user in the URL, and the server's pg_hba.conf."),
    "3D000": _Meaning(StateError, "there is no such database", "Create it with createdb, or name another one in the URL."),
    "3F000": _Meaning(StateError, "there is no schema for the tables", "Set the user's search_path."),
    "42501": _Meaning(StateError, "its user may not do this", "GRANT CREATE, USAGE ON SCHEMA to that user, and let it own the tables."),
    "42P01": _Meaning(StateError, "a table of this map is gone", "Was it dropped? Restore it, or give the map a new name."),
    "42P07": _Meaning(StateError, "another program has a table of this name", "Give the map another name, or drop that table."),
    "42703": _Meaning(StateError, "another program made the table of this map", "Give the map another name."),
    "54000": _Meaning(StateError, "a key is too long for its index", "Keys may have about 2,500 bytes. Use a digest of longer keys."),
    "26000": _Meaning(StateError, "a connection pooler loses prepared statements", "Use a session pool, or connect directly."),
    "53100": _Meaning(StateUnavailable, "its disk is full", "Free disk space."),
    "53300": _Meaning(StateUnavailable, "it has too many clients", "Raise its max_connections."),
    "55P03": _Meaning(StateUnavailable, "another process locks this map for too long", AGAIN),
    "25006": _Meaning(StateUnavailable, "it is read-only", "The URL must name the primary: ?target_session_attrs=primary."),
    "25P03": _Meaning(StateUnavailable, "it ended a transaction that was idle for too long", AGAIN),
    "57014": _Meaning(StateUnavailable, "it cancelled a statement", "Is its statement_timeout too short?"),
    "08": _Meaning(StateUnavailable, "the connection broke", AGAIN),
    "40": _Meaning(StateUnavailable, "another transaction interfered", AGAIN),
    "53": _Meaning(StateUnavailable, "it lacks resources", "Check its log."),
    "57": _Meaning(StateUnavailable, "it is starting or shutting down", AGAIN),
    "58": _Meaning(StateUnavailable, "its disk failed", "Check its log and its disk."),
}
"""Meaning of an error by its SQLSTATE, or by the first two characters of it."""


def translated_error(error: Exception, where: str, timeout_secs: float) -> StateError:
    """Return the StateError for an error of asyncpg. where: the server, for messages."""
    code = getattr(error, "sqlstate", None) or ""
    found = _MEANINGS.get(code) or _MEANINGS.get(code[:2])
    if found is not None:
        return found.kind(f"{where}: {found.text}: {_text_of(error)}", hint=found.hint)
    if isinstance(error, asyncpg.PostgresError):
        return StateError(f"{where}: {_text_of(error)}")
    if isinstance(error, TimeoutError):
        return StateUnavailable(
            f"{where} did not answer within {timeout_secs:g} s", hint="Check whether it runs, can be reached, and is not overloaded."
        )
    if isinstance(error, OSError):
        return StateUnavailable(f"{where} cannot be reached: {_text_of(error)}", hint="Check whether it runs, and host and port.")
    if isinstance(error, asyncpg.InterfaceError) and "connection" in str(error):
        return StateUnavailable(f"{where}: the connection broke: {_text_of(error)}", hint=AGAIN)
    return StateError(f"{where}: {_text_of(error)}")


def _text_of(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__
