"""`Waiters` are coroutines that wait for the next change of an object. `Places` are a limit of the coroutines in a block."""

import asyncio
from collections import OrderedDict


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


class Places:
    """A number of places for coroutines on one event loop. `async with places:` waits for a place, in the order of arrival.

    Like `asyncio.Semaphore`, but a wait that is cancelled leaves the queue in constant time. A semaphore looks through all its waiters each
    time, so a hundred thousand waits that time out together would block the loop for ten seconds.
    """

    __slots__ = ("_free", "_waiting")

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    async def __aenter__(self) -> None:
        if self._free:
            self._free -= 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting[place] = None
        try:
            await place
        except BaseException:
            if place.done() and not place.cancelled():  # it was given in the turn of the cancellation
                self._give_on()
            self._waiting.pop(place, None)
            raise

    async def __aexit__(self, *error: object) -> None:
        self._give_on()

    def _give_on(self) -> None:
        """Give a place to the coroutine that has waited longest. Without a waiting coroutine the place is free."""
        while self._waiting:
            place, _ = self._waiting.popitem(last=False)
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
