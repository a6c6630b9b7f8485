"""Encodes values of a run as JSON that every reader can parse, whatever users put into them."""

import json
import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.safe_text import safe_repr

MOST_DEPTH: Final = 50
"""Nested lists and mappings beyond this depth are shown as text."""
MOST_PARTS: Final = 200_000
"""Parts of one value. Further parts are left out, because a list that contains itself twice would never end."""
MOST_EXACT_INT: Final = 2**53 - 1
"""Larger integers are texts, because JavaScript would round them."""


def encode_json(value: Any) -> bytes:
    """Return one line of ASCII. Infinities and NaN become text, because JSON has no numbers for them."""
    try:
        return json.dumps(value, allow_nan=False).encode("ascii")
    except (ValueError, TypeError, RecursionError):
        return json.dumps(json_value(value), allow_nan=False).encode("ascii")


def json_value(value: Any) -> Any:
    """Return a user's value in types of JSON. A value of any other type becomes its `repr`.

    >>> json_value({1: (b"x", float("inf"), None)})
    {'1': ["b'x'", 'inf', None]}
    """
    return _json_value(value, 0, iter(range(MOST_PARTS)))


def _json_value(value: Any, depth: int, parts: Iterator[int]) -> Any:
    """Return a part of a value. parts: has one item for each part that is still allowed."""
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if abs(value) <= MOST_EXACT_INT else _text(value)
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if depth < MOST_DEPTH:
        if isinstance(value, list | tuple):
            return [_json_value(each, depth + 1, parts) for each, _ in zip(value, parts, strict=False)]
        if isinstance(value, Mapping):
            named = ((name if isinstance(name, str) else _text(name), each) for name, each in value.items())
            return {name: _json_value(each, depth + 1, parts) for (name, each), _ in zip(named, parts, strict=False)}
    return _text(value)


def _text(value: object) -> str:
    return safe_repr(value, sys.maxsize)
