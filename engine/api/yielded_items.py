"""Checks of the items that the function of a `@spout` yields."""

from copy import deepcopy
from typing import Any, Final

from engine.api.fields import Fields, short_repr, wrong_values
from engine.errors import UsageError

_UNCHANGEABLE: Final = frozenset((int, str, bytes, float, bool, type(None)))


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


def checked_rows(name: str, items: list[Any], fields: Fields, *, burst: bool) -> tuple[list[tuple[Any, ...]], Exception | None]:
    """Return the rows of items, up to the first one that is no row, and the error for that one. `wrong_item` names the arguments."""
    rows: list[tuple[Any, ...]] = []
    try:
        for index, item in enumerate(items):
            if not isinstance(item, (tuple, list)) or len(item) != len(fields):
                raise wrong_item(name, items, index, fields, burst=burst)
            rows.append(tuple(item))
    except Exception as error:  # noqa: BLE001 - also of a subclass with methods of its own; raised after the rows before
        return rows, error
    return rows, None


def with_own_positions(rows: list[Any]) -> list[Any]:
    """Return pairs of a position and a row with copies of the positions, because the generator may change them when it goes on.

    What is one object stays one.
    """
    copies: dict[int, Any] = {}
    return [
        row if type(row) is not tuple or len(row) != 2 or type(row[0]) in _UNCHANGEABLE else (deepcopy(row[0], copies), row[1])
        for row in rows
    ]


def is_repeated(position: Any, before: Any, *, in_list: bool) -> bool:
    """Tell whether a position is that of the row before, so that a run which begins behind it would skip the second row.

    An object that the generator changes is equal to itself, although it was another position when the row before was yielded. in_list: both
    rows are of one list, in which nobody can tell what it was.
    """
    if position is None or type(position) is not type(before):
        return False
    if position is before and in_list:
        return True
    return (position is before or bool(position == before)) and _is_unchangeable(position)


def _is_unchangeable(position: Any) -> bool:
    try:
        hash(position)
    except TypeError:  # a dict, or a tuple with a list in it
        return False
    return True


def repeated_position(name: str, position: Any, row: Any) -> UsageError:
    """Return the error for a position that two rows have. name: of the function. row: the second one."""
    text = f"spout function {name}() yielded the position {short_repr(position)} behind two rows. A process that began there would skip "
    hint = "Yield another position behind each row, such as (offset, number of the row), and a copy of an object that you change."
    return UsageError(f"{text}the second one, {short_repr(row)}", hint=hint)
