"""Runs a coroutine step by step, such as with context variables of its own inside an asyncio task that has others."""

import sys
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, TypeVar

_T = TypeVar("_T")


def instance_context(base: Context) -> Context:
    """Return a copy of `base` for one instance of a component.

    It gets a decimal context of its own, because that is a mutable object, which a plain copy would share with all other instances.
    """
    context = base.copy()
    decimal = sys.modules.get("decimal")  # importing it takes longer than the rest of a start
    if decimal is not None:
        context.run(lambda: decimal.setcontext(decimal.getcontext().copy()))
    return context


async def in_context(context: Context, coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Await a coroutine. Each of its steps sees and sets the variables of `context`, which must not be entered already."""
    return await by_steps(coroutine, context.run)


@types.coroutine
def by_steps(coroutine: Coroutine[Any, Any, _T], run: Callable[..., Any]) -> Generator[Any, Any, _T]:
    """Await a coroutine. run: calls a function, and gets each step of the coroutine, but not the time between two steps."""
    resume, given = coroutine.send, None
    while True:
        try:
            yielded = run(resume, given)
        except StopIteration as end:
            result: _T = end.value
            return result
        try:
            resume, given = coroutine.send, (yield yielded)
        except GeneratorExit:
            run(coroutine.close)
            raise
        except BaseException as error:  # noqa: BLE001 - a cancellation, which goes to the coroutine
            resume, given = coroutine.throw, error
