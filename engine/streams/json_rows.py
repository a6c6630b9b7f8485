"""`json_of`: decodes JSON into typed rows, for sources whose values are bytes."""

import json
from typing import Any, Generic, TypeVar

from engine.api.fields import short_repr
from engine.streams.rows import RowMisfit
from engine.streams.shapes import Misfit, converter, type_name

R = TypeVar("R")


class JsonOf(Generic[R]):
    """Decodes one JSON value into a row. Can be pickled if the row's type can."""

    def __init__(self, row_type: type[R]) -> None:
        self.row_type = row_type
        self._convert = converter(row_type, "json")

    def __call__(self, text: bytes | str) -> R:
        """Return the row of a JSON text. Raise RowMisfit, which names the field and its value."""
        name = type_name(self.row_type)
        try:
            value: Any = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise RowMisfit(f"{short_repr(text)} is no JSON of a {name}: {error}") from error
        try:
            row: R = self._convert(value)
        except Misfit as error:
            raise RowMisfit(f"{short_repr(text)} is no {name}: {error}") from None
        return row

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonOf, (self.row_type,)

    def __repr__(self) -> str:
        return f"json_of({type_name(self.row_type)})"


def json_of(row_type: type[R]) -> JsonOf[R]:
    """Return a function that decodes JSON into rows of a type, for `flow.stream(value=...)` or a `map`.

    The type is a NamedTuple, a dataclass, a TypedDict, a pydantic model, or any type of their fields. Each value is checked. A text in ISO
    form becomes a datetime, date or time, a text a UUID or Decimal, a number of seconds a timedelta, and a value a member of its Enum.
    Fields that the row does not have are ignored. Raises RowMisfit for all else.

    >>> from typing import NamedTuple
    >>> class Click(NamedTuple):
    ...     user: str
    ...     page: str = "/"
    >>> json_of(Click)(b'{"user": "ada", "agent": "curl"}')
    Click(user='ada', page='/')
    >>> json_of(Click)('{"user": 7}')
    Traceback (most recent call last):
      ...
    engine.streams.rows.RowMisfit: '{"user": 7}' is no Click: field 'user' is 7 (int), which is no str
    """
    return JsonOf(row_type)
