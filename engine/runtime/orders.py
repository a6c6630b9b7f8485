"""`Orders` are work of the engine that a bolt's task does between two calls, ahead of all inputs."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

Work: TypeAlias = Callable[[], Awaitable[None]]


class Order(NamedTuple):
    """One order. `done` gets the result. It is cancelled if the instance dies before."""

    work: Work
    done: "asyncio.Future[None]"


class Orders:
    """The orders that a task has not begun. False if there are none."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._waiting: deque[Order] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, work: Work) -> "asyncio.Future[None]":
        """Add an order, and wake the task."""
        order = Order(work, self._loop.create_future())
        self._waiting.append(order)
        self._wake()
        return order.done

    def take(self) -> Order:
        """Take the oldest order."""
        return self._waiting.popleft()

    def cancel(self) -> None:
        """Cancel all orders, because they were for an instance that has ended."""
        while self._waiting:
            self._waiting.popleft().done.cancel()
