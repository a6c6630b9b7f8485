"""Signals of a run in a terminal: the first SIGINT or SIGTERM drains, the second stops now, the third ends the process (RUN-3)."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
PATIENCE: Final = 2
"""So many signals are asked for politely."""
HELD_LOOP_SECS: Final = 1.0
"""After the second signal: where the loop has not taken it up by then, a component holds it, and the process ends."""
STOPPED: Final = 130
"""The exit status after the second signal."""


class Interrupts:
    """Takes the signals while it is entered, and gives them back as they were.

    Handlers of Python, not of the loop, so that they come also while a component holds the loop: if the loop has not
    taken up the one signal when the next one comes, KeyboardInterrupt is raised in whatever runs. In another thread
    than the main one, no signal is touched.
    """

    def __init__(self) -> None:
        self.count = 0
        self._taken_up = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._steps: tuple[Callable[[], object], ...] = ()
        self._before: dict[int, Any] = {}

    def attach(self, loop: asyncio.AbstractEventLoop, *, drain: Callable[[], object], stop: Callable[[], object]) -> None:
        """Say what the first and the second signal call, on the loop."""
        self._loop, self._steps = loop, (drain, stop)

    def detach(self) -> None:
        """From now on a signal raises KeyboardInterrupt: the loop is about to end."""
        self._loop = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._receive) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: it was set outside Python

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > PATIENCE:
            _leave()  # what was to stop does not: a thread that never returns, a component that swallows it
        if self._loop is None or self._taken_up < self.count - 1:
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self._take_up)
        if self.count == PATIENCE:
            watch = threading.Timer(HELD_LOOP_SECS, self._leave_if_held)
            watch.daemon = True
            watch.start()

    def _leave_if_held(self) -> None:
        if self._taken_up < PATIENCE and self._loop is not None:
            _leave()

    def _take_up(self) -> None:
        step = self._steps[self._taken_up]
        self._taken_up += 1
        step()


def _leave() -> None:
    """End the process as it stands, but with the cursor, which a live table hides."""
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")
    os._exit(STOPPED)
