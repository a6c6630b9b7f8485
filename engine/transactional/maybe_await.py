"""Results of the user's methods, which may be `def` or `async def`."""

import asyncio
import inspect
from typing import Any


async def maybe_await(result: Any) -> Any:
    """Return a result that may have to be awaited."""
    return await result if inspect.isawaitable(result) else result


def discard_awaitables(*results: object) -> None:
    """End what was to be awaited, and will not be; without effect where it has been."""
    for result in results:
        if inspect.iscoroutine(result):
            result.close()
        elif asyncio.isfuture(result):
            result.cancel()
