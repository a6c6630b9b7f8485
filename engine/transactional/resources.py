"""What a task's batch bolts share: opened once, closed when the task ends."""

import asyncio
from typing import Any

from engine.raised import without_exits
from engine.topology import TaskContext


class OpenResources:
    """The working `Resources` of one task."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._opened: dict[Any, asyncio.Task[Any]] = {}

    async def opened(self, resource: Any) -> Any:
        """Return what `resource.open` gave; the calls that come while it is being opened wait for it.

        It is opened in a task of its own: an attempt that is superseded meanwhile, and cancelled, takes nothing from those behind it.
        """
        opening = self._opened.get(resource)
        if opening is None:
            opening = self._opened[resource] = asyncio.get_running_loop().create_task(self._open(resource))
            opening.add_done_callback(_retrieve)
        return await asyncio.shield(opening)

    async def _open(self, resource: Any) -> Any:
        try:
            return await without_exits(resource.open(self._context))
        except BaseException:
            self._opened.pop(resource, None)
            raise

    async def close(self) -> None:
        """Close all of them, the newest first; raise the first error at the end."""
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


def _retrieve(opening: "asyncio.Task[Any]") -> None:
    """Nobody may wait for it any more: asyncio is not to complain of what it raised."""
    if not opening.cancelled():
        opening.exception()
