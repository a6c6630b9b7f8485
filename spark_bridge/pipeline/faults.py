"""Finds the cause of a query's failure and the user's line. Parses Spark's long text, which nests several tracebacks."""

import re
import traceback
from dataclasses import dataclass
from typing import Final

from spark_bridge.pipeline.restarts import FaultKind
from spark_bridge.process.child.error_text import is_user_file

MAX_CHARACTERS: Final = 600
_FRAME: Final = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)\n(?: +(?P<source>\S.*)\n)?', re.MULTILINE)
_RAISED: Final = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w+|gaierror)(?:: (?P<text>.*))?$", re.MULTILINE)
_OUR_ERROR: Final = re.compile(
    r"\bspark_bridge\.(?:handover|sinks)\.\w+\.(?P<type>\w+): "
    r"(?P<text>(?:(?!\n(?:Fix: |Traceback|\n|\s*SQLSTATE|\tat )).)*)(?:\nFix: (?P<hint>[^\n]*))?",
    re.DOTALL,
)
_NOISE: Final = ("\tat ", "Driver stacktrace:", "JVM stacktrace:", "=== Streaming Query ===", "SQLSTATE:", "== ", "+- ", "'", "~", ":- ")
_NO_MESSAGE: Final = "null"
"""Spark's whole text if the Python process of the source ended during a call. Java's error for the end of a stream has no message."""
_PASSING_WORDS: Final = (
    "ExecutorLostFailure",
    "Lost executor",
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "FetchFailed",
    "Connection refused",
    "Connection reset",
    "Broken pipe",
    "ConnectException",
    "SocketException",
    "SocketTimeoutException",
    "TimeoutException",
    "UnknownHostException",
    "No space left on device",
    "Too many open files",
    "Cannot run program",
)
_PASSING_TYPES: Final = (
    *("OSError", "IOError", "ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "ConnectionAbortedError"),
    *("BrokenPipeError", "TimeoutError", "BlockingIOError", "gaierror", "OperationalError", "InterfaceError", "ReadTimeout"),
)
_OTHER_QUERY_WORDS: Final = (
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_INVALID_",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "doesn't match to the schema for existing state",
    "sources in the checkpoint offsets and now there are",
    "STREAMING_CHECKPOINT_",
    "CANNOT_LOAD_STATE_STORE",
)
"""Parts of Spark's texts that mean that a checkpoint belongs to a different query."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Cause of a query's failure, with a hint. Also tells whether a restart may help."""

    kind: FaultKind
    text: str
    hint: str | None = None


def fault_of_error(error: BaseException) -> Fault:
    """Return the cause of an error that was raised in this process."""
    return fault_in_text("".join(traceback.format_exception(error)))


def fault_in_text(text: str) -> Fault:
    """Return the cause in the text of an error."""
    ours = _fault_of_our_error(text)
    if ours is not None:
        return ours
    if any(word in text for word in _OTHER_QUERY_WORDS):
        hint = (
            "If the query was changed, undo the change, or give the query another name and so a new checkpoint. "
            "Otherwise the checkpoint is damaged: restore it from a copy."
        )
        return Fault("final", _headline(text), hint)
    raised = _last_raised(text)
    place = _user_place(text)
    cause = raised or _headline(text)
    if cause == _NO_MESSAGE:
        return Fault("passing", "a Python process of Spark ended during a call, and Spark gave no reason")
    passes = _may_pass(text) or _type_of(raised) in _PASSING_TYPES
    return Fault("passing" if passes else "code", f"{cause}\n    {place}" if place else cause)


def _fault_of_our_error(text: str) -> Fault | None:
    """Return the cause if our source or sink raised the error, with its own hint."""
    found = list(_OUR_ERROR.finditer(text))
    if not found:
        return None
    last = found[-1]
    if last["type"] == "SinkError":
        kind: FaultKind = "passing" if _may_pass(last["text"]) else "code"
    else:
        kind = "passing" if last["type"] in ("StorageUnavailable", "SinkUnavailable") else "final"
    return Fault(kind, last["text"][:MAX_CHARACTERS].rstrip(), last["hint"])


def _may_pass(text: str) -> bool:
    return any(word in text for word in _PASSING_WORDS)


def _last_raised(text: str) -> str | None:
    """Return the last line of the last traceback: the exception of a Python function."""
    begin = text.rfind("Traceback (most recent call last)")
    if begin < 0:
        return None
    frames = list(_FRAME.finditer(text, begin))
    found = _RAISED.search(text, frames[-1].end() if frames else begin)
    if found is None:
        return None
    name = found["type"].rpartition(".")[2]
    rest = _rest_of_message(text, found.end()) if found["text"] else ""
    return f"{name}: {found['text']}{rest}"[:MAX_CHARACTERS] if found["text"] else name


def _rest_of_message(text: str, begin: int) -> str:
    """Return the further lines of a message, up to Spark's additions."""
    kept = []
    for line in text[begin:].lstrip("\n").splitlines():
        if not line.strip() or line.lstrip(" ").startswith(_NOISE):
            break
        kept.append(line)
    return "".join(f"\n{line}" for line in kept[:4])


def _user_place(text: str) -> str | None:
    """Return the last line of user code in the text."""
    frames = [found for found in _FRAME.finditer(text) if is_user_file(found["file"])]
    if not frames:
        return None
    last = frames[-1]
    source = f": {last['source']}" if last["source"] and not set(last["source"]) <= set("^~ ") else ""
    return f"{last['file']}, line {last['line']}, in {last['function'].strip()}{source}"


def _headline(text: str) -> str:
    """Return the first lines of an error's text, without stacks and plans."""
    kept: list[str] = []
    for line in text.strip().splitlines():
        if line.lstrip(" ").startswith(_NOISE) or (kept and not line.strip()):
            break
        kept.append(line.strip())
    return re.sub(r"\s*SQLSTATE: \w+;?$", "", "\n".join(kept[:4]))[:MAX_CHARACTERS] or "Spark gave no reason"


def _type_of(raised: str | None) -> str | None:
    return None if raised is None else raised.partition(":")[0]
