"""One connection to a PostgreSQL server, made again where it broke: every call with a time limit and its errors in words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg

from engine.errors import StateError
from engine.transactional.values.postgres_errors import meaning

CONNECT_SECS: Final = 10.0
CALL_SECS: Final = 60.0
"""Of one statement, which may write 100,000 rows."""
EXAMPLE: Final = "It looks like postgresql://user:password@host:5432/database; what is special in a password is %-encoded."
_SESSION: Final = """
SET default_transaction_isolation = 'read committed';
SET lock_timeout = '10s';
SET idle_in_transaction_session_timeout = '10s';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
"""A process that is stopped in a transaction holds its locks for so long, and no longer. What is acknowledged is on disk."""
_FAILURES: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class PostgresLink:
    """A connection that does one thing at a time. A call is sent once: who calls decides whether it may be repeated."""

    def __init__(self, url: str, connect_secs: float = CONNECT_SECS, call_secs: float = CALL_SECS) -> None:
        self._url = url
        self._where = where_of(url)
        self._connect_secs, self._call_secs = connect_secs, call_secs
        self._lock = asyncio.Lock()
        self._connection: Any = None

    async def open(self) -> None:
        """Connect; raise StateError or StateUnavailable."""
        async with self._lock, self._told(self._connect_secs):
            await self._connected()

    async def close(self) -> None:
        """Close the connection."""
        async with self._lock:
            self._drop()

    async def fetch(self, statement: str, *args: object) -> list[Any]:
        """Return the rows that one statement gives."""
        async with self._lock, self._told(self._call_secs):
            found: list[Any] = await (await self._connected()).fetch(statement, *args)
            return found

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Run several statements as one transaction."""
        async with self._lock, self._told(self._call_secs):
            connection = await self._connected()
            async with connection.transaction():
                yield connection

    async def _connected(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            try:
                made = await asyncpg.connect(self._url, timeout=self._connect_secs, command_timeout=self._call_secs)
            except (ValueError, asyncpg.ClientConfigurationError) as error:
                raise StateError(f"{self._where}: the URL is not clear: {_without(error, self._url)}", hint=EXAMPLE) from None
            try:
                await made.execute(_SESSION)
            except BaseException:
                made.terminate()
                raise
            self._connection = made
        return self._connection

    @asynccontextmanager
    async def _told(self, secs: float) -> AsyncIterator[None]:
        """Say errors in words. After one that is not the server's own answer, the next call has a new connection."""
        try:
            yield
        except StateError:
            raise
        except _FAILURES as error:
            if not isinstance(error, asyncpg.PostgresError) or isinstance(error, asyncpg.PostgresConnectionError):
                self._drop()
            raise meaning(error, self._where, secs) from error
        except BaseException:
            self._drop()  # cancelled: what was sent may still be done, which the fence is for
            raise

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def where_of(url: str) -> str:
    """Name the server of a URL, without what is secret."""
    try:
        parts = urlsplit(url)
        port = parts.port or 5432
    except ValueError:
        raise StateError("the postgresql:// URL has no clear host and port", hint=EXAMPLE) from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise StateError("the URL of PostgresValues does not begin with postgresql://", hint=EXAMPLE)
    return f"PostgreSQL at {parts.hostname or 'its default host'}:{port}{parts.path}"


def _without(error: Exception, url: str) -> str:
    password = urlsplit(url).password
    return str(error).replace(password, "…") if password else str(error)
