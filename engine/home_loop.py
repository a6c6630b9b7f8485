"""The event loop that an object belongs to. A call from elsewhere raises before it takes effect."""

import asyncio
import threading

from engine.errors import UsageError


class HomeLoop:
    """The loop that first uses an object, and its thread. asyncio's objects are safe only there."""

    __slots__ = ("_loop", "_thread")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def adopt_running(self) -> None:
        """Belong to the running loop from now on, unless there is a loop already."""
        if self._loop is None:
            self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def check(self, call: str, *, is_async: bool = False) -> None:
        """Raise UsageError if the caller is on another thread or another loop. `call` is the method as its user writes it, `run.stop()`.

        An object that has no loop yet may be used anywhere. So may one of the same thread between two runs of its loop.
        """
        if self._loop is None:
            return
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if threading.get_ident() == self._thread and running in (None, self._loop):
            return
        method, _, arguments = call.removesuffix(")").partition("(")
        hint = f"asyncio.run_coroutine_threadsafe({call}, loop)"
        if not is_async:
            hint = f"loop.call_soon_threadsafe({', '.join(filter(None, (method, arguments)))})"
        raise UsageError(
            f"{call} was called outside the event loop of its run, and had no effect",
            hint=f"The run belongs to the loop and the thread that entered it. From elsewhere, call {hint}.",
        )
