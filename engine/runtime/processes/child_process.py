"""`ChildProcess` starts, watches and ends the process of one bolt task.

All children come from the fork server of `multiprocessing`, which has imported the engine. So a start takes some milliseconds.
"""

import asyncio
import atexit
import multiprocessing
import multiprocessing.util  # registers its exit function, which waits for all processes, before `_kill_all` is registered
import os
import pickle
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, Final

from engine.clock import Clock
from engine.forks import unshare
from engine.in_thread import in_thread
from engine.raised import headline
from engine.runtime.processes.child import run_child
from engine.runtime.processes.frame_link import FrameLink
from engine.runtime.processes.polled_process import PolledProcess

CHECKS_PER_TIMEOUT: Final = 4
"""Number of checks without a frame after which a child counts as hanging. A pause of the run itself counts as one check."""
_END_SECS: Final = 5.0
"""Longest wait for the end of a killed process. A process in an uninterruptible system call may take longer."""
_UNREAD_SECS: Final = 0.5
"""Time to read what an ended process has sent. Processes that it has forked may hold its end of the connection open."""
_RUNNING: Final[set[PolledProcess]] = set()
_STARTS: Final = ThreadPoolExecutor(1, thread_name_prefix="start of a process")  # no POOL_NAME: `engine run` would report its idle thread


@atexit.register
def _kill_all() -> None:
    """Kill the processes of runs that nobody has closed. Else `multiprocessing`, which is called later, would wait for them."""
    for process in _RUNNING:
        process.kill()


def _forget_children() -> None:
    """Leave the children to the run, in a process that this process forks."""
    _RUNNING.clear()


os.register_at_fork(after_in_child=_forget_children)


class ChildDied(Exception):
    """The process of a task has ended, or it hangs."""


class ChildProcess:
    """The process of one instance of a bolt task. Its messages are tuples that begin with their kind."""

    def __init__(
        self,
        process: PolledProcess,
        loop: asyncio.AbstractEventLoop,
        on_message: Callable[[tuple[Any, ...]], None],
        on_end: Callable[[str], None],
    ) -> None:
        """on_end: called with the reason when the process has ended although nobody has ended it."""
        self._process = process
        self._loop = loop
        self._now = Clock.of(loop).now
        self._on_message = on_message
        self._on_end = on_end
        self.link = FrameLink(loop, self._receive, self._note_lost)
        self._is_ended = False
        self._frames = 0
        self._heard_at = self._now()
        self._watch: asyncio.TimerHandle | None = None
        self._reason: str | None = None
        """Why this end has killed the process."""
        self._explaining: asyncio.Task[None] | None = None
        self._gone: asyncio.Future[None] = loop.create_future()
        loop.add_reader(process.sentinel, self._note_gone)
        _RUNNING.add(process)

    @classmethod
    async def start(
        cls,
        name: str,
        plan: bytes,
        loop: asyncio.AbstractEventLoop,
        on_message: Callable[[tuple[Any, ...]], None],
        on_end: Callable[[str], None],
    ) -> "ChildProcess":
        """Start a process for a pickled `TaskPlan`. Raises OSError if the system cannot start one."""
        ours, theirs = _connected_sockets()
        child: ChildProcess | None = None
        _preload_engine()
        process = PolledProcess(target=run_child, args=(theirs, _own_pidfd(), plan), name=name)
        begun_or_cancelled = threading.Lock()

        def begin() -> None:
            if not begun_or_cancelled.acquire(blocking=False):
                return
            try:
                process.start()
            finally:
                theirs.close()

        try:
            await in_thread(_STARTS, begin)
            child = cls(process, loop, on_message, on_end)
            ours.setblocking(False)
            await loop.create_unix_connection(lambda: child.link, sock=ours)
        except BaseException:
            ours.close()  # so that the process ends itself
            if begun_or_cancelled.acquire(blocking=False):
                theirs.close()
            if child is not None:
                child.abandon()  # else its end would count as the end of the next one
            raise
        return child

    @property
    def pid(self) -> int | None:
        """The id of the process."""
        return self._process.pid

    @property
    def silent_secs(self) -> float:
        """Time since the last frame. 0 while frames are not read."""
        return 0.0 if self.link.is_held else self._now() - self._heard_at

    def send(self, *message: Any) -> int:
        """Send a message, and return the length of its frame. Raises the error of a value that cannot be pickled."""
        frame = pickle.dumps(message, 5)
        self.link.send(frame)
        return len(frame)

    def watch(self, timeout_secs: float | None) -> None:
        """From now on, kill the process if it sends nothing for `timeout_secs`."""
        if timeout_secs is not None:
            self._check(timeout_secs, self._frames, 0)

    def _check(self, timeout_secs: float, frames: int, silent: int) -> None:
        silent = silent + 1 if self._frames == frames and not self.link.is_held else 0
        if silent > CHECKS_PER_TIMEOUT:
            self.kill(f"its process {self.pid} has hung for {timeout_secs:g} s (process_timeout_secs) and was killed")
        elif not self._is_ended:
            self._watch = self._loop.call_later(timeout_secs / CHECKS_PER_TIMEOUT, self._check, timeout_secs, self._frames, silent)

    def kill(self, reason: str) -> None:
        """Kill the process. `on_end` gets the reason."""
        self._reason = self._reason or reason
        if self._process.exitcode is None:
            self._process.kill()

    def abandon(self) -> None:
        """Kill the process, and hear no more of it."""
        self._is_ended = True
        for pending in (self._watch, self._explaining):
            if pending is not None:
                pending.cancel()
        self.link.abort()
        if self._process.exitcode is None:
            self._process.kill()

    async def end(self) -> None:
        """Kill the process if it still runs, and wait for its end."""
        self.abandon()
        if await self.wait(_END_SECS):
            self._process.close()

    async def wait(self, secs: float) -> bool:
        """Wait until the process has ended, at most `secs`. Return True if it has."""
        await asyncio.wait([self._gone], timeout=secs)
        return self._gone.done()

    def _note_gone(self) -> None:
        if self._process.exitcode is not None and not self._gone.done():
            self._loop.remove_reader(self._process.sentinel)
            _RUNNING.discard(self._process)
            self._gone.set_result(None)
            self.link.read_rest()  # else its death would be noticed only when the run may emit again
            self._loop.call_later(_UNREAD_SECS, self._hang_up)

    def _hang_up(self) -> None:
        """Close the connection of a process that is gone. It still runs if only the fork server has ended, such as by a SIGTERM to all."""
        try:
            os.kill(self._process.pid or 0, 0)
        except (ProcessLookupError, ValueError):  # the latter: the process object is closed
            self.link.abort()

    def _receive(self, frame: bytes) -> None:
        self._frames += 1
        self._heard_at = self._now()
        if self._is_ended:
            return
        try:
            message = pickle.loads(frame)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - code of the values; a SystemExit of theirs must not end the program
            self.kill(f"its process has sent a value that cannot be read here: {headline(error)}")
            return
        try:
            self._on_message(message)
        except Exception as error:  # noqa: BLE001 - else asyncio would close the connection, and this end might never hear of it
            self.kill(f"a message of its process could not be handled: {headline(error)}")

    def _note_lost(self) -> None:
        if not self._is_ended:
            self._explaining = self._loop.create_task(self._explain_end(), name="end of a child process")

    async def _explain_end(self) -> None:
        if self._reason is None and not await self.wait(_END_SECS):
            self.kill(f"its process {self.pid} has closed its connection and was killed")
        if not self._is_ended:
            self._is_ended = True
            self._on_end(self._reason or f"its process {self.pid} {_ended_text(self._process.exitcode)}")


def _connected_sockets() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    unshare(ours, theirs)  # a forked process may outlive the run, and a child ends when its socket hangs up (PR-2)
    return ours, theirs


def _own_pidfd() -> "Connection[Any, Any] | None":
    """Return a pidfd of this process as an object that pickle can send to a child. Return None if the system has no pidfd.

    A child also watches this process itself, because a fork from C code does not call `_forget_children`.
    """
    try:
        return Connection(os.pidfd_open(os.getpid()), writable=False)
    except (AttributeError, OSError):  # no Linux, or a kernel before 5.3
        return None


def _ended_text(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"ended with status {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"


def _preload_engine() -> None:
    """Let the fork server import the engine, so that its children need not. Has no effect on a server that runs."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["__main__", "engine.runtime.processes.child_task"])
