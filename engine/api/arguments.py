"""Checks the functions, signatures and counts that user code passes to the engine.

The checks run when a topology is built or an instance is created, never per tuple.
"""

import functools
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

from engine.errors import UsageError


class CallKind(Enum):
    """Kind of a function, determined by the object that a call returns."""

    PLAIN = "def"
    GENERATOR = "generator"
    COROUTINE = "async def"
    ASYNC_GENERATOR = "async generator"

    @property
    def is_async(self) -> bool:
        """True if the result is awaited, or iterated asynchronously."""
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
    """Return the required parameters of a function. Return an empty tuple if Python cannot read the signature.

    >>> missing_arguments(lambda path, encoding="utf-8": None)
    ('path',)
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(parameter.name for parameter in parameters if parameter.default is parameter.empty and parameter.kind not in optional)


def takes(function: Callable[..., Any], arguments: int) -> bool:
    """Tell whether a function accepts this number of positional arguments. Return True if Python cannot read the signature.

    For a decorated function, the signature of the wrapper counts, because the wrapper may pass different arguments on.
    """
    try:
        inspect.signature(function, follow_wrapped=False).bind(*[None] * arguments)
    except ValueError:
        return True
    except TypeError:
        return False
    return True


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function for an error message."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


def is_number(value: object) -> bool:
    """Tell whether a value is an int or a float. A bool is not a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_count(value: object, minimum: int) -> bool:
    """Tell whether a value is an integer of at least `minimum`. A bool is not a count."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def check_count(name: str, value: object, *, minimum: int, optional: bool = False) -> None:
    """Raise UsageError unless the value is a count, or None if `optional`. `name` ends with the name of the parameter."""
    if not (is_count(value, minimum) or (optional and value is None)):
        none = ", or None" if optional else ""
        raise UsageError(f"{name} must be an integer of at least {minimum}{none}, not {value!r}", hint=f"Write {name.split()[-1]}=3.")
