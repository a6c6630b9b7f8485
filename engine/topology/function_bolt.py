"""`@bolt`: a `BasicBolt` from a function."""

from collections.abc import Callable
from typing import Final

from engine.errors import UsageError
from engine.topology.bolt import BasicBolt, BasicResult
from engine.topology.calls import function_name
from engine.topology.collector import Tuple
from engine.topology.fields import Fields
from engine.topology.spout import OnError
from engine.topology.stream import decorated_fields

BoltCallable = Callable[[Tuple], BasicResult]


class FunctionBolt(BasicBolt):
    """Base of the bolts that `@bolt` makes; in each, `execute` is the function itself: no frame stands between."""

    function: Callable[[Tuple], BasicResult]
    fields_declared_at: str

    def execute(self, tup: Tuple) -> BasicResult:
        """Process one input."""
        return type(self).function(tup)


class BoltFunction:
    """What `@bolt` makes of a function: a factory, to be given to `set_bolt`."""

    def __init__(self, function: BoltCallable, fields: Fields | None, settings: dict[str, object]) -> None:
        self.function: Final = function
        """The undecorated function, for unit tests."""
        self.output_fields: Final = fields
        self.__name__ = name = function_name(function)
        self.__doc__ = function.__doc__
        plain = staticmethod(function)
        declared_at = f"the @bolt(...) of {name}()"
        members = {"output_fields": fields, "execute": plain, "function": plain, "fields_declared_at": declared_at, "__doc__": self.__doc__}
        self._bolt_class: type[FunctionBolt] = type(name, (FunctionBolt,), {**members, **settings, "__module__": function.__module__})

    def create(self) -> FunctionBolt:
        """Return a new bolt; the engine calls it once for each task."""
        return self._bolt_class()

    def __call__(self, *args: object) -> FunctionBolt:
        """Return a new bolt, as `create` does; raise UsageError where it is called as if it were the function."""
        if args:
            raise UsageError(f"{self.__name__} is a bolt, not a function", hint=f"To test it call {self.__name__}.function(tup).")
        return self.create()

    def __repr__(self) -> str:
        return f"<@bolt {self.__name__}: {', '.join(self.output_fields or ())}>"


def bolt(
    *output_fields: str | Fields,
    concurrency: int = 1,
    threads: int = 0,
    on_error: OnError = "fail",
    tick_tuple_freq_secs: float | None = None,
) -> Callable[[BoltCallable], BoltFunction]:
    """Make a `BasicBolt` of a function of one input: `def`, generator, `async def` or async generator.

    Each tuple that it yields, or the one that it returns, is emitted, anchored to the input; the input is acked when it
    is through. Without fields the bolt is a sink. The settings are those of a `BasicBolt`.

    >>> @bolt("word")
    ... def split(tup):
    ...     for word in tup["line"].split():
    ...         yield (word,)
    >>> list(split.function({"line": "to be"}))
    [('to',), ('be',)]
    """
    fields = decorated_fields("bolt", output_fields)
    settings: dict[str, object] = {
        "concurrency": concurrency,
        "threads": threads,
        "on_error": on_error,
        "tick_tuple_freq_secs": tick_tuple_freq_secs,
    }

    def decorate(function: BoltCallable) -> BoltFunction:
        _check_function(function)
        return BoltFunction(function, fields, settings)

    return decorate


def _check_function(function: object) -> None:
    if not callable(function) or isinstance(function, type):
        raise UsageError(f"@bolt needs a function, not {function!r}", hint="Derive a class from BasicBolt, and pass it to set_bolt().")
