"""Emits the results of `BasicBolt.execute`, in plain and in transactional topologies.

This module handles calls that are async or run in threads. The compiled `_native.bolt` handles bursts of plain calls.
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing
from typing import Any, TypeAlias

from engine.api.fields import Values
from engine.names import DEFAULT_STREAM

Emission: TypeAlias = tuple[Values, str, int | None]
"""One emit, as (values, stream, target task). The task is None for a plain emit."""
WrongResult: TypeAlias = Callable[[object], Exception]
"""Returns the error for an invalid result of `execute`."""


async def emit_result(result: object, emit: Callable[..., object] | None, arguments: tuple[Any, ...], wrong_result: WrongResult) -> None:
    """Emit all tuples that a call of `execute` returned or yields.

    `result` is the return value of the call, which may be awaitable. `emit(values, *arguments)` emits one tuple. `emit` is None if
    the bolt must not return values. Raises `wrong_result(result)` for an invalid result.
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
    """Emit the values that a call in a pool thread recorded. Runs on the thread of the event loop."""
    for values, stream, task in recorded:
        if task is None:
            emit(values, stream)
        else:
            emit_direct(task, values, stream)


def record_result(result: object, recorded: list[Emission], wrong_result: WrongResult) -> None:
    """Append the values of a result to `recorded`. Runs in a pool thread. The event loop emits the values later."""
    if isinstance(result, tuple):
        recorded.append((result, DEFAULT_STREAM, None))
    elif isinstance(result, Iterable) and not isinstance(result, (str, bytes)):
        recorded.extend((values, DEFAULT_STREAM, None) for values in result)
    elif result is not None:
        raise wrong_result(result)
