"""What PostgreSQL and its client raise, in words: what may pass is StateUnavailable, what needs a person StateError."""

from typing import Final, NamedTuple

import asyncpg

from engine.errors import StateError, StateUnavailable

AGAIN: Final = "It passes: start again when it is over."


class _Meaning(NamedTuple):
    kind: type[StateError]
    text: str
    hint: str


_MEANINGS: Final = {
    "28P01": _Meaning(StateError, "it refuses this password", "Look at the URL: postgresql://user:password@host:port/database, %-encoded."),
    "28": _Meaning(StateError, "it refuses this user", "Look at the user in the URL, and at the server's pg_hba.conf."),
    "3D000": _Meaning(StateError, "there is no such database", "Make it: createdb; or name another in the URL."),
    "3F000": _Meaning(StateError, "there is no schema to make tables in", "Set the user's search_path."),
    "42501": _Meaning(StateError, "its user may not do this", "GRANT CREATE, USAGE ON SCHEMA to that user, and let it own the tables."),
    "42P01": _Meaning(StateError, "a table of this map is gone", "Was it dropped? Restore it, or give the map a new name."),
    "42P07": _Meaning(StateError, "a table of this name is there, and none of ours", "Give the map another name, or drop that table."),
    "42703": _Meaning(StateError, "a table of this map is none of ours", "Give the map another name."),
    "54000": _Meaning(StateError, "a key is too long for its index", "Keys may be some 2,500 bytes long; take a digest of longer ones."),
    "26000": _Meaning(StateError, "a pooler between loses prepared statements", "Use a session pool, or connect to the server itself."),
    "53100": _Meaning(StateUnavailable, "its disk is full", "Make room."),
    "53300": _Meaning(StateUnavailable, "it has too many clients", "Raise its max_connections."),
    "55P03": _Meaning(StateUnavailable, "another process holds this map for long", AGAIN),
    "25006": _Meaning(StateUnavailable, "it can only be read", "The URL must name the primary: ?target_session_attrs=primary."),
    "25P03": _Meaning(StateUnavailable, "it ended a transaction that did nothing for too long", AGAIN),
    "57014": _Meaning(StateUnavailable, "it cancelled a statement", "Is its statement_timeout too short?"),
    "08": _Meaning(StateUnavailable, "the connection broke", AGAIN),
    "40": _Meaning(StateUnavailable, "another transaction came between", AGAIN),
    "53": _Meaning(StateUnavailable, "it lacks resources", "Look at its log."),
    "57": _Meaning(StateUnavailable, "it is starting, or going down", AGAIN),
    "58": _Meaning(StateUnavailable, "its disk failed it", "Look at its log and its disk."),
}
"""By SQLSTATE, or the first two characters of it."""


def meaning(error: Exception, where: str, timeout_secs: float) -> StateError:
    """Return what to raise instead of an error; `where` names the server."""
    code = getattr(error, "sqlstate", None) or ""
    found = _MEANINGS.get(code) or _MEANINGS.get(code[:2])
    if found is not None:
        return found.kind(f"{where}: {found.text}: {_said(error)}", hint=found.hint)
    if isinstance(error, asyncpg.PostgresError):
        return StateError(f"{where}: {_said(error)}")
    if isinstance(error, TimeoutError):
        return StateUnavailable(f"{where} did not answer within {timeout_secs:g} s", hint="Does it run, can it be reached, is it busy?")
    if isinstance(error, OSError):
        return StateUnavailable(f"{where} cannot be reached: {_said(error)}", hint="Does it run, are host and port right?")
    if isinstance(error, asyncpg.InterfaceError) and "connection" in str(error):
        return StateUnavailable(f"{where}: the connection broke: {_said(error)}", hint=AGAIN)
    return StateError(f"{where}: {_said(error)}")


def _said(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__
