"""JSON for programs: any values become one line of valid JSON.

JSON has no text for NaN, for a key that is a tuple, for a cycle, or for an int with more digits than Python prints. Values of users may
contain all of them, and objects whose `repr` raises. A line that a program reads must arrive nevertheless.
"""

import json
import math
import sys
from typing import Any, Final

from engine.safe_text import safe_repr

MOST_DEPTH: Final = 20
"""Levels of nested containers that are written as JSON, if a value cannot be written unchanged. Deeper levels are left out."""


def json_text(value: object) -> str:
    """Return a value as one line of JSON. What JSON cannot express is replaced by its text.

    A lone surrogate, which UTF-8 cannot encode, is escaped.

    >>> print(json_text({"share": float("nan"), "at": {(1, 2): b"x"}}))
    {"share": "nan", "at": {"(1, 2)": "b'x'"}}
    """
    try:
        text = json.dumps(value, default=_text, ensure_ascii=False, allow_nan=False)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - values of users may raise anything while they are read; then they are read with more care
        text = json.dumps(_plain(value, ()), ensure_ascii=False, allow_nan=False)
    return text.encode(errors="backslashreplace").decode()


def _plain(value: object, outer: tuple[int, ...]) -> object:
    """Return a value of plain JSON types. outer: ids of the containers around the value."""
    if value is None or value is True or value is False or type(value) is str:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else float.__repr__(value)
    try:
        if isinstance(value, int):
            int.__repr__(value)  # raises for an int with more digits than Python prints
            return value
        if isinstance(value, (dict, list, tuple)):
            return _plain_container(value, outer)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - as above
        return _text(value)
    return _text(value)


def _plain_container(value: Any, outer: tuple[int, ...]) -> object:
    if id(value) in outer or len(outer) == MOST_DEPTH:
        return "..."
    inner = (*outer, id(value))
    if isinstance(value, dict):
        return {key if type(key) is str else _text(key): _plain(each, inner) for key, each in list(value.items())}
    return [_plain(each, inner) for each in list(value)]


def _text(value: object) -> str:
    return str.__str__(value) if isinstance(value, str) else safe_repr(value, sys.maxsize)
