"""Opens the resources of a task once for all its batch bolts, and closes them when the task ends."""

import asyncio
from typing import Any

from engine.api import TaskContext
from engine.cancellation import aio_task_error
from engine.raised import without_exits


class OpenResources:
    """Implementation of `Resources` for one task."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._opened: dict[Any, asyncio.Task[Any]] = {}

    async def opened(self, resource: Any) -> Any:
        """Return the result of `resource.open`. Calls during the opening wait for it."""
        opening = self._opened.get(resource)
        if opening is None:
            opening = self._opened[resource] = asyncio.get_running_loop().create_task(self._open(resource))
            opening.add_done_callback(aio_task_error)  # its waiters get the error
        # The aio_task is separate and shielded. If the attempt that asked first is cancelled, later attempts still get the resource.
        return await asyncio.shield(opening)

    async def _open(self, resource: Any) -> Any:
        try:
            return await without_exits(resource.open(self._context))
        except BaseException:
            self._opened.pop(resource, None)
            raise

    async def close(self) -> None:
        """Close all resources, the newest first, then raise the first error."""
        errors: list[Exception] = []
        while self._opened:
            _, opening = self._opened.popitem()
            if not opening.done():
                opening.cancel()
                await asyncio.wait([opening])
            if opening.cancelled() or opening.exception() is not None:
                continue
            try:
                await opening.result().close()
            except Exception as error:  # noqa: BLE001 - raised below, once all are closed
                errors.append(error)
        if errors:
            raise errors[0]
