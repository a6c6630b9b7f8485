"""What a called function raised, in a few words: Spark's condition, the message without Java's stack, and the line of the user's file."""

import os
import re
import sysconfig
import traceback
from typing import Any, Final

from spark_bridge.session.wire import Trouble

MOST_CHARACTERS: Final = 2000
_FRAME: Final = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_NOT_THE_USERS: Final = (
    _OURS,
    *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    "<frozen",
)


def explain(error: BaseException) -> Trouble:
    """Return what happened and where."""
    text = str(error)
    raised = _raised_in_worker(text)
    place = _place_in_worker(text) or _place_of_call(text) or _place_in_frames(error)
    message = raised or _message(error, text)
    at = f" ({place})" if place else ""
    return Trouble(
        f"{message[:MOST_CHARACTERS]}{at}", condition=_condition(error, text) or ("PYTHON_EXCEPTION" if raised else None), place=place
    )


def _message(error: BaseException, text: str) -> str:
    if hasattr(error, "java_exception"):  # of py4j: what Spark has no class for
        return _without_stack(str(error.java_exception.toString()))
    if hasattr(error, "getMessageParameters"):
        return _without_stack(text)
    return "".join(traceback.format_exception_only(error)).strip()


def _condition(error: BaseException, text: str) -> str | None:
    read: Any = getattr(error, "getCondition", None)
    condition = read() if callable(read) else None
    if isinstance(condition, str) and condition:
        return condition
    found = re.match(r"\s*(?:\([\w.]+\)\s*)?\[([A-Z][A-Z0-9_.]+)\]", text)
    return found[1] if found else None


def _without_stack(text: str) -> str:
    """Return an error's text without the stack of Java and the plan, which stands behind the SQLSTATE."""
    kept = []
    for line in text.splitlines():
        if line.startswith(("JVM stacktrace:", "Driver stacktrace:", "== DataFrame ==", "== SQL")):
            break
        if not re.match(r"\s+at [\w.$]+[\w$<>]*\(|\s*\.\.\. \d+ more", line):
            kept.append(line)
        if re.search(r"SQLSTATE: ?\w{5}", line):
            break
    return "\n".join(kept).strip().removesuffix(";")


def _raised_in_worker(text: str) -> str | None:
    """Return the last line of the traceback of a Python worker: what the user's function raised there."""
    begin = text.find("Traceback (most recent call last)")
    if begin < 0:
        return None
    lines = [line for line in text[begin:].splitlines() if line.strip()]
    ends = [line for line in lines[1:] if not line.startswith((" ", "\t", "'"))]
    return f"a Python function of the job raised {ends[0].strip()}" if ends else None


def _place_in_worker(text: str) -> str | None:
    begin = text.find("Traceback (most recent call last)")
    if begin < 0:
        return None
    frames = [found for found in _FRAME.finditer(text, begin) if _is_the_users(found["file"])]
    return f"{frames[-1]['file']}:{frames[-1]['line']} in {frames[-1]['function'].strip()}" if frames else None


def _place_of_call(text: str) -> str | None:
    """Return where in Python a column was made, which Spark tells of some errors."""
    found = re.search(r"was called from\s*\n\s*(.+\.py:\d+)", text)
    return found[1] if found else None


def _place_in_frames(error: BaseException) -> str | None:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_the_users(frame.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else None


def _is_the_users(file: str) -> bool:
    if os.sep + "pyspark" + os.sep in file or os.sep + "pyspark.zip" in file or "site-packages" in file or file in ("<string>", "<stdin>"):
        return False
    return not os.path.abspath(file).startswith(_NOT_THE_USERS) if not file.startswith("<") else file == "<user>"
