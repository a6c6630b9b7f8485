"""The one place where the engine reads time.

A run has one clock. A real loop's is the machine's; a loop with virtual time brings its own, so that a test moves it.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, cast


class VirtualTimeLoop(Protocol):
    """What a loop with virtual time has beside an event loop's own methods."""

    virtual_time: bool

    def time(self) -> float: ...
    def wall(self) -> float: ...


class Clock:
    """The time of one run.

    `now()` is in seconds, monotonic, from an arbitrary start; `wall()` is in seconds since the epoch and may jump.
    Both are plain attributes that hold the bare callable, because hot code binds and calls them.
    """

    __slots__ = ("now", "wall")

    def __init__(self, now: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self.now = now
        self.wall = wall

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> "Clock":
        """Return the clock of a loop: its virtual time if it has one, else the machine's.

        A real loop's own `time()` is not used: uvloop caches it per iteration, in whole milliseconds.
        """
        if getattr(loop, "virtual_time", False):
            virtual = cast(VirtualTimeLoop, loop)
            return cls(virtual.time, virtual.wall)
        return cls()
