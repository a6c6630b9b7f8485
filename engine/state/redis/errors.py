"""What Redis and its client raise, in words: what may pass is StateUnavailable, what needs a person StateError, a takeover StateFenced."""

import re
import ssl
from typing import Final, NamedTuple

from redis import exceptions

from engine.errors import StateDamaged, StateError, StateFenced, StateUnavailable

AGAIN: Final = "It passes: start again when it is over."


class Overtaken(StateUnavailable):
    """A step that a later one of its lane has overtaken: repeated as a whole, it has a number of its own."""


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
"""Errors whose class, not always their text, has the code that the server sent."""

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
        StateError, "what this run stored is gone", "Was it flushed, or restarted without its data? Set appendonly yes; start again."
    ),
    "DAMAGED": _Meaning(StateDamaged, "what is stored is damaged", "Restore the server's data from a copy."),
    "LOADING": _Meaning(StateUnavailable, "it is loading its data", AGAIN),
    "BUSY": _Meaning(StateUnavailable, "a script keeps it busy", "SCRIPT KILL ends it."),
    "UNKILLABLE": _Meaning(StateUnavailable, "a script keeps it busy", AGAIN),
    "OOM": _Meaning(StateUnavailable, "it is out of memory", "Raise its maxmemory, or give it less to keep."),
    "READONLY": _Meaning(
        StateUnavailable, "it is a replica now, which cannot be written", "After a failover the address must name the new master."
    ),
    "MISCONF": _Meaning(StateUnavailable, "it cannot write to its disk", "Look at its log and its disk."),
    "NOREPLICAS": _Meaning(StateUnavailable, "too few of its replicas can be reached", AGAIN),
    "MASTERDOWN": _Meaning(StateUnavailable, "it has lost its master", AGAIN),
    "CLUSTERDOWN": _Meaning(StateUnavailable, "its cluster is down", AGAIN),
    "TRYAGAIN": _Meaning(StateUnavailable, "its cluster is moving these keys", AGAIN),
    "CLIENTS": _Meaning(StateUnavailable, "it has too many clients", "Raise its maxclients."),
    "MOVED": _Meaning(
        StateError, "another node of its cluster keeps this topology", "Name that node in the URL; all keys of a topology are in one slot."
    ),
    "NOPERM": _Meaning(
        StateError, "its user may not do this", "Allow that user all commands on these keys: ACL SETUSER name ~{prefix:* +@all -@admin."
    ),
    "NOPASSWORD": _Meaning(
        StateUnavailable, "it has no password, and the URL names one", "Take the password out of the URL, or set requirepass."
    ),
    "NOAUTH": _Meaning(StateUnavailable, "it asks for a password", "Put it into the URL: redis://:password@host:port/db."),
    "WRONGPASS": _Meaning(
        StateUnavailable, "it refuses this user or password", "Look at the URL: redis://[user]:password@host:port/db, %-encoded."
    ),
    "NODB": _Meaning(
        StateError, "it has no database of this number", "It has 0 to 15, unless its `databases` says otherwise; a cluster has 0 alone."
    ),
    "WRONGTYPE": _Meaning(StateError, "a key of ours holds what somebody else wrote", "Choose another ?prefix=, or remove that key."),
    "UNKNOWN": _Meaning(
        StateError, "it lacks a command that the engine needs", "Use Redis 5 or newer, or Valkey, with Lua scripts allowed."
    ),
    "PROTOCOL": _Meaning(StateError, "it does not answer as Redis does", "Look at host and port, and whether it wants TLS: rediss://."),
}
STALE: Final = frozenset({"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "UNREACHED"})
"""Codes after which the other connections are not to be trusted either."""


def code_of(error: BaseException) -> str:
    """Return the code of what went wrong: a key of the table, UNREACHED, or "" for anything else."""
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


def meaning(error: Exception, where: str, timeout_secs: float) -> StateError:
    """Return what to raise instead of an error; `where` names the server."""
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
            hint = "Trust it: SSL_CERT_FILE=/path/ca.pem in the environment; and the URL must name the host that it is made out to."
            return StateError(f"{where}: its certificate is not trusted: {cause.verify_message}", hint=hint)
        if isinstance(cause, ssl.SSLError):
            return StateError(f"{where}: no TLS with it: {cause.reason or cause}", hint="Without TLS the URL begins with redis://.")
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
    """What the server said, without the script's name and line that it adds."""
    return re.sub(r"\s+script: [0-9a-f]{40}.*", "", str(error)).strip().rstrip(".") or type(error).__name__
