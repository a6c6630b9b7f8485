"""Shapes of rows: the fields of a NamedTuple, dataclass, TypedDict or pydantic model, and how values become such a row again.

Values come from two sides. JSON has texts where a row has times and decimals. A state has stored them as they are, and all else as JSON
does: the fields of a row as a dict, an Enum as its value.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from engine.api.fields import short_repr
from engine.streams.rows import RowMisfit

Form: TypeAlias = Literal["json", "stored"]
Convert: TypeAlias = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a row type."""

    row_type: Any
    names: tuple[str, ...]
    required: frozenset[str]
    types: Mapping[str, Any]
    make: Callable[[dict[str, Any]], Any]
    """Makes a row of values by name. Raises an error of the class for wrong ones."""
    checks_values: bool = False
    """True for a pydantic model, which converts and checks its values itself."""

    @property
    def is_tuple(self) -> bool:
        """True for a NamedTuple."""
        return isinstance(self.row_type, type) and issubclass(self.row_type, tuple)


def shape_of(row_type: Any) -> Shape | None:
    """Return the shape of a row type. None: it has no fields, such as `str`."""
    origin = typing.get_origin(row_type) or row_type
    if not isinstance(origin, type):
        return None
    if issubclass(origin, tuple) and hasattr(origin, "_fields"):
        names = tuple(origin._fields)
        required = frozenset(names) - frozenset(origin._field_defaults)  # type: ignore[attr-defined]
        return Shape(origin, names, required, _hints(origin), lambda values: origin(**values))
    if dataclasses.is_dataclass(origin):
        fields = [field for field in dataclasses.fields(origin) if field.init]
        missing = dataclasses.MISSING
        needed = frozenset(each.name for each in fields if each.default is missing and each.default_factory is missing)
        return Shape(origin, tuple(each.name for each in fields), needed, _hints(origin), lambda values: origin(**values))
    if typing.is_typeddict(origin):
        hints = _hints(origin)
        return Shape(origin, tuple(hints), origin.__required_keys__, hints, dict)  # type: ignore[attr-defined]
    if hasattr(origin, "model_validate") and hasattr(origin, "model_fields"):
        found: Mapping[str, Any] = origin.model_fields
        needed = frozenset(name for name, field in found.items() if field.is_required())
        return Shape(origin, tuple(found), needed, {}, origin.model_validate, checks_values=True)
    return None


def _hints(row_type: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(row_type)
    except (NameError, TypeError):  # a name that only a type checker knows
        return dict.fromkeys(getattr(row_type, "__annotations__", ()), Any)


def as_stored(value: Any) -> Any:
    """Return the form of a value that a state can store: the fields of each row in it as a dict, an Enum as its value."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: as_stored(each) for name, each in zip(value._fields, value, strict=True)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_stored(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if hasattr(value, "model_dump"):
        return as_stored(value.model_dump())
    if isinstance(value, dict):
        return {key: as_stored(each) for key, each in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(as_stored, value))
    return value


class Misfit(ValueError):
    """A value that is not of a type. `path` grows on the way out: the names of fields and the numbers of items."""

    def __init__(self, expected: str, value: Any) -> None:
        super().__init__(f"is {short_repr(value)} ({type(value).__name__}), which is no {expected}")
        self.path: list[str] = []

    def within(self, name: str) -> "Misfit":
        """Note the field that the value belongs to."""
        self.path.insert(0, name)
        return self

    def __str__(self) -> str:
        return f"field {'.'.join(self.path)!r} {self.args[0]}" if self.path else f"the value {self.args[0]}"


def type_name(annotation: Any) -> str:
    """Return a type as its user writes it."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "")


def converter(annotation: Any, form: Form) -> Convert:
    """Return a function that returns the value of this type for one from JSON or from a state. It raises Misfit."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Annotated, typing.Required, typing.NotRequired, typing.Final):
        return converter(arguments[0], form)
    if origin in (typing.Union, types.UnionType):
        return partial(_one_of, [converter(each, form) for each in arguments], type_name(annotation))
    if origin is Literal:
        return partial(_member, arguments, type_name(annotation))
    shape = shape_of(annotation)
    if shape is not None:
        return row_converter(shape, form)
    kind = annotation if origin is None else origin
    if kind is None or kind is type(None):
        return partial(_exact, type(None), "None")
    if not isinstance(kind, type) or kind is object or kind is Any:
        return _anything  # Any, a type variable, or a name of a newer Python
    if issubclass(kind, Enum):
        return partial(_enum, kind)
    if kind in _PLAIN:  # a state keeps a bool in a field of type int as it is
        return partial(_exact, kind, kind.__name__) if form == "json" else partial(_instance, kind)
    if kind is float:
        return _float
    collection = _collection(kind, arguments, form)
    if collection is not None:
        return collection
    if form == "json" and kind in _FROM_JSON:
        return partial(_from_text, kind, _FROM_JSON[kind])
    return partial(_instance, kind)


def row_converter(shape: Shape, form: Form) -> Convert:
    """Return a function that makes a row of a dict. It ignores fields that the row does not have."""
    if shape.checks_values:
        return partial(_checked_by_model, shape)
    return partial(_row, shape, [(name, converter(shape.types.get(name, Any), form)) for name in shape.names])


def _row(shape: Shape, fields: list[tuple[str, Convert]], value: Any) -> Any:
    if not isinstance(value, dict):
        raise Misfit(f"object with the fields of {shape.row_type.__name__}", value)
    made = {}
    for name, convert in fields:
        if name in value:
            try:
                made[name] = convert(value[name])
            except Misfit as error:
                raise error.within(name) from None
        elif name in shape.required:
            raise Misfit(f"{shape.row_type.__name__}, since it has no {name!r}", value)
    return shape.make(made)


def _checked_by_model(shape: Shape, value: Any) -> Any:
    try:
        return shape.make(value)
    except ValueError as error:  # pydantic's ValidationError
        raise RowMisfit(f"{short_repr(value)} is no {shape.row_type.__name__}: {error}") from error


def _anything(value: Any) -> Any:
    return value


def _exact(kind: type, name: str, value: Any) -> Any:
    if type(value) is not kind:
        raise Misfit(name, value)
    return value


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    raise Misfit("float", value)


def _instance(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise Misfit(kind.__name__, value)
    return value


def _enum(kind: type[Enum], value: Any) -> Enum:
    try:
        return kind(value)
    except ValueError:
        raise Misfit(f"value of {kind.__name__}", value) from None


def _member(members: tuple[Any, ...], name: str, value: Any) -> Any:
    if value not in members:
        raise Misfit(name, value)
    return value


def _one_of(converts: list[Convert], name: str, value: Any) -> Any:
    for convert in converts:
        try:
            return convert(value)
        except Misfit:
            continue
    raise Misfit(name, value)


def _from_text(kind: type, convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except (ValueError, TypeError, ArithmeticError, AttributeError):
        raise Misfit(f"text of a {kind.__name__}", value) from None


def _decimal(value: Any) -> Decimal:
    return Decimal(value) if type(value) is str else Decimal(str(float(value)) if type(value) is float else _exact(int, "int", value))


def _collection(kind: type, arguments: tuple[Any, ...], form: Form) -> Convert | None:
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        return partial(_tuple, [converter(each, form) for each in arguments])
    if kind in _LISTS:
        make = type if form == "stored" and kind in _ABSTRACT else _LISTS[kind]
        return partial(_items, make, converter(arguments[0], form) if arguments else _anything)
    if kind in (dict, Mapping, MutableMapping):
        return partial(_mapping, converter(arguments[1], form) if arguments else _anything)
    return None


def _items(make: Callable[[Any], Any], convert: Convert, value: Any) -> Any:
    """Return the items in a collection. make: its type; `type` for that of the value."""
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise Misfit("list", value)
    made = []
    for number, item in enumerate(value):
        try:
            made.append(convert(item))
        except Misfit as error:
            raise error.within(str(number)) from None
    return type(value)(made) if make is type else make(made)


def _tuple(converts: list[Convert], value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or len(value) != len(converts):
        raise Misfit(f"tuple of {len(converts)} items", value)
    return tuple([convert(item) for convert, item in zip(converts, value, strict=True)])


def _mapping(convert: Convert, value: Any) -> Any:
    if not isinstance(value, dict):
        raise Misfit("object", value)
    made = {}
    for key, item in value.items():
        try:
            made[key] = convert(item)
        except Misfit as error:
            raise error.within(str(key)) from None
    return made


_PLAIN: Final = frozenset({str, int, bool, bytes})
_ABSTRACT: Final = frozenset({Sequence, MutableSequence, AbstractSet})
_LISTS: Final[Mapping[type, Callable[[Any], Any]]] = {
    list: list,
    Sequence: list,
    MutableSequence: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    AbstractSet: frozenset,
}
_FROM_JSON: Final[Mapping[type, Convert]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    timedelta: lambda value: timedelta(seconds=_float(value)),
    Decimal: _decimal,
    UUID: lambda value: UUID(_exact(str, "str", value)),
}
