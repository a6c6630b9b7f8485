"""What a task's batch bolts share: opened once, closed when the task ends."""

import asyncio
from typing import Any

from engine.topology import TaskContext


class OpenResources:
    """The working `Resources` of one task."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._opened: dict[Any, asyncio.Future[Any]] = {}

    async def opened(self, resource: Any) -> Any:
        """Return what `resource.open` gave; the calls that come while it is being opened wait for it."""
        future = self._opened.get(resource)
        if future is None:
            future = self._opened[resource] = asyncio.get_running_loop().create_future()
            try:
                future.set_result(await resource.open(self._context))
            except BaseException as error:
                del self._opened[resource]
                if not isinstance(error, Exception):
                    future.cancel()
                    raise
                future.set_exception(error)
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Close all of them, the newest first; raise the first error at the end."""
        errors: list[Exception] = []
        while self._opened:
            _, future = self._opened.popitem()
            if not future.done():
                future.cancel()
                continue
            try:
                await future.result().close()
            except Exception as error:  # noqa: BLE001 - raised below, once all are closed
                errors.append(error)
        if errors:
            raise errors[0]
