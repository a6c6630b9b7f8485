"""Formats keys and values of a state as JSON, and as text for a table.

JSON types are written unchanged. These types are null, booleans, numbers, strings, lists, and dicts whose keys are strings without a
leading `$`. Other values become an object whose first name begins with `$` and names the type. docs/STATE.md lists these forms.
"""

import base64
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from engine.cli.console.formatting import clipped
from engine.errors import StateError
from engine.safe_text import safe_repr

MOST_EXACT_INT: Final = 2**53 - 1
"""Limit of an exact integer. Programs that read JSON numbers as floats may round larger integers."""


class StoredPickle(bytes):
    """Pickled value that was not unpickled."""


def json_form(value: Any) -> Any:
    """Return a value in the form that docs/STATE.md describes.

    >>> json_form({"seen": {1}, "at": (1.5, b"x")})
    {'seen': {'$set': [1]}, 'at': {'$tuple': [1.5, {'$bytes': 'eA=='}]}}
    """
    try:
        return _form(value)
    except RecursionError:
        raise StateError("a value is nested too deeply for JSON", hint="Read it in Python, through the state provider.") from None


def _form(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    form = _FORMS.get(kind)
    return {"$repr": safe_repr(value, sys.maxsize), "type": f"{kind.__module__}.{kind.__qualname__}"} if form is None else form(value)


def _of_int(value: int) -> Any:
    return value if abs(value) <= MOST_EXACT_INT else {"$int": hex(value)}


def _of_dict(value: dict[Any, Any]) -> Any:
    if all(type(name) is str and not name.startswith("$") for name in value):
        return {name: _form(each) for name, each in value.items()}
    return {"$dict": [[_form(name), _form(each)] for name, each in value.items()]}


def _sorted(value: Iterable[Any]) -> list[Any]:
    """Return the items of a set in a stable order."""
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
    """Return a key or value for a table, in at most `width` characters."""
    if type(value) is StoredPickle:
        return f"pickle of {len(value):,} bytes"
    text = safe_repr(value, sys.maxsize).encode(errors="backslashreplace").decode()
    return clipped(text, width)


def value_of_json(form: Any) -> Any:
    """Return the value of a form that `json_form` writes. Raises ValueError for another object with a `$`.

    >>> value_of_json({"seen": {"$set": [1]}, "at": {"$tuple": [1.5, {"$bytes": "eA=="}]}})
    {'seen': {1}, 'at': (1.5, b'x')}
    """
    if isinstance(form, list):
        return [value_of_json(each) for each in form]
    if not isinstance(form, dict):
        return form
    tag = next(iter(form), "")
    if not tag.startswith("$"):
        return {name: value_of_json(each) for name, each in form.items()}
    try:
        value = _READERS[tag](form[tag])
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise ValueError(f"{json.dumps(form)} is no form of a value") from None
    return value.replace(fold=1) if form.get("fold") else value


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "$int": lambda text: int(text, 16),
    "$float": float,
    "$dict": lambda items: {value_of_json(name): value_of_json(each) for name, each in items},
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$tuple": lambda items: tuple(map(value_of_json, items)),
    "$set": lambda items: set(map(value_of_json, items)),
    "$frozenset": lambda items: frozenset(map(value_of_json, items)),
    "$decimal": Decimal,
    "$uuid": UUID,
    "$datetime": datetime.fromisoformat,
    "$time": time.fromisoformat,
    "$date": date.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
}
