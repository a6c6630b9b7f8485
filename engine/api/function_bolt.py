"""The decorator `@bolt` makes a `BasicBolt` from a function."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar, overload

from engine.api.arguments import function_name, takes
from engine.api.bolt import BasicBolt, BasicResult, BoltBase, OnBoltError
from engine.api.burst_bolt import BurstCallable, FunctionBurstBolt
from engine.api.collector import Tuple
from engine.api.fields import Fields, decorated_fields
from engine.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=BasicResult)
"""Result of a user's function."""


class BoltCallable(Protocol):
    """Function of one input, which `@bolt` makes a bolt of. A class and not an alias, so that signatures show its name."""

    def __call__(self, tup: Tuple, /) -> BasicResult:
        """Process one input."""


class FunctionBolt(BasicBolt):
    """Base of the bolts that `@bolt` makes. The function itself becomes the method `execute`, which saves a call per tuple."""

    survives_rollback = True
    function: BoltCallable
    fields_declared_at: str

    def execute(self, tup: Tuple) -> BasicResult:
        """Process one input."""
        return type(self).function(tup)


class BoltFunction(Generic[F]):
    """Result of `@bolt`: a factory for `set_bolt`. Other decorators, such as `@stateful_bolt`, derive from this class."""

    decorator: ClassVar[str] = "bolt"
    arguments: ClassVar[str] = "tup"
    """Parameters of the function."""
    base: ClassVar[type[BoltBase]] = FunctionBolt

    def __init__(self, function: F, fields: Fields | None, members: Mapping[str, object]) -> None:
        """Store the function and its fields. `members` are settings and methods for the class of its bolts."""
        self.check_function(function)
        self.function: Final = function
        """Undecorated function, for unit tests. A mapping from field names to values may take the place of an input tuple."""
        self.output_fields: Final = fields
        self.__name__ = name = function_name(function)
        self.__doc__ = function.__doc__
        own = {
            "output_fields": fields,
            "function": staticmethod(function),
            "fields_declared_at": f"the @{self.decorator}(...) of {name}()",
            "__doc__": self.__doc__,
            "__module__": function.__module__,
        }
        self._bolt_class: type[Any] = type(name, (self.base,), {**own, **members})

    @classmethod
    def check_function(cls, function: object) -> None:
        """Raise UsageError unless the decorator can be applied to this object."""
        if not callable(function) or isinstance(function, type):
            hint = f"Derive a class from {cls.base.__mro__[1].__name__}, and pass it to set_bolt()."
            raise UsageError(f"@{cls.decorator} needs a function, not {function!r}", hint=hint)
        if not takes(function, len(cls.arguments.split(", "))):
            name = function_name(function)
            hint = f"Write def {name if name.isidentifier() else 'f'}({cls.arguments}): ..."
            raise UsageError(f"@{cls.decorator} above {name}(): the function cannot be called with ({cls.arguments})", hint=hint)

    def create(self) -> BoltBase:
        """Return a new bolt. The engine calls this for each instance of a task."""
        bolt: BoltBase = self._bolt_class()
        return bolt

    def __call__(self, *args: object) -> BoltBase:
        """Return a new bolt, like `create`. Raise UsageError for a call with arguments, because the caller expects a function."""
        if args:
            hint = f"To test the function, call {self.__name__}.function({self.arguments})."
            raise UsageError(f"{self.__name__} is a bolt, not a function", hint=hint)
        return self.create()

    def __repr__(self) -> str:
        return f"<@{self.decorator} {self.__name__}: {', '.join(self.output_fields or ())}>"


class BurstBoltFunction(BoltFunction[BurstCallable]):
    """Result of `@bolt(burst=True)`."""

    arguments: ClassVar[str] = "burst"
    base: ClassVar[type[BoltBase]] = FunctionBurstBolt


@overload
def bolt(
    *output_fields: str | Fields,
    burst: Literal[False] = False,
    concurrency: int = 1,
    threads: int = 0,
    on_error: OnBoltError | None = None,
    retries: int = 0,
    tick_tuple_freq_secs: float | None = None,
) -> Callable[[Callable[[Tuple], R]], BoltFunction[Callable[[Tuple | Mapping[str, Any]], R]]]: ...


@overload
def bolt(
    *output_fields: str | Fields,
    burst: Literal[True],
    on_error: OnBoltError | None = None,
    retries: int = 0,
    tick_tuple_freq_secs: float | None = None,
) -> Callable[[BurstCallable], BurstBoltFunction]: ...


def bolt(
    *output_fields: str | Fields,
    burst: bool = False,
    concurrency: int = 1,
    threads: int = 0,
    on_error: OnBoltError | None = None,
    retries: int = 0,
    tick_tuple_freq_secs: float | None = None,
) -> Callable[[Any], BoltFunction[Any]]:
    """Make a `BasicBolt` from a function. The function has one parameter: the input tuple.

    The function may be a plain function, a generator, a coroutine function or an async generator. The engine emits each value tuple that
    the function yields or returns, anchored to the input. The engine acks the input when the function has returned. `output_fields` are
    names, or one Fields. A bolt without fields emits nothing. The other arguments are settings of `BasicBolt`, such as `retries`: the
    number of times that a call that raised runs again, before its input fails. Raises UsageError for wrong fields, and for an object
    that is not a function of one argument.

    burst: make a `BurstBolt`. The function gets a Burst, and yields pairs of an input and the values of a tuple that is anchored to it.

    >>> @bolt("word")
    ... def split(tup):
    ...     for word in tup["line"].split():
    ...         yield (word,)
    >>> list(split.function({"line": "to be"}))
    [('to',), ('be',)]
    >>> @bolt("word", burst=True)
    ... def split_many(burst):
    ...     for tup, line in burst.items("line"):
    ...         for word in line.split():
    ...             yield tup, (word,)
    """
    fields = decorated_fields("bolt", output_fields)
    settings: dict[str, object] = {
        "concurrency": concurrency,
        "threads": threads,
        "on_error": on_error,
        "retries": retries,
        "tick_tuple_freq_secs": tick_tuple_freq_secs,
    }

    def decorate(function: Any) -> BoltFunction[Any]:
        if burst:
            return BurstBoltFunction(function, fields, settings)
        return BoltFunction(function, fields, {**settings, "execute": staticmethod(function)})

    return decorate
