"""Encodes values of a run as JSON that every reader can parse, whatever users put into them."""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

MOST_DEPTH: Final = 50
"""Nested lists and mappings beyond this depth are shown as text."""
MOST_EXACT_INT: Final = 2**53 - 1
"""Larger integers are texts, because JavaScript would round them."""


def encode_json(value: Any) -> bytes:
    """Return one line of ASCII. Infinities and NaN become text, because JSON has no numbers for them."""
    try:
        return json.dumps(value, allow_nan=False).encode("ascii")
    except (ValueError, TypeError, RecursionError):
        return json.dumps(json_value(value), allow_nan=False).encode("ascii")


def json_value(value: Any, depth: int = 0) -> Any:
    """Return a user's value in types of JSON. A value of any other type becomes its `repr`.

    >>> json_value({1: (b"x", float("inf"), None)})
    {'1': ["b'x'", 'inf', None]}
    """
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if abs(value) <= MOST_EXACT_INT else _text(value)
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if depth < MOST_DEPTH:
        if isinstance(value, list | tuple):
            return [json_value(each, depth + 1) for each in value]
        if isinstance(value, Mapping):
            return {name if isinstance(name, str) else _text(name): json_value(each, depth + 1) for name, each in value.items()}
    return _text(value)


def _text(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - of user code, and shown in place of the value
        return f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
