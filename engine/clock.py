"""Clock of a run. No other module of the engine imports `time`.

A run on a real loop uses the clock of the machine. A run on a loop with virtual time uses the virtual time, which a test controls.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Protocol, cast


class VirtualTimeLoop(Protocol):
    """Attributes of a loop with virtual time."""

    virtual_time: bool

    def time(self) -> float: ...
    def wall(self) -> float: ...


class Clock:
    """Time of one run.

    `now()` returns monotonic seconds from an arbitrary start. `wall()` returns seconds since the epoch, and may jump. `cpu()` returns
    seconds of CPU time of the calling thread. The attributes are plain callables, because the hot path binds and calls them.
    """

    __slots__ = ("cpu", "now", "wall")

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self.now = now
        self.wall = wall
        self.cpu = cpu

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> "Clock":
        """Return the clock of a loop. A loop with virtual time has its own clock, and any other loop has the clock of the machine.

        `time()` of a real loop is not used, because uvloop caches it per iteration, in whole milliseconds.
        """
        if getattr(loop, "virtual_time", False):
            virtual = cast(VirtualTimeLoop, loop)
            return cls(virtual.time, virtual.wall, lambda: 0.0)
        return cls()

    def measure_cpu(self) -> Callable[[], float | None]:
        """Return a function for the CPU time of this thread from now on, in seconds. On another thread the function returns None.

        Virtual time takes no CPU time, so the function returns 0.
        """
        cpu, thread = self.cpu, threading.get_ident()
        began = cpu()
        return lambda: cpu() - began if threading.get_ident() == thread else None


def hold_time(loop: asyncio.AbstractEventLoop, reason: str) -> Callable[[], None]:
    """Keep virtual time still until the returned function is called, because a process works. A real loop has no such need."""
    hold = getattr(loop, "hold_time", None)
    if hold is None:
        return _do_nothing
    release: Callable[[], None] = hold(reason).release
    return release


def _do_nothing() -> None:
    """Release the time of a real loop."""
