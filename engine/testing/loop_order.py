"""Timers, tasks and futures with a defined order, so that each run of a virtual loop is the same."""

import asyncio
from collections import deque
from collections.abc import MutableSequence
from itertools import groupby
from typing import Any, Protocol


class Draws(Protocol):
    """The methods of `random.Random` that a shuffled schedule uses."""

    def random(self) -> float: ...
    def shuffle(self, x: MutableSequence[Any], /) -> None: ...


class Moment(float):
    """Due time of a timer. If two timers have the same time, the timer with the lower `tie` fires first.

    asyncio keeps its timers in a heap, and the order of equal elements there depends on the shape of the heap.
    """

    __slots__ = ("tie",)

    def __new__(cls, when: float, tie: float) -> "Moment":
        moment = super().__new__(cls, when)
        moment.tie = tie
        return moment

    tie: float

    def __lt__(self, other: object) -> bool:
        if isinstance(other, Moment) and float.__eq__(self, other):
            return self.tie < other.tie
        return float.__lt__(self, other)  # type: ignore[operator]


class OrderedTask(asyncio.Task[Any]):
    """An asyncio task whose hash is its number in the loop.

    asyncio keeps tasks in sets (TaskGroup, wait, as_completed, all_tasks) and cancels them in the order of the set. The default hash
    is an address, so that order would differ from run to run.
    """

    def __init__(self, coro: Any, *, order: int, **options: Any) -> None:
        self.order = order  # before Task.__init__, which puts the task into a set
        super().__init__(coro, **options)

    def set_name(self, value: object, /) -> None:
        """Name the task; None is ignored, because Python 3.13.0 passes it for a create_task without a name."""
        if value is not None:
            super().set_name(value)

    def __hash__(self) -> int:
        return self.order


class OrderedFuture(asyncio.Future[Any]):
    """A future whose hash is its number in the loop, for the same reason as in `OrderedTask`."""

    def __init__(self, *, order: int, loop: asyncio.AbstractEventLoop) -> None:
        self.order = order
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.order


def permute_steps(ready: deque[asyncio.Handle], draws: Draws) -> None:
    """Permute neighbouring steps of different tasks in the queue of ready callbacks.

    asyncio promises that callbacks run in the order of their `call_soon`, so plain callbacks keep their places. Another thread may
    append to the queue meanwhile.
    """
    handles = [ready.popleft() for _ in range(len(ready))]
    permuted: list[asyncio.Handle] = []
    for are_steps, group in groupby(handles, _is_task_step):
        side_by_side = list(group)
        if are_steps:
            draws.shuffle(side_by_side)
        permuted += side_by_side
    ready.extendleft(reversed(permuted))


def _is_task_step(handle: asyncio.Handle) -> bool:
    # Steps and wake-ups are methods bound to their task. The debug output of asyncio looks at the same attribute.
    callback = getattr(handle, "_callback", None)
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)
