"""Defines the field names of a stream, and checks the streams of a component and the values of a tuple."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from engine.errors import UsageError
from engine.names import DEFAULT_STREAM, did_you_mean, is_reserved, is_writable, plain_text
from engine.safe_text import safe_repr

Values: TypeAlias = tuple[object, ...] | list[Any]
"""Values of one tuple, one for each field. The engine copies a list into a tuple."""

_SHOWN_CHARACTERS: Final = 80


class Fields:
    """Ordered names of the values of one stream. The object is immutable, hashable and picklable.

    Raises UsageError unless each name is a non-empty string and occurs once. With `direct=True` the emitter selects the receiving task by
    `emit_direct`, and bolts must subscribe by `direct_grouping`. `Fields()` declares tuples without values, for signals.

    >>> from engine import Fields
    >>> fields = Fields("word", "count")
    >>> fields.index("count"), len(fields), "late" in fields
    (1, 2, False)
    """

    __slots__ = ("direct", "names", "positions")

    names: tuple[str, ...]
    direct: bool
    positions: dict[str, int]
    """Index of each name. Do not change it. The compiled tuple reads it, so it must be a plain dict."""

    def __init__(self, *names: str, direct: bool = False) -> None:
        _check_names(names)
        names = tuple(map(plain_text, names))
        _set(self, "names", names)
        _set(self, "direct", bool(direct))
        _set(self, "positions", {name: position for position, name in enumerate(names)})

    def index(self, name: str) -> int:
        """Return the index of a name. Raise UsageError with the nearest name if the stream has no such field."""
        position = self.positions.get(name)
        if position is None:
            raise UsageError(f"{self!r} has no field {name!r}", hint=did_you_mean(str(name), self.names))
        return position

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, position: int) -> str:
        return self.names[position]

    def __contains__(self, name: object) -> bool:
        return name in self.positions

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fields):
            return NotImplemented
        return self.names == other.names and self.direct == other.direct

    def __hash__(self) -> int:
        return hash((self.names, self.direct))

    def __repr__(self) -> str:
        arguments = [repr(name) for name in self.names] + (["direct=True"] if self.direct else [])
        return f"Fields({', '.join(arguments)})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Fields are immutable: {name!r} cannot be set. Make new Fields instead.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Fields are immutable: {name!r} cannot be deleted. Make new Fields instead.")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.names, self.direct)


_set = object.__setattr__


def _rebuild(names: tuple[str, ...], direct: bool) -> Fields:
    return Fields(*names, direct=direct)


def _check_names(names: tuple[object, ...]) -> None:
    """Raise UsageError unless all names are non-empty strings and none occurs twice."""
    for name in names:
        if isinstance(name, (list, tuple, set)):
            raise UsageError(f"a field name must be a str, not {name!r}", hint="Unpack the names: Fields(*names).")
        if not isinstance(name, str):
            raise UsageError(f"a field name must be a str, not {name!r} ({type(name).__name__})", hint='Write Fields("word", "count").')
        if not name:
            raise UsageError("a field name is empty", hint="Give each field a name.")
        if not is_writable(name):
            raise UsageError(f"field name {name!r} cannot be encoded as UTF-8", hint='Write Fields("word", "count").')
    twice = [name for position, name in enumerate(names) if name in names[:position]]
    if twice:
        raise UsageError(f"field {twice[0]!r} occurs twice in Fields({', '.join(map(repr, names))})", hint="Give each field its own name.")


OutputFields: TypeAlias = Fields | str | tuple[str, ...] | Mapping[str, Fields | str | tuple[str, ...]] | None
"""Type of `output_fields`. None: no stream. Fields or names: the default stream. A mapping: one entry for each stream."""

Streams: TypeAlias = Mapping[str, Fields]
"""Fields by stream name, read-only, in the order of declaration."""

NO_STREAMS: Streams = MappingProxyType({})


def declare_streams(output_fields: object) -> Streams:
    """Return the streams that a value of `output_fields` declares. Raise UsageError if the value is not an `OutputFields`.

    >>> dict(declare_streams("word"))
    {'default': Fields('word')}
    """
    if output_fields is None:
        return NO_STREAMS
    if not isinstance(output_fields, Mapping):
        return MappingProxyType({DEFAULT_STREAM: _fields(DEFAULT_STREAM, output_fields)})
    streams: dict[str, Fields] = {}
    for stream, fields in output_fields.items():
        _check_stream_name(stream)
        streams[plain_text(stream)] = _fields(stream, fields)
    return MappingProxyType(streams)


def _fields(stream: str, declared: object) -> Fields:
    if isinstance(declared, Fields):
        return declared
    if isinstance(declared, str):
        return Fields(declared)
    if isinstance(declared, (tuple, list)):
        return Fields(*declared)
    raise UsageError(
        f"output_fields of stream {stream!r} must be Fields, not {declared!r} ({type(declared).__name__})",
        hint='Write output_fields = Fields("word"), or {"default": Fields("word"), "late": Fields("word")}.',
    )


def _check_stream_name(stream: object) -> None:
    if not isinstance(stream, str) or not stream:
        raise UsageError(f"a stream name must be a non-empty str, not {stream!r}", hint='Write {"late": Fields("word")}.')
    if not is_writable(stream):
        raise UsageError(f"stream name {stream!r} cannot be encoded as UTF-8", hint='Write {"late": Fields("word")}.')
    if is_reserved(stream):
        raise UsageError(f"stream name {stream!r} is reserved for the engine", hint="Begin the name with neither '__' nor '$'.")


def decorated_fields(decorator: str, arguments: tuple[object, ...]) -> Fields | None:
    """Return the Fields of a `@spout(...)` or `@bolt(...)`, or None if it has no arguments.

    The arguments are names, or a single Fields. Raise UsageError for anything else.
    """
    if not arguments:
        return None
    if len(arguments) == 1 and isinstance(arguments[0], Fields):
        return arguments[0]
    if len(arguments) == 1 and callable(arguments[0]):
        name = getattr(arguments[0], "__name__", "f")
        or_none = f", or @{decorator}() if it emits nothing" if decorator != "spout" else ""
        hint = f'Write @{decorator}("word") above def {name}{or_none}.'
        raise UsageError(f"@{decorator} above {name}() names no fields", hint=hint)
    try:
        return Fields(*arguments)  # type: ignore[arg-type]
    except UsageError as error:
        raise UsageError(f"@{decorator}: {error.message}", hint=f'Write @{decorator}("word", "count").') from None


def wrong_values(where: str, values: object, fields: Fields | None = None) -> UsageError:
    """Return the UsageError for values that do not match the fields of the stream.

    `values` has the wrong length, or is not a tuple. `where` is the beginning of the message, for example `bolt 'split': execute()
    yielded`. `fields` is None if the fields are unknown.

    >>> print(wrong_values("bolt 'split': execute() yielded", "be", Fields("word")))
    bolt 'split': execute() yielded 'be' (str), which is not a tuple of values
    Fix: Write ('be',). A single value needs a tuple too.
    """
    shown = short_repr(values)
    if not isinstance(values, (tuple, list)):
        written = shown if len(shown) <= 20 else "value"
        return UsageError(
            f"{where} {shown} ({type(values).__name__}), which is not a tuple of values",
            hint=f"Write ({written},). A single value needs a tuple too.",
        )
    found = _plural(len(values), "value")
    names = f" ({', '.join(fields)})" if fields else ""
    expected = "another number of fields" if fields is None else _plural(len(fields), "field") + names
    return UsageError(
        f"{where} {shown}: {found}, but the stream has {expected}", hint="Emit one value for each field, or change output_fields."
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def short_repr(value: object) -> str:
    """Return the repr of a value, cut to 80 characters for an error message."""
    return safe_repr(value, _SHOWN_CHARACTERS + 1, end="…")
