"""Summarises the error of a call, with Spark's condition, the message without Java's stack, and the line of user code."""

import os
import re
import sysconfig
import traceback
from typing import Any, Final

from spark_bridge.process.messages import CallFailure

MAX_CHARACTERS: Final = 2000
_FRAME: Final = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_NOT_THE_USERS: Final = (_PACKAGE, *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")))
_PACKAGE_FOLDERS: Final = ("/site-packages/", "/dist-packages/", "/python/pyspark/", "/pyspark.zip/", "/py4j-")
"""Folders of packages on any machine. An executor has its own Python, and a Spark distribution has its own pyspark."""


def describe_failure(error: BaseException) -> CallFailure:
    """Return the summary of an error. An attribute `call_failure` is a summary that the called function has made."""
    own = getattr(error, "call_failure", None)
    if isinstance(own, CallFailure):
        return own
    text = str(error)
    worker_error = _worker_error(text)
    place = _place_in_worker(text) or _place_in_query_context(text) or _place_in_frames(error)
    message = worker_error or _message(error, text)
    at = f" ({place})" if place else ""
    return CallFailure(
        f"{message[:MAX_CHARACTERS]}{at}", condition=_condition(error, text) or ("PYTHON_EXCEPTION" if worker_error else None), place=place
    )


def _message(error: BaseException, text: str) -> str:
    if hasattr(error, "java_exception"):  # a py4j error for which pyspark has no class
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
    """Return an error's text without Java's stack and without the query plan, which follows the SQLSTATE."""
    kept = []
    for line in text.splitlines():
        if line.startswith(("JVM stacktrace:", "Driver stacktrace:", "== DataFrame ==", "== SQL")):
            break
        if not re.match(r"\s+at [\w.$]+[\w$<>]*\(|\s*\.\.\. \d+ more", line):
            kept.append(line)
        if re.search(r"SQLSTATE: ?\w{5}", line):
            break
    return "\n".join(kept).strip().removesuffix(";")


def _worker_error(text: str) -> str | None:
    """Return the error of the user's function, which is the last line of the traceback of a Python worker."""
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
    frames = [found for found in _FRAME.finditer(text, begin) if is_user_file(found["file"])]
    return f"{frames[-1]['file']}:{frames[-1]['line']} in {frames[-1]['function'].strip()}" if frames else None


def _place_in_query_context(text: str) -> str | None:
    """Return the line of Python that created a column. Spark adds this line to some errors."""
    found = re.search(r"was called from\s*\n\s*(.+\.py:\d+)", text)
    return found[1] if found else None


def _place_in_frames(error: BaseException) -> str | None:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_user_file(frame.filename)]
    return f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else None


def is_user_file(file: str) -> bool:
    """Tell whether a file of a traceback is user code. Files of Python, installed packages and this package are not."""
    if file.startswith("<") or any(folder in file for folder in _PACKAGE_FOLDERS):
        return False
    return not os.path.abspath(file).startswith(tuple(folder + os.sep for folder in _NOT_THE_USERS))
