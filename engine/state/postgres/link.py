"""Connects to a PostgreSQL server and reconnects, and limits the time of each call."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qsl

import asyncpg

from engine.errors import StateError, StateUnavailable
from engine.randomness import RunRandom
from engine.state.hosts import hosts_of, split_by_host
from engine.state.postgres.errors import FAILURES, translated_error

CONNECT_SECS: Final = 10.0
CALL_SECS: Final = 60.0
"""Limit of one statement, which may write 100,000 rows."""
EXAMPLE: Final = (
    "It looks like postgresql://user:password@host:5432/database, or names several hosts: @one:5432,two:5432/database."
    " Encode special characters of a password with %."
)
_SESSION: Final = """
SET default_transaction_isolation = 'read committed';
SET lock_timeout = '10s';
SET idle_in_transaction_session_timeout = '10s';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
SET stormcell.session = 'on'
"""
"""The timeouts bound the locks of a process that is stopped in a transaction. Acknowledged writes are on disk."""
IS_OWN_SESSION: Final = "current_setting('stormcell.session', true) IS NOT DISTINCT FROM 'on'"
"""An expression that is false in a session without these settings, which only a pooler of transactions can lead to."""


class PostgresLink:
    """A connection for one call at a time. A call is sent once, because only the caller knows whether it may be repeated."""

    def __init__(self, url: str, connect_secs: float = CONNECT_SECS, call_secs: float = CALL_SECS) -> None:
        self._url = url
        self.where = where_of(url)
        self._connect_secs, self._call_secs = connect_secs, call_secs
        self._lock = asyncio.Lock()
        self._connection: Any = None
        self._is_closed = False

    async def open(self) -> None:
        """Connect. Raises StateError or StateUnavailable."""
        async with self._lock, self._translate_errors(self._connect_secs):
            await self._connected()

    async def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
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
        if self._is_closed:  # nobody would close another connection
            raise StateError(f"{self.where} is closed, as after the end of a run", hint="Use it before that.")
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect_to_any()
        return self._connection

    async def _connect_to_any(self) -> Any:
        """Connect to the first host that can be used now. asyncpg knows several hosts too, but lets a silent one use up all the time."""
        *others, last = _url_of_each_host(self._url)
        for url in others:
            try:
                return await self._connect(url)
            except FAILURES as error:
                if not isinstance(translated_error(error, self.where, self._connect_secs), StateUnavailable):
                    raise
        return await self._connect(last)

    async def _connect(self, url: str) -> Any:
        try:
            made = await asyncpg.connect(url, timeout=self._connect_secs, command_timeout=self._call_secs, connection_class=_Connection)
        except (ValueError, asyncpg.ClientConfigurationError) as error:
            raise StateError(f"{self.where}: the URL is invalid: {_without(error, self._url)}", hint=EXAMPLE) from None
        try:
            await made.execute(_SESSION)
        except BaseException:
            made.terminate()
            raise
        return made

    @asynccontextmanager
    async def _translate_errors(self, secs: float) -> AsyncIterator[None]:
        """Translate errors. After one that may pass, the next call makes a new connection, perhaps to another host."""
        try:
            yield
        except StateError:
            raise
        except FAILURES as error:
            translated = translated_error(error, self.where, secs)
            if isinstance(translated, StateUnavailable) or not isinstance(error, asyncpg.PostgresError):
                self._drop()
            raise translated from error
        except BaseException:
            self._drop()  # cancelled: the statement may still take effect, and the fence protects against that
            raise

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    """Names its prepared statements like no other client. asyncpg counts from 1 in each process, so with a pooler that shares sessions
    another client's statement could run in place of ours. A unique name is missing there instead, which is an error.
    """

    _own = ""

    def _get_unique_id(self, prefix: str) -> str:
        self._own = self._own or f"{RunRandom().seed:x}"
        return f"{super()._get_unique_id(prefix)}{self._own}"


def _url_of_each_host(url: str) -> list[str]:
    """Return a URL for each host. Ports in the query belong to several hosts at once, so such a URL stays whole."""
    urls = split_by_host(url)
    if len(urls) == 1 or "port" in dict(parse_qsl(urls[0].query)):
        return [url]
    return [each.geturl() for each in urls]


def where_of(url: str) -> str:
    """Return the server of a URL for messages, without secrets."""
    try:
        urls = split_by_host(url)
        hosts = hosts_of(urls)
    except ValueError:
        raise StateError("the postgresql:// URL has no valid host and port", hint=EXAMPLE) from None
    if urls[0].scheme not in ("postgresql", "postgres"):
        raise StateError("the URL of a PostgreSQL database does not begin with postgresql://", hint=EXAMPLE)
    named = [f"{host or 'its default host'}{'' if re.search(r':[0-9]+$', host) else ':5432'}" for host in hosts]
    return f"PostgreSQL at {','.join(named)}{urls[0].path}"


def _without(error: Exception, url: str) -> str:
    password = split_by_host(url)[0].password
    return str(error).replace(password, "…") if password else str(error)
