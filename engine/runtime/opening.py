"""Opens the features of a run, with standby after a wait. A stop or a drain ends the wait."""

import asyncio
from typing import Any, Final, Literal, TypeAlias

from engine.cancellation import cancel_requests
from engine.clock import Clock
from engine.runtime.run_features import RunFeatures
from engine.topology import Topology

EndedEarly: TypeAlias = Literal["stopped", "drained", "failed"]


class Opening:
    """The part of a run before its tasks exist. `ended` is the state of a run that ended in this part, else None."""

    def __init__(self, features: RunFeatures) -> None:
        self._features: Final = features
        self._aio_task: asyncio.Task[Any] | None = None
        """The asyncio task that enters the run. A task of its own would let other code run before the run has begun."""
        self._over: asyncio.Future[None] | None = None
        """Done when the features are open, or closed again."""
        self._requested: Literal["stopped", "drained"] | None = None
        self.ended: EndedEarly | None = None

    async def open(self, clock: Clock) -> Topology | None:
        """Open the features, and return the topology that runs. Return None if a stop or a drain came first.

        Raises the error of a feature or of the state provider. Leaves nothing open then, nor after a cancellation.
        """
        self._over = asyncio.get_running_loop().create_future()
        self._aio_task = asyncio.current_task()
        requests = cancel_requests()
        try:
            topology = await self._features.open(clock)
            if self._requested is None:
                return topology
            await asyncio.sleep(0)  # raises the request, which came too late to interrupt the opening
            raise asyncio.CancelledError  # the opening has swallowed the request
        except BaseException as error:
            if not await self._close_after(error, requests):
                raise
        finally:
            self._over.set_result(None)
        return None

    async def _close_after(self, error: BaseException, requests: int) -> bool:
        """Close the features. Return True if the error is only the cancellation that `end` requested.

        requests: cancel requests before the opening. More of them mean that the caller was cancelled too.
        """
        is_cancelled = isinstance(error, asyncio.CancelledError)
        if self._requested is not None and self._aio_task is not None:
            self._aio_task.uncancel()
        is_requested = self._requested is not None and is_cancelled and cancel_requests() <= requests
        self.ended = self._requested if is_requested else "stopped" if is_cancelled else "failed"
        await self._features.close(clean=False)
        return is_requested

    async def end(self, state: Literal["stopped", "drained"]) -> None:
        """End the opening, and wait until the features are closed again. Has no effect before and after the opening."""
        if self._over is None or self._aio_task is None or self._over.done():
            return
        if self._requested is None:
            self._requested = state
            self._aio_task.cancel()
        if asyncio.current_task() is not self._aio_task:
            await asyncio.shield(self._over)
