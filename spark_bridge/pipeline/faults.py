"""What a query died of, in a few words: read from the text that Spark gives, which is long and names the user's line somewhere in it."""

import os
import re
import sysconfig
import traceback
from dataclasses import dataclass
from typing import Final

from spark_bridge.pipeline.restarts import FaultKind

_FRAME: Final = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)\n(?: +(?P<source>\S.*)\n)?', re.MULTILINE)
_RAISED: Final = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w+|gaierror)(?:: (?P<text>.*))?$", re.MULTILINE)
_SAID_BY_US: Final = re.compile(
    r"\bspark_bridge\.(?:handover|sinks)\.\w+\.(?P<type>\w+): "
    r"(?P<text>(?:(?!\n(?:Fix: |Traceback|\n|\s*SQLSTATE|\tat )).)*)(?:\nFix: (?P<hint>[^\n]*))?",
    re.DOTALL,
)
_OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NOT_THE_USERS: Final = (_OURS, *(sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "platstdlib")))
_NOISE: Final = ("\tat ", "Driver stacktrace:", "JVM stacktrace:", "=== Streaming Query ===", "SQLSTATE:", "== ", "+- ", "'", "~", ":- ")
_MOST_CHARACTERS: Final = 600
_NO_REASON: Final = "null"
"""All that Spark says where the process of the source, which plans and commits, is gone: the end of a stream has no message in Java."""
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
_OTHER_PLAN: Final = (
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_INVALID_",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "doesn't match to the schema for existing state",
    "sources in the checkpoint offsets and now there are",
    "STREAMING_CHECKPOINT_",
    "CANNOT_LOAD_STATE_STORE",
)
"""What Spark says where a checkpoint is of a query that was another one."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a query died, whether that may pass, and what to do."""

    kind: FaultKind
    text: str
    hint: str | None = None


def explain_error(error: BaseException) -> Fault:
    """Return what an error in this process means."""
    return explain("".join(traceback.format_exception(error)))


def explain(text: str) -> Fault:
    """Return what the text of an error means."""
    handover = _of_handover(text)
    if handover is not None:
        return handover
    if any(word in text for word in _OTHER_PLAN):
        hint = (
            "If the query was changed since, put it back as it was, or give it another name, and with it a new checkpoint. "
            "If it was not, the checkpoint is damaged: restore it from a copy."
        )
        return Fault("final", _headline(text), hint)
    raised = _last_raised(text)
    place = _users_place(text)
    what = raised or _headline(text)
    if what == _NO_REASON:
        return Fault("passing", "a Python process of Spark's ended in the midst of a call, and no reason was given")
    passes = _may_pass(text) or _type_of(raised) in _PASSING_TYPES
    return Fault("passing" if passes else "code", f"{what}\n    {place}" if place else what)


def _of_handover(text: str) -> Fault | None:
    """Return what our own source or sink said, with its fix."""
    found = list(_SAID_BY_US.finditer(text))
    if not found:
        return None
    last = found[-1]
    if last["type"] == "SinkError":
        kind: FaultKind = "passing" if _may_pass(last["text"]) else "code"
    else:
        kind = "passing" if last["type"] in ("StorageUnavailable", "SinkUnavailable") else "final"
    return Fault(kind, last["text"][:_MOST_CHARACTERS].rstrip(), last["hint"])


def _may_pass(text: str) -> bool:
    return any(word in text for word in _PASSING_WORDS)


def _last_raised(text: str) -> str | None:
    """Return the line of the exception that a Python function raised last: below the last traceback."""
    begin = text.rfind("Traceback (most recent call last)")
    if begin < 0:
        return None
    frames = list(_FRAME.finditer(text, begin))
    found = _RAISED.search(text, frames[-1].end() if frames else begin)
    if found is None:
        return None
    name = found["type"].rpartition(".")[2]
    rest = _more_of(text, found.end()) if found["text"] else ""
    return f"{name}: {found['text']}{rest}"[:_MOST_CHARACTERS] if found["text"] else name


def _more_of(text: str, begin: int) -> str:
    """Return the further lines of a message, up to what Spark adds."""
    kept = []
    for line in text[begin:].lstrip("\n").splitlines():
        if not line.strip() or line.lstrip(" ").startswith(_NOISE):
            break
        kept.append(line)
    return "".join(f"\n{line}" for line in kept[:4])


def _users_place(text: str) -> str | None:
    """Return the last line of the user's code that the text names."""
    frames = [found for found in _FRAME.finditer(text) if is_the_users(found["file"])]
    if not frames:
        return None
    last = frames[-1]
    source = f": {last['source']}" if last["source"] and not set(last["source"]) <= set("^~ ") else ""
    return f"{last['file']}, line {last['line']}, in {last['function'].strip()}{source}"


def is_the_users(file: str) -> bool:
    """Tell whether a file of a traceback is none of Python, of a package, or of ours."""
    return not (file.startswith(("<", *_NOT_THE_USERS)) or "site-packages" in file or "pyspark.zip" in file or "py4j-" in file)


def _headline(text: str) -> str:
    """Return the first lines of an error's text, without stacks and plans."""
    kept: list[str] = []
    for line in text.strip().splitlines():
        if line.lstrip(" ").startswith(_NOISE) or (kept and not line.strip()):
            break
        kept.append(line.strip())
    return re.sub(r"\s*SQLSTATE: \w+;?$", "", "\n".join(kept[:4]))[:_MOST_CHARACTERS] or "no reason was given"


def _type_of(raised: str | None) -> str | None:
    return None if raised is None else raised.partition(":")[0]
