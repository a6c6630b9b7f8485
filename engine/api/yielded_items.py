"""Checks of the items that the function of a `@spout` yields."""

from typing import Any

from engine.api.fields import Fields, short_repr, wrong_values
from engine.errors import UsageError


def wrong_item(name: str, items: list[Any], index: int, fields: Fields, *, burst: bool) -> UsageError:
    """Return the error for an item that is no row. name: of the function. burst: the items are those of a yielded list."""
    where = f"spout function {name}() yielded"
    if not burst:
        return wrong_values(where, items[index], fields)
    if not any(isinstance(item, (tuple, list)) for item in items):
        return _wrong_list(name, items)
    return wrong_values(f"{where} a list whose row {index} is", items[index], fields)


def _wrong_list(name: str, item: object) -> UsageError:
    hint = "Yield a list of rows, such as [(value,), (value,)]. To yield single rows, remove burst=True."
    return UsageError(f"spout function {name}() yielded {short_repr(item)} ({type(item).__name__}), which is not a list of rows", hint=hint)


def checked_list(name: str, item: object) -> list[Any]:
    """Return a copy of a yielded list. None counts as an empty list. Raises UsageError for anything else."""
    if item is None:
        return []
    if type(item) is not list:
        raise _wrong_list(name, item)
    return [tuple(row) if type(row) is list else row for row in item] if list in map(type, item) else item[:]
