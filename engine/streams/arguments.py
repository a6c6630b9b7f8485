"""Types and checks of what users give to the methods of streams."""

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from inspect import getattr_static
from operator import attrgetter, itemgetter
from typing import Any, NoReturn, Protocol, TypedDict, TypeVar, get_args, get_type_hints

from engine.api import BoltBase, OnBoltError, takes
from engine.errors import UsageError
from engine.event_time.settings import TimeUnit
from engine.names import did_you_mean
from engine.streams.calls import Call
from engine.streams.shapes import shape_of, type_name

In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)


class RowCall(Protocol[In_contra, Out_co]):
    """Instance of a class that a stage takes instead of a function. Each task has one.

    It may also have `prepare` and `cleanup`, and it gets the attribute `context` before `prepare`.
    """

    def __call__(self, row: In_contra, /) -> Out_co:
        """Process one row."""


class StageOptions(TypedDict, total=False):
    """Settings of the bolt of a stage. A stage with one of them has a bolt of its own."""

    parallelism: int
    """Number of tasks."""
    on_error: OnBoltError
    """Reaction to an exception. "divert": the row leaves on `stage.failed`."""
    retries: int
    """Number of times that a call that raised runs again."""
    processes: bool
    """True: each task has a process of its own."""
    threads: int
    """Size of the thread pool that runs the function. Not for stages with a state."""


class TimeSettings(TypedDict, total=False):
    """Settings of `event_time`. `EventTime` describes them."""

    unit: TimeUnit | None
    max_out_of_order: timedelta
    idle_secs: float
    close_when_idle: bool
    max_ahead: timedelta | None
    hold_secs: float
    wait_for_acks: bool


class SinkOptions(StageOptions, total=False):
    """Settings of the bolt of a sink."""

    concurrency: int
    """Number of rows that an `async def` gets at the same time."""


class UpdatesReplaceEarlierOnes:
    """Type that no value has. A method that takes it cannot be called, which a type checker says by this name."""

    def __init__(self, never: NoReturn) -> None: ...


class Selected:
    """Returns the results of several functions of a row, as a tuple. Can be pickled if the functions can."""

    def __init__(self, functions: tuple[Callable[[Any], Any], ...]) -> None:
        self._functions = functions

    def __call__(self, row: Any) -> tuple[Any, ...]:
        return tuple([function(row) for function in self._functions])


def getter(where: str, name: str, row_type: Any) -> Callable[[Any], Any]:
    """Return a function in C that reads a field of a row. Raise UsageError if the row has no such field. where: beginning of the error."""
    shape = shape_of(row_type)
    if shape is None:
        return attrgetter(name)
    if name not in shape.names and callable(getattr_static(shape.row_type, name, len)):  # a method, or nothing at all
        names = (*shape.names, *_properties(shape.row_type))
        text = f"{where}: {type_name(row_type)} has no field {name!r} (it has: {', '.join(names)})"
        raise UsageError(text, hint=did_you_mean(name, names))
    if shape.make is dict:
        return itemgetter(name)
    if shape.is_tuple and name in shape.names:
        return itemgetter(shape.names.index(name))
    return attrgetter(name)


def _properties(row_type: type) -> tuple[str, ...]:
    """Return the names of the public properties of a class of rows."""
    names = (name for name in dir(row_type) if not name.startswith(("_", "model_")))
    return tuple(name for name in names if isinstance(getattr_static(row_type, name), property | cached_property))


def is_function(target: Any) -> bool:
    """Tell whether the target of a sink is called with rows. Otherwise it is the factory of a bolt."""
    if isinstance(target, type):
        return not issubclass(target, BoltBase) and Call(target).is_class
    if callable(getattr(target, "create", None)) or isinstance(target, BoltBase):
        return False
    return callable(target) and takes(target, 1)


def returned(call: Call) -> Any:
    """Return the type that a function declares to return, None if it declares none."""
    if isinstance(call.given, type) and not call.is_class:
        return call.given  # `int`, or a row's class
    function = call.given.__call__ if call.is_class else call.given
    try:
        return get_type_hints(function).get("return")
    except (NameError, TypeError, AttributeError):  # a name that only a type checker knows, or a callable without hints
        return None


def item_type(collection: Any) -> Any:
    """Return the type of the items of a collection's type, None if it is unknown."""
    arguments = get_args(collection)
    return arguments[0] if len(arguments) in (1, 3) else None  # a generator has three
