"""What an executor waits at when it has nothing to do."""

import asyncio


class Doorbell:
    """Wakes the one coroutine that waits; a ring while nobody waits is kept for the next wait."""

    __slots__ = ("_loop", "_rung", "_waiter")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake whoever waits, now or next; only on the loop's thread."""
        self._rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout_secs: float | None = None) -> bool:
        """Return True at the first ring since the last wait, False after the timeout."""
        if not self._rung:
            self._waiter = self._loop.create_future()
            timer = None if timeout_secs is None else self._loop.call_later(timeout_secs, self._time_out)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        rung, self._rung = self._rung, False
        return rung

    def _time_out(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
