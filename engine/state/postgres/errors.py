"""Translates errors of PostgreSQL, of poolers in front of it and of asyncpg.

A `StateUnavailable` may pass, so the call is retried. Any other error would come again, so it ends the run.
"""

import re
import ssl
from typing import Final, NamedTuple

import asyncpg

from engine.errors import StateError, StateUnavailable

FAILURES: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
_UNSUPPORTED: Final = (ValueError, asyncpg.UnsupportedClientFeatureError, asyncpg.UnsupportedServerFeatureError)
"""Errors that asyncpg raises by itself for each try. The others of its own mean that the connection has broken."""
AGAIN: Final = "This is temporary. Start again later."
POOLED: Final = "a connection pooler gives each transaction to another session"
POOLED_HINT: Final = (
    "pgbouncer does so with pool_mode=transaction or statement. Name a pool with pool_mode=session in the URL, or PostgreSQL itself."
)
_POOLED: Final = re.compile("statement pooling mode")
_REFUSED: Final = re.compile(
    r"no such (database|user)|does not exist|unsupported startup parameter|not allowed|SSL required|auth\w* failed|config error"
)
"""Texts of protocol errors (08P01) that come again. pgbouncer uses this code for nearly all its errors, and most of these pass."""


class _Meaning(NamedTuple):
    kind: type[StateError]
    text: str
    hint: str


_MEANINGS: Final = {
    "22P05": _Meaning(StateError, "the encoding of its database lacks a character", "Create the database with ENCODING 'UTF8'."),
    "23": _Meaning(StateError, "a constraint refuses a row", "Drop the constraint. The engine has made the table of this map without any."),
    "26000": _Meaning(StateError, POOLED, POOLED_HINT),
    "28P01": _Meaning(StateError, "it refuses this password", "Check the URL: postgresql://user:password@host:port/database, %-encoded."),
    "28": _Meaning(StateError, "it refuses this user", "Check the user in the URL, and the server's pg_hba.conf."),
    "3D000": _Meaning(StateError, "there is no such database", "Create it with createdb, or name another one in the URL."),
    "3F000": _Meaning(StateError, "there is no schema for the tables", "Set the user's search_path."),
    "42501": _Meaning(StateError, "its user may not do this", "GRANT CREATE, USAGE ON SCHEMA to that user, and let it own the tables."),
    "42P01": _Meaning(StateError, "a table of this map is gone", "Was it dropped? Restore it, or give the map a new name."),
    "42P05": _Meaning(StateError, POOLED, POOLED_HINT),
    "42P07": _Meaning(StateError, "another program has a table of this name", "Give the map another name, or drop that table."),
    "42703": _Meaning(StateError, "another program made the table of this map", "Give the map another name."),
    "54000": _Meaning(
        StateError, "a key is too long for its index, or a value for jsonb", "Keys may have about 2,500 bytes. Use a digest of longer keys."
    ),
    "P0001": _Meaning(StateError, "a trigger refuses a row", "Drop the trigger, or let it accept all rows of this map."),
    "XX001": _Meaning(StateError, "its data is damaged", "Restore the database from a backup."),
    "XX002": _Meaning(StateError, "an index is damaged", "REINDEX the table of this map."),
    "08P01": _Meaning(StateUnavailable, "it, or a connection pooler, refuses this session now", "Look at the log of both."),
    "08": _Meaning(StateUnavailable, "the connection broke", AGAIN),
    "25006": _Meaning(StateUnavailable, "it is read-only", "The URL must name the primary: ?target_session_attrs=primary."),
    "25P03": _Meaning(StateUnavailable, "it ended a transaction that was idle for too long", AGAIN),
    "25": _Meaning(StateUnavailable, "a transaction was interrupted", AGAIN),
    "40": _Meaning(StateUnavailable, "another transaction interfered", AGAIN),
    "53100": _Meaning(StateUnavailable, "its disk is full", "Free disk space."),
    "53300": _Meaning(StateUnavailable, "it has too many clients", "Raise its max_connections."),
    "53": _Meaning(StateUnavailable, "it lacks resources", "Check its log."),
    "55P03": _Meaning(StateUnavailable, "another process locks this map for too long", AGAIN),
    "55": _Meaning(StateUnavailable, "another process is changing this map", AGAIN),
    "57014": _Meaning(StateUnavailable, "it cancelled a statement", "Is its statement_timeout too short?"),
    "57": _Meaning(StateUnavailable, "it is starting or shutting down", AGAIN),
    "58": _Meaning(StateUnavailable, "its disk failed", "Check its log and its disk."),
    "72": _Meaning(StateUnavailable, "a statement read for too long", AGAIN),
    "F0": _Meaning(StateUnavailable, "it cannot read its configuration", "Check its log."),
    "XX": _Meaning(StateUnavailable, "it has an internal error", "Check its log."),
}
"""Meaning of an error by its SQLSTATE, or by the first two characters of it. Other errors of the server come again."""


def translated_error(error: Exception, where: str, timeout_secs: float) -> StateError:
    """Return the StateError for an error of asyncpg. where: the server, for messages."""
    if isinstance(error, asyncpg.PostgresError):
        return _refusal(error, where)
    if isinstance(error, TimeoutError):
        return StateUnavailable(
            f"{where} did not answer within {timeout_secs:g} s", hint="Check whether it runs, can be reached, and is not overloaded."
        )
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return StateUnavailable(f"{where}: no host is the one that target_session_attrs asks for: {_text_of(error)}", hint=AGAIN)
    if isinstance(error, OSError):
        return _unreached(error, where)
    if isinstance(error, _UNSUPPORTED):
        return StateError(f"{where}: {_text_of(error)}", hint="asyncpg, the client, cannot do this. Update it, or the server.")
    return StateUnavailable(f"{where}: the connection broke: {_text_of(error)}", hint=AGAIN)


def _refusal(error: asyncpg.PostgresError, where: str) -> StateError:
    code = error.sqlstate or ""
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return StateUnavailable(f"{where}: another program changed the table of this map: {_text_of(error)}", hint=AGAIN)
    if _POOLED.search(str(error)):  # pgbouncer closes the connection, so asyncpg has no SQLSTATE of its own for this
        code = "26000"
    if code == "08P01" and _REFUSED.search(str(error)):
        return StateError(f"{where} refuses this session: {_text_of(error)}", hint="Correct the URL, or the pooler that it names.")
    unknown = _Meaning(StateError, f"it refuses a statement (SQLSTATE {code})", "Look at its log, and correct what it names there.")
    kind, text, hint = _MEANINGS.get(code) or _MEANINGS.get(code[:2]) or unknown
    return kind(f"{where}: {text}: {_text_of(error)}", hint=hint)


def _unreached(error: OSError, where: str) -> StateError:
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "Name its authority in the URL: ?sslrootcert=/path/ca.pem. The URL must name the host of the certificate."
        return StateError(f"{where}: its certificate is not trusted: {error.verify_message}", hint=hint)
    if isinstance(error, ssl.SSLError):
        return StateError(f"{where}: the TLS handshake failed: {error.reason or error}", hint="Without TLS the URL has ?sslmode=disable.")
    if "rejected SSL upgrade" in str(error):
        return StateError(f"{where} does not speak TLS", hint="Without TLS the URL has ?sslmode=disable, or no sslmode.")
    return StateUnavailable(f"{where} cannot be reached: {_text_of(error)}", hint="Check whether it runs, and host and port.")


def _text_of(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__
