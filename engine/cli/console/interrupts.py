"""Handles SIGINT and SIGTERM in a terminal session (RUN-3).

The first signal drains the run, the second signal stops it at once, and the third signal ends the process.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
MOST_HANDLED_SIGNALS: Final = 2
"""Number of handled signals. The next signal ends the process without cleanup."""
BLOCKED_LOOP_SECS: Final = 1.0
"""Time for the event loop to handle the second signal. After this time the process ends, because a component blocks the loop."""
STOPPED: Final = 130
"""Exit status after the second signal."""


class Interrupts:
    """Context manager that handles the signals and restores the previous handlers at its exit.

    The handlers are set by `signal.signal`, not by the event loop, so they also run while a component blocks the loop. If the next signal
    arrives before the loop has handled the previous one, the handler raises KeyboardInterrupt in the running code. Does nothing outside the
    main thread.
    """

    def __init__(self) -> None:
        self.count = 0
        self._handled = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._steps: tuple[Callable[[], object], ...] = ()
        self._before: dict[int, Any] = {}

    def attach(self, loop: asyncio.AbstractEventLoop, *, drain: Callable[[], object], stop: Callable[[], object]) -> None:
        """Set the functions that the first and the second signal call on the loop."""
        self._loop, self._steps = loop, (drain, stop)

    def detach(self) -> None:
        """Let every later signal raise KeyboardInterrupt, because the loop is about to end."""
        self._loop = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._receive) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: the handler was set outside Python

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > MOST_HANDLED_SIGNALS:
            _exit_now()  # the run did not stop: a thread never returns, or a component swallows the cancellation
        if self._loop is None or self._handled < self.count - 1:
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self._handle)
        if self.count == MOST_HANDLED_SIGNALS:
            watch = threading.Timer(BLOCKED_LOOP_SECS, self._exit_if_blocked)
            watch.daemon = True
            watch.start()

    def _exit_if_blocked(self) -> None:
        if self._handled < MOST_HANDLED_SIGNALS and self._loop is not None:
            _exit_now()

    def _handle(self) -> None:
        step = self._steps[self._handled]
        self._handled += 1
        step()


def _exit_now() -> None:
    """End the process without cleanup, except that the cursor is shown again, because a live table hides the cursor."""
    with suppress(OSError):  # the terminal may be gone
        if os.isatty(2):
            os.write(2, b"\x1b[?25h\n")
    os._exit(STOPPED)
