"""What kind of function a component's method is; asked when an instance is made, never per tuple."""

import functools
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

from engine.errors import UsageError


class CallKind(Enum):
    """What calling a function gives."""

    PLAIN = "def"
    GENERATOR = "generator"
    COROUTINE = "async def"
    ASYNC_GENERATOR = "async generator"

    @property
    def is_async(self) -> bool:
        """True where the result is awaited or iterated on the loop."""
        return self in (CallKind.COROUTINE, CallKind.ASYNC_GENERATOR)


def call_kind(function: Callable[..., Any]) -> CallKind:
    """Return the kind of a function, method, partial, or object with `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = type(function).__call__
    if inspect.isasyncgenfunction(function):
        return CallKind.ASYNC_GENERATOR
    if inspect.iscoroutinefunction(function):
        return CallKind.COROUTINE
    return CallKind.GENERATOR if inspect.isgeneratorfunction(function) else CallKind.PLAIN


def missing_arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parameters that a call without arguments would miss; none where the signature cannot be read."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(parameter.name for parameter in parameters if parameter.default is parameter.empty and parameter.kind not in optional)


def takes(function: Callable[..., Any], arguments: int) -> bool:
    """Tell whether a function can be called with so many arguments; True where its signature cannot be read.

    A decorator may hand on other arguments than it takes: its own signature counts, not that of what it wraps.
    """
    try:
        inspect.signature(function, follow_wrapped=False).bind(*[None] * arguments)
    except ValueError:
        return True
    except TypeError:
        return False
    return True


def function_name(function: Callable[..., Any]) -> str:
    """Return what a person calls this function."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


def is_count(value: object, minimum: int) -> bool:
    """Tell whether a value is an integer (no bool) of at least `minimum`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def check_count(what: str, value: object, *, minimum: int, optional: bool = False) -> None:
    """Raise UsageError unless the value is such an integer, or None where `optional`."""
    if not (is_count(value, minimum) or (optional and value is None)):
        none = ", or None" if optional else ""
        raise UsageError(f"{what} must be an integer of at least {minimum}{none}, not {value!r}", hint=f"Write {what.split()[-1]}=3.")
