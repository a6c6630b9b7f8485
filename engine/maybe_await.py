"""Results of user methods, which may be `def` or `async def`."""

import asyncio
import inspect
from typing import Any


async def maybe_await(result: Any) -> Any:
    """Return a result. Await it first if it is awaitable."""
    return await result if inspect.isawaitable(result) else result


def discard_awaitables(*results: object) -> None:
    """Close coroutines and cancel futures that nobody will await. Does not change finished ones."""
    for result in results:
        if inspect.iscoroutine(result):
            result.close()
        elif asyncio.isfuture(result):
            result.cancel()
