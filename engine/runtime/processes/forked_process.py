"""`ForkedProcess` is a child of the fork server. The system tells its end, and the server only its status."""

import asyncio
import os
import select
import signal
import struct
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Final

ANSWER: Final = struct.Struct("!i")
"""Message of the fork server about a process: its id, or the negative error number of a fork that failed. Later the status of its end."""
_STATUS_SECS: Final = 1.0
"""Longest wait for the status of a process that has ended. A fork server that hangs does not tell it."""
_ASK_SECS: Final = 0.1
"""Time between two looks for a process that has lost its fork server, on a system without pidfd."""
RUNNING: Final[set["ForkedProcess"]] = set()
"""Processes whose end is not known."""


class ForkedProcess:
    """A process that another one has forked for this one."""

    def __init__(self, name: str, pid: int, pidfd: int | None, answers: int) -> None:
        """pidfd: None on a system without. answers: socket to the fork server, which sends the status and hangs up."""
        self.name = name
        self.pid = pid
        self.status: int | None = None
        """Status of its end: that of `exit`, or the negative number of a signal. None if nobody knows it."""
        self.has_ended = False
        self._pidfd = pidfd
        self._answers = answers
        self._has_server = True
        self._late: asyncio.TimerHandle | None = None
        self._close = weakref.finalize(self, _close_all, [answers] if pidfd is None else [answers, pidfd])
        self._close.atexit = False  # a process that still runs at the end of this one is killed by its pidfd
        RUNNING.add(self)

    @property
    def is_running(self) -> bool:
        """True until the process has ended, also before anybody has noticed it."""
        if self.has_ended:
            return False
        if self._pidfd is None:
            return _exists(self.pid)
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        return not ended.poll(0)

    def kill(self) -> None:
        """Kill the process. Has no effect if it has ended."""
        if self.has_ended:
            return
        with suppress(ProcessLookupError):
            if self._pidfd is None:
                os.kill(self.pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def watch(self, loop: asyncio.AbstractEventLoop, on_end: Callable[[], None]) -> None:
        """Call `on_end` once when the process has ended. Its status is known then, if it will ever be."""
        self._loop, self._on_end = loop, on_end
        loop.add_reader(self._answers, self._read_status)
        if self._pidfd is not None:
            loop.add_reader(self._pidfd, self._note_exit)

    def _read_status(self) -> None:
        self._loop.remove_reader(self._answers)
        answer = os.read(self._answers, ANSWER.size)
        if len(answer) == ANSWER.size:
            (self.status,) = ANSWER.unpack(answer)
            self._note_end()
        else:
            self._has_server = False
            if self._pidfd is None:
                self._ask()
            elif self._late is not None:
                self._note_end()

    def _note_exit(self) -> None:
        assert self._pidfd is not None
        self._loop.remove_reader(self._pidfd)
        self._late = self._loop.call_later(_STATUS_SECS if self._has_server else 0, self._note_end)

    def _ask(self) -> None:
        """Look for the process again and again, because its fork server has ended."""
        if _exists(self.pid):
            self._late = self._loop.call_later(_ASK_SECS, self._ask)
        else:
            self._note_end()

    def _note_end(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._loop.remove_reader(self._answers)
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            if self.status is None:
                self.status = _adopted_status(self._pidfd)
        self.has_ended = True
        RUNNING.discard(self)
        self._close()
        self._on_end()


def forget_ended() -> None:
    """Drop the processes that have ended while nobody watched them, such as those of an event loop that is closed."""
    for process in list(RUNNING):
        if not process.is_running:
            RUNNING.discard(process)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _adopted_status(pidfd: int) -> int | None:
    """Return the status if this process has adopted the one that has ended, as the first process of a container does."""
    try:
        found = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except OSError:  # the child of another process
        return None
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _close_all(numbers: list[int]) -> None:
    for number in numbers:
        os.close(number)
