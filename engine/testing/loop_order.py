"""What makes a loop's order the same in every run: moments, tasks and futures that are ordered by their creation."""

import asyncio
from collections import deque
from collections.abc import MutableSequence
from itertools import groupby
from typing import Any, Protocol


class Draws(Protocol):
    """What a shuffled schedule needs of a `random.Random`."""

    def random(self) -> float: ...
    def shuffle(self, x: MutableSequence[Any], /) -> None: ...


class Moment(float):
    """When a timer is due; of two timers that are due at the same time, the one with the lower `tie` is first.

    asyncio keeps its timers in a heap, which leaves the order of equal ones to the shape of the heap.
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
    """A task that hashes to its number.

    asyncio keeps tasks in sets (TaskGroup, wait, as_completed, all_tasks) and cancels them in the order of the set: with
    hashes that are addresses, that order would differ from run to run.
    """

    def __init__(self, coro: Any, *, order: int, **options: Any) -> None:
        self.order = order  # before Task.__init__, which puts the task into a set
        super().__init__(coro, **options)

    def set_name(self, value: object, /) -> None:
        """Name the task; None is no name (Python 3.13.0 passes it on from a create_task without one)."""
        if value is not None:
            super().set_name(value)

    def __hash__(self) -> int:
        return self.order


class OrderedFuture(asyncio.Future[Any]):
    """A future that hashes to its number, as `OrderedTask`."""

    def __init__(self, *, order: int, loop: asyncio.AbstractEventLoop) -> None:
        self.order = order
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.order


def permute_steps(ready: deque[asyncio.Handle], draws: Draws) -> None:
    """Permute what is ready as far as asyncio leaves it open.

    asyncio promises that callbacks run in the order of their `call_soon`, so every plain callback stays where it is; only
    the steps of different tasks that stand side by side change places. Another thread may append meanwhile.
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
    # A step and a wake-up are bound to their task; asyncio's own debug output tells them by the same attribute.
    callback = getattr(handle, "_callback", None)
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)
