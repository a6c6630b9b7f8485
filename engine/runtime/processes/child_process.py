"""`ChildProcess` starts, watches and ends the process of one bolt task.

All children come from the `ForkServer`, which has imported the engine. So a start takes some milliseconds.
"""

import asyncio
import atexit
import os
import pickle
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from engine.clock import Clock
from engine.in_thread import in_thread
from engine.raised import headline
from engine.runtime.processes.fork_server import FORK_SERVER
from engine.runtime.processes.forked_process import RUNNING, ForkedProcess
from engine.runtime.processes.frame_link import FrameLink
from engine.runtime.processes.message_reader import MessageReader
from engine.runtime.processes.program_state import ProgramState

CHECKS_PER_TIMEOUT: Final = 4
"""Number of checks without a frame after which a child counts as hanging. A pause of the run itself counts as one check."""
_END_SECS: Final = 5.0
"""Longest wait for the end of a killed process. A process in an uninterruptible system call may take longer."""
_UNREAD_SECS: Final = 0.5
"""Time to read what an ended process has sent. Processes that it has forked may hold its end of the connection open."""


@atexit.register
def _kill_all() -> None:
    """Kill the processes of runs that nobody has closed, and their server."""
    for process in list(RUNNING):
        process.kill()
    FORK_SERVER.end()


class _Starts:
    """The thread on which processes start, one after another."""

    def __init__(self) -> None:
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Begin anew in a process that has been forked. It has no threads and no children."""
        # No POOL_NAME: `engine run` would report its idle thread.
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="start of a process")
        RUNNING.clear()


_STARTS: Final = _Starts()


class ChildDied(Exception):
    """The process of a task has ended, or it hangs."""


class ChildProcess:
    """The process of one instance of a bolt task. Its messages are tuples that begin with their kind."""

    def __init__(
        self,
        process: ForkedProcess,
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
        self._reader = MessageReader(self._pass_on, lambda frame: self.link.send(pickle.dumps(("take_apart", frame), 5)))
        self._is_ended = False
        self._frames = 0
        self._heard_at = self._now()
        self._watch: asyncio.TimerHandle | None = None
        self._reason: str | None = None
        """Why this end has killed the process."""
        self._explaining: asyncio.Task[None] | None = None
        self._gone: asyncio.Future[None] = loop.create_future()
        process.watch(loop, self._note_gone)

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
        child: ChildProcess | None = None
        forked: list[tuple[socket.socket, ForkedProcess]] = []
        try:
            await in_thread(_STARTS.pool, lambda: forked.append(FORK_SERVER.fork(name)))
            [(connection, process)] = forked
            child = cls(process, loop, on_message, on_end)
            connection.setblocking(False)
            await loop.create_unix_connection(lambda: child.link, sock=connection)
            child.link.send(pickle.dumps(ProgramState.now(name), 5))
            child.link.send(plan)
        except BaseException:
            if child is not None:
                child.abandon()  # else its end would count as the end of the next one
            _STARTS.pool.submit(_drop, forked)  # behind the start, which may still run
            raise
        return child

    @property
    def pid(self) -> int:
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
        self._process.kill()

    def abandon(self) -> None:
        """Kill the process, and hear no more of it."""
        self._is_ended = True
        self._on_message = self._on_end = _hear_nothing  # a process may be watched for longer than its run exists
        for pending in (self._watch, self._explaining):
            if pending is not None:
                pending.cancel()
        self.link.abort()
        self._process.kill()

    async def end(self) -> None:
        """Kill the process if it still runs, and wait for its end."""
        self.abandon()
        await self.wait(_END_SECS)

    async def wait(self, secs: float) -> bool:
        """Wait until the process has ended, at most `secs`. Return True if it has."""
        await asyncio.wait([self._gone], timeout=secs)
        return self._gone.done()

    def _note_gone(self) -> None:
        self._gone.set_result(None)
        self.link.read_rest()  # else its death would be noticed only when the run may emit again
        self._loop.call_later(_UNREAD_SECS, self.link.abort)

    def _receive(self, frame: bytes) -> None:
        self._frames += 1
        self._heard_at = self._now()
        self._reader.read(frame)

    def _pass_on(self, message: tuple[Any, ...]) -> None:
        if self._is_ended:
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
            self._on_end(self._reason or f"its process {self.pid} {_ended_text(self._process.status)}")


def _hear_nothing(told: object) -> None:
    """Take what a process tells that nobody waits for any more."""


def _drop(forked: list[tuple[socket.socket, ForkedProcess]]) -> None:
    """End a process that nobody waits for any more."""
    for connection, process in forked:
        connection.close()
        process.kill()


def _ended_text(status: int | None) -> str:
    if status is None:
        return "ended, with a status that nobody knows because the fork server has ended or hangs"
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
