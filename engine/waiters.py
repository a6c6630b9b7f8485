"""`Waiters` are coroutines that wait for the next change of an object."""

import asyncio


class Waiters:
    """Coroutines on one event loop that wait for the next change. After a change each coroutine checks its own condition.

    Like `asyncio.Condition`, but without a lock, because all code runs on the loop's thread. Any code on this thread may call `wake_all`.
    """

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Wait for the next `wake_all`."""
        future = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        await future

    def wake_all(self) -> None:
        """Wake all coroutines that wait now."""
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)
