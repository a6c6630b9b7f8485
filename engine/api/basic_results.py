"""Results of a BasicBolt's `execute`, as values to emit. Shared by plain and transactional topologies.

Bursts of plain calls do the same in C (`_native.bolt_core`). This module is for calls that are async or run in threads.
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing
from types import GeneratorType
from typing import Any, TypeAlias

from engine.api.fields import Values
from engine.names import DEFAULT_STREAM

Emission: TypeAlias = tuple[Values, str, int | None]
"""Values, stream, and the target task of an emit_direct."""
WrongResult: TypeAlias = Callable[[object], Exception]
"""From a result that a bolt may not return to the error for it."""


async def emit_result(result: object, emit: Callable[..., object] | None, arguments: tuple[Any, ...], wrong_result: WrongResult) -> None:
    """Await a result of `execute`, and call `emit(values, *arguments)` for all values that it returns or yields.

    emit: None for a bolt that may not return values. Raises `wrong_result(result)` for a result that is not allowed.
    """
    if inspect.isawaitable(result):
        result = await result
    if result is None:
        return
    if emit is None or isinstance(result, (str, bytes)):
        raise wrong_result(result)
    if isinstance(result, tuple):
        emit(result, *arguments)
    elif isinstance(result, AsyncGenerator):
        async with aclosing(result):
            async for values in result:
                emit(values, *arguments)
    elif isinstance(result, AsyncIterable):
        async for values in result:
            emit(values, *arguments)
    elif isinstance(result, Iterable):
        for values in result:
            emit(values, *arguments)
    else:
        raise wrong_result(result)


def emit_recorded(
    recorded: Iterable[Emission], emit: Callable[[Values, str], object], emit_direct: Callable[[int, Values, str], object]
) -> None:
    """Emit the recorded values of a call in a thread. Called on the loop's thread."""
    for values, stream, task in recorded:
        if task is None:
            emit(values, stream)
        else:
            emit_direct(task, values, stream)


def record_result(result: object, recorded: list[Emission], wrong_result: WrongResult) -> None:
    """Append the values of a result to `recorded`. Called in a thread, so the loop's thread emits them later."""
    if isinstance(result, tuple):
        recorded.append((result, DEFAULT_STREAM, None))
    elif isinstance(result, GeneratorType):
        recorded.extend((values, DEFAULT_STREAM, None) for values in result)
    elif result is not None:
        raise wrong_result(result)
