"""Checks the functions, signatures and counts that user code passes to the engine.

The checks run when a topology is built or an instance is created, never per tuple.
"""

import functools
import inspect
import math
from collections.abc import Callable
from enum import Enum
from typing import Any

from engine.errors import UsageError
from engine.plain_numbers import plain_integer, plain_number


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


def number_within(value: object, low: float, high: float = math.inf) -> float | None:
    """Return a number from `low` to `high` as one of Python, and None if it is none. A bool is not a number."""
    number = plain_number(value)
    return number if number is not None and low <= number <= high else None


def count_from(value: object, minimum: int) -> int | None:
    """Return an integer of at least `minimum` as one of Python, and None if it is none. A bool is not a count."""
    number = plain_integer(value)
    return number if number is not None and number >= minimum else None


def checked_count(name: str, value: object, minimum: int, *, otherwise: str = "") -> int:
    """Return a count as an int of Python, or raise UsageError.

    name: ends with the name of the parameter. otherwise: what the parameter may be besides, such as ", or None".
    """
    count = count_from(value, minimum)
    if count is None:
        raise UsageError(f"{name} must be an integer of at least {minimum}{otherwise}, not {value!r}", hint=f"Write {name.split()[-1]}=3.")
    return count
