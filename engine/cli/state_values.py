"""Keys and values of a state as JSON, and as text for a table.

What JSON has is itself: null, true, numbers, strings, lists, and a dict whose keys are all strings of which none begins with `$`.
Anything else is an object whose first name begins with `$` and says what it is; docs/STATE.md lists them.
"""

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from engine.checkpoint.stored import CommittedState
from engine.errors import StateError
from engine.state import Row, codec_named

MOST_EXACT_INT: Final = 2**53 - 1
"""Greater ones are rounded by what reads JSON numbers as floats."""
_KEY_CODEC: Final = codec_named("msgpack")


class StoredPickle(bytes):
    """A pickled value that is not decoded."""


def decoded(row: Row, state: CommittedState, component_id: str) -> tuple[Any, Any]:
    """Return key and value of a row; a value that may not be decoded as StoredPickle."""
    stored = row.value or b""
    try:
        return _KEY_CODEC.decode(row.key), state.codec.decode(stored) if state.decodes else StoredPickle(stored)
    except (TypeError, ValueError) as error:
        raise StateError(
            f"a stored key or value of {component_id!r}, slot {row.slot}, cannot be read: {error}", hint="The store is damaged."
        ) from None


def json_line(values: Mapping[str, Any]) -> str:
    """Return an object as one line; a lone surrogate, which UTF-8 has not, as JSON escapes it."""
    return json.dumps(values, ensure_ascii=False).encode(errors="backslashreplace").decode()


def json_form(value: Any) -> Any:
    """Return a value in the form that the page describes.

    >>> json_form({"seen": {1}, "at": (1.5, b"x")})
    {'seen': {'$set': [1]}, 'at': {'$tuple': [1.5, {'$bytes': 'eA=='}]}}
    """
    try:
        return _form(value)
    except RecursionError:
        raise StateError("a value is nested too deep to be written as JSON") from None


def _form(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    form = _FORMS.get(kind)
    return {"$repr": repr(value), "type": f"{kind.__module__}.{kind.__qualname__}"} if form is None else form(value)


def _of_int(value: int) -> Any:
    return value if abs(value) <= MOST_EXACT_INT else {"$int": hex(value)}


def _of_dict(value: dict[Any, Any]) -> Any:
    if all(type(name) is str and not name.startswith("$") for name in value):
        return {name: _form(each) for name, each in value.items()}
    return {"$dict": [[_form(name), _form(each)] for name, each in value.items()]}


def _sorted(value: Iterable[Any]) -> list[Any]:
    """The items of a set, in an order that is always the same."""
    return sorted(map(_form, value), key=json.dumps)


def _with_fold(name: str, value: datetime | time) -> dict[str, Any]:
    return {name: value.isoformat(), "fold": 1} if value.fold else {name: value.isoformat()}


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_FORMS: Final[Mapping[type, Callable[[Any], Any]]] = {
    int: _of_int,
    float: lambda value: value if math.isfinite(value) else {"$float": str(value)},
    list: lambda value: [_form(each) for each in value],
    dict: _of_dict,
    bytes: lambda value: {"$bytes": _base64(value)},
    StoredPickle: lambda value: {"$pickle": _base64(value)},
    tuple: lambda value: {"$tuple": [_form(each) for each in value]},
    set: lambda value: {"$set": _sorted(value)},
    frozenset: lambda value: {"$frozenset": _sorted(value)},
    Decimal: lambda value: {"$decimal": str(value)},
    UUID: lambda value: {"$uuid": str(value)},
    datetime: lambda value: _with_fold("$datetime", value),
    time: lambda value: _with_fold("$time", value),
    date: lambda value: {"$date": value.isoformat()},
    timedelta: lambda value: {"$timedelta": [value.days, value.seconds, value.microseconds]},
}


def text_form(value: Any, width: int) -> str:
    """Return a key or value for a table, cut where it is long."""
    if type(value) is StoredPickle:
        return f"pickled, {len(value):,} bytes"
    try:
        text = repr(value)
    except (RecursionError, ValueError) as error:  # an int of more digits than Python writes
        text = f"{type(value).__name__}: {error}"
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= width else f"{text[: width - 1]}…"
