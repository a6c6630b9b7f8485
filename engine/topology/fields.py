"""The names of the values in a tuple."""

from collections.abc import Iterator

from engine.errors import UsageError
from engine.names import did_you_mean, is_writable


class Fields:
    """The ordered names of one stream's values; immutable, hashable, picklable.

    `direct=True` declares a stream on which the emitter names the receiving task (`emit_direct`), and which only
    `direct_grouping` can subscribe to. `Fields()` declares tuples without values: signals.

    >>> Fields("word", "count").index("count")
    1
    """

    __slots__ = ("direct", "names", "positions")

    names: tuple[str, ...]
    direct: bool
    positions: dict[str, int]
    """Where each name stands. Only to be read; a plain dict because the compiled tuple looks names up in it."""

    def __init__(self, *names: str, direct: bool = False) -> None:
        check_names(names)
        _set(self, "names", names)
        _set(self, "direct", bool(direct))
        _set(self, "positions", {name: position for position, name in enumerate(names)})

    def index(self, name: str) -> int:
        """Return the position of a name; raise UsageError, with the nearest name, where there is none."""
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
        raise AttributeError(f"Fields are immutable; make new ones instead of setting {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Fields are immutable; {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.names, self.direct)


_set = object.__setattr__


def _rebuild(names: tuple[str, ...], direct: bool) -> Fields:
    return Fields(*names, direct=direct)


def check_names(names: tuple[object, ...]) -> None:
    """Raise UsageError unless all are non-empty strings and none stands twice."""
    for name in names:
        if isinstance(name, (list, tuple, set)):
            raise UsageError(f"a field name must be a str, not {name!r}", hint="Unpack the names: Fields(*names).")
        if not isinstance(name, str):
            raise UsageError(f"a field name must be a str, not {name!r} ({type(name).__name__})", hint='Write Fields("word", "count").')
        if not name:
            raise UsageError("a field name is empty", hint="Give each field a name.")
        if not is_writable(name):
            raise UsageError(f"field name {name!r} cannot be written as UTF-8", hint='Write Fields("word", "count").')
    twice = [name for position, name in enumerate(names) if name in names[:position]]
    if twice:
        raise UsageError(f"field {twice[0]!r} stands twice in Fields({', '.join(map(repr, names))})", hint="Give each field its own name.")
