"""Connects to a Redis server, limits the time of each call, and translates errors."""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from engine.errors import StateDamaged, StateError, StateFenced, StateUnavailable
from engine.names import did_you_mean
from engine.state.redis.names import kind_of
from engine.state.redis.scripts import Arg, Script
from engine.state.standby import DEFAULT_LEASE_SECS, parse_lease_secs

CONNECTIONS: Final = 8
TIMEOUT_SECS: Final = 5.0
KEYS_PER_SCAN: Final = 1000
DEFAULT_PORT: Final = 6379
DEFAULT_PREFIX: Final = "stormcell"
OPTIONS: Final = ("prefix", "lease_secs")
EXAMPLE: Final = (
    "It looks like redis://:password@host:6379/0?prefix=stormcell. Encode special characters of a password with %. TLS: rediss://."
)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Parts of a `redis://` URL. Its text has no password."""

    host: str
    port: int = DEFAULT_PORT
    db: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False
    prefix: str = DEFAULT_PREFIX
    lease_secs: float = DEFAULT_LEASE_SECS
    """Seconds after which a standby process considers a silent process dead."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.db}"

    def __repr__(self) -> str:
        return f"RedisAddress({str(self)!r}, prefix={self.prefix!r})"


def address_of(url: str) -> RedisAddress:
    """Parse a URL. Raises StateError without the password for an invalid one.

    >>> address_of("rediss://:secret@example.org/2?prefix=team")
    RedisAddress('rediss://example.org:6379/2', prefix='team')
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise StateError("state_provider: the redis:// URL has no valid host and port", hint=EXAMPLE) from None
    if not host:
        raise StateError("state_provider: the redis:// URL names no host", hint=EXAMPLE)
    db = parts.path.removeprefix("/") or "0"
    if not (db.isascii() and db.isdigit()) or parts.fragment:
        raise StateError(f"state_provider: redis://{host}: {parts.path!r} is not the number of a database", hint=EXAMPLE)
    options = _options_of(host, parts.query)
    return RedisAddress(
        host,
        DEFAULT_PORT if port is None else port,
        int(db),
        unquote(parts.username) if parts.username else None,
        unquote(parts.password) if parts.password else None,
        parts.scheme == "rediss",
        options.get("prefix", DEFAULT_PREFIX),
        parse_lease_secs(options["lease_secs"], "redis") if "lease_secs" in options else DEFAULT_LEASE_SECS,
    )


def _options_of(host: str, query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name not in OPTIONS:
            hint = f"{did_you_mean(name, OPTIONS)} {EXAMPLE}".strip()
            raise StateError(f"state_provider: redis://{host}: {name!r} is not an option of the URL", hint=hint)
        if not value:
            raise StateError(f"state_provider: redis://{host}: {name}= is empty", hint=EXAMPLE)
    return options


class _TlsConnection(SSLConnection):
    """A TLS connection with a shared context. A context of its own would cost each connection tens of milliseconds."""

    def __init__(self, *, context: ssl.SSLContext, **settings: Any) -> None:
        super().__init__(**settings)
        self._shared = context

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {**Connection._connection_arguments(self), "ssl": self._shared}


class RedisLink:
    """A few connections to one server. A call is sent once, because only the caller knows whether it may be repeated."""

    def __init__(self, address: RedisAddress, timeout_secs: float = TIMEOUT_SECS) -> None:
        self.address: Final = address
        self._timeout_secs = timeout_secs
        tls: dict[str, Any] = {"connection_class": _TlsConnection, "context": ssl.create_default_context()} if address.tls else {}
        self._pool = BlockingConnectionPool(
            max_connections=CONNECTIONS,
            timeout=timeout_secs,
            **tls,
            host=address.host,
            port=address.port,
            db=address.db,
            username=address.username,
            password=address.password,
            socket_timeout=timeout_secs,
            socket_connect_timeout=timeout_secs,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        self._opened: Redis | None = Redis(connection_pool=self._pool)

    def __str__(self) -> str:
        return f"Redis at {self.address}"

    @property
    def _client(self) -> Redis:
        if self._opened is None:  # the client would connect again, and nobody would close that
            raise StateError(f"{self} is closed, as after the end of a run", hint="Use it before that.")
        return self._opened

    async def close(self) -> None:
        """Close the connections."""
        self._opened = None
        with suppress(exceptions.RedisError, OSError):  # the connections are closed, whatever the server answers
            await self._pool.aclose()

    async def command(self, *args: Arg) -> Any:
        """Return the answer to one command. Raises StateError or StateUnavailable."""
        try:
            return await _with_cancellation(self._client.execute_command(*args))  # type: ignore[no-untyped-call]
        except (exceptions.RedisError, OSError) as error:
            raise await self._translated(error, [key for key in args[1:2] if isinstance(key, str)]) from error

    async def run(self, script: Script, keys: Sequence[str], args: Sequence[Arg]) -> Any:
        """Run a script, and return its result. Sends its text only if the server does not know it."""
        try:
            try:
                return await _with_cancellation(
                    self._client.execute_command("EVALSHA", script.sha, len(keys), *keys, *args)  # type: ignore[no-untyped-call]
                )
            except exceptions.NoScriptError:
                return await _with_cancellation(
                    self._client.execute_command("EVAL", script.text, len(keys), *keys, *args)  # type: ignore[no-untyped-call]
                )
        except (exceptions.RedisError, OSError) as error:
            raise await self._translated(error, keys) from error

    async def hash_lengths(self, keys: Sequence[str]) -> list[int]:
        """Return the number of fields of each hash, in one round trip."""
        return await self._run_together([("HLEN", key) for key in keys])

    async def set_members(self, keys: Sequence[str]) -> list[list[bytes]]:
        """Return the members of each set, in one round trip."""
        return await self._run_together([("SMEMBERS", key) for key in keys])

    async def fields_exist(self, fields: Sequence[tuple[str, bytes]]) -> list[int]:
        """Return for each hash and field 1 if the field exists, else 0. Needs one round trip."""
        return await self._run_together([("HEXISTS", key, field) for key, field in fields])

    async def keys(self, pattern: str) -> list[str]:
        """Return all keys of a pattern, each once. Scans in steps, so that no other client waits."""
        cursor, found = 0, dict[str, None]()
        while True:
            cursor, some = await self.command("SCAN", cursor, "MATCH", pattern, "COUNT", KEYS_PER_SCAN)
            found.update(dict.fromkeys([key.decode("utf-8", "surrogateescape") for key in some]))
            if int(cursor) == 0:
                return list(found)

    async def _run_together(self, commands: Sequence[tuple[Arg, ...]]) -> list[Any]:
        try:
            pipeline = self._client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            found: list[Any] = await _with_cancellation(pipeline.execute())
            return found
        except (exceptions.RedisError, OSError) as error:
            raise await self._translated(error, [str(command[1]) for command in commands]) from error

    async def server_info(self, section: str) -> Mapping[str, Any]:
        """Return a section of INFO, empty if this user may not read it."""
        try:
            found: Mapping[str, Any] = await _with_cancellation(self._client.execute_command("INFO", section))  # type: ignore[no-untyped-call]
        except (exceptions.RedisError, OSError) as error:
            if code_of(error) in ("NOPERM", "UNKNOWN"):
                return {}
            raise await self._translated(error) from error
        return found

    async def _translated(self, error: Exception, keys: Sequence[str] = ()) -> StateError:
        """Return the error to raise. After some errors it closes all connections, so that a retry makes new ones."""
        code = code_of(error)
        if code in STALE:
            with suppress(exceptions.RedisError, OSError):  # as in `close`
                await self._pool.disconnect(inuse_connections=False)
        translated = translated_error(error, str(self), self._timeout_secs)
        return await self._with_key_name(translated, keys) if code == "WRONGTYPE" else translated

    async def _with_key_name(self, translated: StateError, keys: Sequence[str]) -> StateError:
        """Return the error with the name of the key that has a wrong type."""
        for key in keys:
            kind = (await self.command("TYPE", key)).decode()
            if kind not in ("none", kind_of(key)):
                return StateError(
                    f"{self}: {key} is a {kind}, which the engine did not write (it stores a {kind_of(key)} there)", hint=translated.hint
                )
        return translated


async def _with_cancellation(answer: Awaitable[Any]) -> Any:
    """Wait for an answer. Raises CancelledError if the task was cancelled meanwhile, because the client sometimes swallows this error."""
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        return await answer
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


AGAIN: Final = "This is temporary. Start again later."


class Overtaken(StateUnavailable):
    """A later step of the same lane ran first. A retry of the whole call gets new step numbers."""


class _Meaning(NamedTuple):
    kind: type[StateError]
    text: str
    hint: str


_CLASSES: Final = (
    (exceptions.BusyLoadingError, "LOADING"),
    (exceptions.NoPermissionError, "NOPERM"),
    (exceptions.OutOfMemoryError, "OOM"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.MaxConnectionsError, "CLIENTS"),
    (exceptions.ClusterDownError, "CLUSTERDOWN"),
    (exceptions.MasterDownError, "MASTERDOWN"),
    (exceptions.TryAgainError, "TRYAGAIN"),
    (exceptions.AskError, "TRYAGAIN"),
    (exceptions.MovedError, "MOVED"),
    (exceptions.InvalidResponse, "PROTOCOL"),
)
"""Errors whose class identifies the code of the server. The text of such an error may lack the code."""

_PHRASES: Final = (
    (re.compile(r"without any password configured|no password is set", re.IGNORECASE), "NOPASSWORD"),
    (re.compile(r"\bNOAUTH\b|Authentication required|unauthenticated", re.IGNORECASE), "NOAUTH"),
    (re.compile(r"\bWRONGPASS\b|invalid (username|password)", re.IGNORECASE), "WRONGPASS"),
    (re.compile(r"DB index is out of range|invalid DB index|SELECT is not allowed|invalid database", re.IGNORECASE), "NODB"),
    (re.compile(r"max number of clients", re.IGNORECASE), "CLIENTS"),
    (re.compile(r"unknown command|command not allowed in scripts", re.IGNORECASE), "UNKNOWN"),
)
_CODES: Final = re.compile(
    r"\b(FENCED|LATE|LOST|DAMAGED|LOADING|BUSY|OOM|READONLY|MISCONF|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|CROSSSLOT|NOPERM|WRONGTYPE|UNKILLABLE)\b"
)

_MEANINGS: Final = {
    "FENCED": _Meaning(
        StateFenced, "another process has taken this topology over, or its ledger was not claimed", "Run each topology in one process."
    ),
    "LATE": _Meaning(Overtaken, "a write was overtaken by a later one", AGAIN),
    "LOST": _Meaning(
        StateError,
        "the data of this run is gone",
        "Was the server flushed, or restarted without its data? Set appendonly yes, and start again.",
    ),
    "DAMAGED": _Meaning(StateDamaged, "the stored data is damaged", "Restore the server's data from a backup."),
    "LOADING": _Meaning(StateUnavailable, "it is loading its data", AGAIN),
    "BUSY": _Meaning(StateUnavailable, "a script keeps it busy", "SCRIPT KILL ends it."),
    "UNKILLABLE": _Meaning(StateUnavailable, "a script keeps it busy", AGAIN),
    "OOM": _Meaning(StateUnavailable, "it is out of memory", "Raise its maxmemory, or store less."),
    "READONLY": _Meaning(
        StateUnavailable, "it is now a replica, which refuses writes", "After a failover the URL must name the new master."
    ),
    "MISCONF": _Meaning(StateUnavailable, "it cannot write to its disk", "Look at its log and its disk."),
    "NOREPLICAS": _Meaning(StateUnavailable, "too few of its replicas can be reached", AGAIN),
    "MASTERDOWN": _Meaning(StateUnavailable, "it has lost its master", AGAIN),
    "CLUSTERDOWN": _Meaning(StateUnavailable, "its cluster is down", AGAIN),
    "TRYAGAIN": _Meaning(StateUnavailable, "its cluster is moving these keys", AGAIN),
    "CLIENTS": _Meaning(StateUnavailable, "it has too many clients", "Raise its maxclients."),
    "MOVED": _Meaning(
        StateError, "another node of its cluster stores this topology", "Name that node in the URL. All keys of a topology are in one slot."
    ),
    "NOPERM": _Meaning(
        StateError, "its user may not do this", "Allow that user all commands on these keys: ACL SETUSER name ~{prefix:* +@all -@admin."
    ),
    "NOPASSWORD": _Meaning(
        StateUnavailable, "it has no password, but the URL has one", "Remove the password from the URL, or set requirepass."
    ),
    "NOAUTH": _Meaning(StateUnavailable, "it requires a password", "Add it to the URL: redis://:password@host:port/db."),
    "WRONGPASS": _Meaning(
        StateUnavailable, "it refuses this user or password", "Check the URL: redis://[user]:password@host:port/db, %-encoded."
    ),
    "NODB": _Meaning(
        StateError, "it has no database of this number", "The setting `databases` limits the number, usually to 15. A cluster has only 0."
    ),
    "WRONGTYPE": _Meaning(StateError, "another program wrote a key of the engine", "Choose another ?prefix=, or remove that key."),
    "UNKNOWN": _Meaning(
        StateError, "it lacks a command that the engine needs", "Use Redis 5 or newer, or Valkey, with Lua scripts allowed."
    ),
    "PROTOCOL": _Meaning(StateError, "it does not answer like Redis", "Check host and port, and whether it requires TLS: rediss://."),
}
STALE: Final = frozenset({"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "UNREACHED"})
"""Codes after which the other connections are closed too, because they may lead to the wrong server."""


def code_of(error: BaseException) -> str:
    """Return the code of an error: a key of `_MEANINGS`, UNREACHED, or "" for others."""
    text = f"{getattr(error, 'status_code', None) or ''} {error}"
    for pattern, code in _PHRASES:
        if pattern.search(text):
            return code
    for kind, code in _CLASSES:
        if isinstance(error, kind):
            return code
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError):
        return "WRONGPASS"
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
        return "UNREACHED"
    found = _CODES.search(text)
    return found[1] if found else ""


def translated_error(error: Exception, where: str, timeout_secs: float) -> StateError:
    """Return the StateError for an error of the client. where: the server, for messages."""
    code = code_of(error)
    if code == "UNREACHED":
        return _unreached(error, where, timeout_secs)
    if code in _MEANINGS:
        kind, text, hint = _MEANINGS[code]
        said = "" if code in ("FENCED", "LATE", "LOST") else f": {_said(error)}"
        return kind(f"{where}: {text}{said}", hint=hint)
    return StateError(f"{where}: {_said(error)}")


def _unreached(error: Exception, where: str, timeout_secs: float) -> StateError:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            hint = "Set SSL_CERT_FILE=/path/ca.pem in the environment. The URL must name the host of the certificate."
            return StateError(f"{where}: its certificate is not trusted: {cause.verify_message}", hint=hint)
        if isinstance(cause, ssl.SSLError):
            return StateError(
                f"{where}: the TLS handshake failed: {cause.reason or cause}", hint="Without TLS the URL begins with redis://."
            )
    tls = "does it speak TLS (if not: redis://)" if "rediss://" in where else "does it ask for TLS (rediss://)"
    if isinstance(error, exceptions.TimeoutError):
        return StateUnavailable(f"{where} did not answer within {timeout_secs:g} s", hint=f"Does it run, can it be reached, {tls}?")
    return StateUnavailable(f"{where} cannot be reached: {_said(error)}", hint=f"Does it run, are host and port right, {tls}?")


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _said(error: Exception) -> str:
    """Return the text of the server without the name and line of the script."""
    return re.sub(r"\s+script: [0-9a-f]{40}.*", "", str(error)).strip().rstrip(".") or type(error).__name__
