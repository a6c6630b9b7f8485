"""The decorator `@spout` makes a spout from a generator function or an async generator function."""

import inspect
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from engine.api.arguments import CallKind, call_kind, checked_count, function_name, missing_arguments, takes
from engine.api.async_generator_spout import AsyncGeneratorSpout
from engine.api.fields import Fields, Values, decorated_fields
from engine.api.generator_options import GeneratorOptions, GiveUp
from engine.api.generator_spout import GeneratorSpout
from engine.api.spout import Spout
from engine.errors import UsageError
from engine.safe_text import safe_repr

P = ParamSpec("P")
Source = TypeVar("Source", bound=Iterable[Values | None] | AsyncIterable[Values | None])
PositionSource = TypeVar("PositionSource", bound=Iterable[Any] | AsyncIterable[Any])
BurstSource = TypeVar("BurstSource", bound=Iterable[list[Any] | None] | AsyncIterable[list[Any] | None])


class SpoutFunction(Generic[P]):
    """Result of `@spout`.

    A call with the function's arguments returns a factory for `set_spout`. If the function has no parameters, this object is itself a
    factory.
    """

    def __init__(self, function: Callable[P, Any], options: GeneratorOptions, bind: Callable[[], Any] | None = None) -> None:
        self.function = function
        """Undecorated function, for unit tests."""
        self.output_fields = options.fields
        self.rewinds = options.rewinds
        self._options = options
        self._bound = bind
        self.__name__ = function_name(function)
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> "SpoutFunction[[]]":
        """Return a factory of spouts that read `function(*args, **kwargs)`. Each instance of the spout calls the function."""
        if self._bound is not None:
            raise UsageError(f"spout function {self.__name__}() has its arguments already", hint="Call it once only.")
        after = {"after": None} if self._options.positions else {}
        try:
            inspect.signature(self.function).bind(*args, **kwargs, **after)
        except TypeError as error:
            names = ", ".join(inspect.signature(self.function).parameters)
            raise UsageError(
                f"spout function {self.__name__}() cannot be called with these arguments: {error}", hint=f"It takes ({names})."
            ) from None
        return SpoutFunction(cast(Any, self.function), self._options, partial(cast(Any, self.function), *args, **kwargs))

    def create(self) -> Spout:
        """Return a new spout. The engine calls this for each instance of a task."""
        function: Callable[..., Any] = self._bound or cast(Any, self.function)
        given = ("after",) if self._options.positions else ()
        missing = () if self._bound is not None else tuple(name for name in missing_arguments(self.function) if name not in given)
        if missing:
            raise UsageError(
                f"spout function {self.__name__}() needs arguments: {', '.join(missing)}",
                hint=f"Call it in set_spout(), with values: set_spout(..., {self.__name__}({', '.join(missing)})).",
            )
        if call_kind(self.function) is CallKind.ASYNC_GENERATOR:
            return AsyncGeneratorSpout(function, self._options, self.__name__)
        return GeneratorSpout(function, self._options, self.__name__)

    def __repr__(self) -> str:
        return f"<@spout {self.__name__}: {', '.join(self.output_fields.names)}>"


@overload
def spout(
    *output_fields: str | Fields,
    burst: Literal[False] = False,
    max_retries: int | None = 3,
    on_give_up: GiveUp | None = None,
    restartable: bool = False,
    repeatable: bool = False,
    positions: Literal[False] = False,
) -> Callable[[Callable[P, Source]], SpoutFunction[P]]: ...


@overload
def spout(
    *output_fields: str | Fields,
    burst: bool = False,
    max_retries: int | None = 3,
    on_give_up: GiveUp | None = None,
    restartable: bool = False,
    repeatable: Literal[False] = False,
    positions: Literal[True],
) -> Callable[[Callable[..., PositionSource]], SpoutFunction[...]]: ...


@overload
def spout(
    *output_fields: str | Fields,
    burst: Literal[True],
    max_retries: int | None = 3,
    on_give_up: GiveUp | None = None,
    restartable: bool = False,
    repeatable: bool = False,
    positions: Literal[False] = False,
) -> Callable[[Callable[P, BurstSource]], SpoutFunction[P]]: ...


def spout(
    *output_fields: str | Fields,
    burst: bool = False,
    max_retries: int | None = 3,
    on_give_up: GiveUp | None = None,
    restartable: bool = False,
    repeatable: bool = False,
    positions: bool = False,
) -> Callable[[Callable[P, Any]], SpoutFunction[P]]:
    """Make a spout from a generator or async generator function that yields tuples with these fields: names, or one Fields.

    A function that has nothing to emit now may yield None, and the engine pauses. A failed tuple is emitted again up to `max_retries` times
    (None: no limit). After that the spout calls the plain function `on_give_up(values, failure)`, which by default reports an error. With
    `restartable=True` the function may start from its beginning after an exception; see `GeneratorBroken`.

    positions: the function takes a parameter `after`, yields pairs of a position and a row (None: no row), and begins behind the position
    `after`. None means its beginning. In a topology with state, its rows are then processed exactly once (EO-1).

    repeatable: each call of the function yields the same rows, so that the engine can count them, and process each exactly once, too.

    burst: the function yields lists of rows, which is faster. None or an empty list means that there is nothing to emit now.
    Raises UsageError for wrong arguments, and for an object that is not a generator function.

    >>> @spout("number")
    ... def numbers(limit):
    ...     for number in range(limit):
    ...         yield (number,)
    >>> numbers(3)                          # for set_spout()
    <@spout numbers: number>
    >>> @spout("number", positions=True)
    ... def from_zero(limit, after):
    ...     for number in range(0 if after is None else after, limit):
    ...         yield number + 1, (number,)             # the position behind this row
    >>> list(from_zero.function(3, after=1))            # for a unit test
    [(2, (1,)), (3, (2,))]
    >>> @spout("number", burst=True)
    ... def many_numbers(limit):
    ...     for first in range(0, limit, 100):
    ...         yield [(number,) for number in range(first, min(first + 100, limit))]
    """
    fields = decorated_fields("spout", output_fields)
    if fields is None:
        raise UsageError("@spout() names no fields", hint='Name the fields that it yields: @spout("line").')
    options = _checked(GeneratorOptions(fields, max_retries, on_give_up, restartable, burst, positions, repeatable))

    def decorate(function: Callable[P, Any]) -> SpoutFunction[P]:
        _check_generator_function(function, positions=positions)
        return SpoutFunction(function, options)

    return decorate


def _checked(options: GeneratorOptions) -> GeneratorOptions:
    """Return the options with their numbers checked. Raises UsageError."""
    on_give_up: object = options.on_give_up
    for name in ("burst", "restartable", "positions", "repeatable"):
        given: object = getattr(options, name)
        if not isinstance(given, bool):
            raise UsageError(f"@spout: {name} is {safe_repr(given)}", hint="Write True or False.")
    if options.positions and options.repeatable:
        hint = "With positions=True the function tells its positions. Remove one of both."
        raise UsageError("@spout has positions=True and repeatable=True", hint=hint)
    if on_give_up is not None and (not callable(on_give_up) or call_kind(on_give_up) is not CallKind.PLAIN or not takes(on_give_up, 2)):
        raise UsageError("@spout: on_give_up must be a plain function of two arguments", hint="Write def on_give_up(values, failure): ...")
    if options.max_retries is None:
        return options
    return replace(options, max_retries=checked_count("@spout: max_retries", options.max_retries, 0, otherwise=", or None"))


def _check_generator_function(function: object, *, positions: bool) -> None:
    if not callable(function) or call_kind(function) not in (CallKind.GENERATOR, CallKind.ASYNC_GENERATOR):
        raise UsageError(
            f"@spout needs a generator function, but {getattr(function, '__name__', repr(function))} is not one",
            hint="Write `yield (value,)` in the function, or derive a class from Spout.",
        )
    if positions and "after" not in inspect.signature(function).parameters:
        text = f"@spout(positions=True): {function_name(function)}() has no parameter `after`"
        raise UsageError(text, hint="Write def lines(after): ... It gets the position behind which it begins, None for the beginning.")
