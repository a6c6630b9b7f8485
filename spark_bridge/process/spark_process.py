"""One child process, from its start to its end, in the engine's process. No function here blocks the loop."""

import asyncio
import copy
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from engine.errors import EngineBug, EngineError
from engine.forks import unshare
from engine.in_thread import in_thread
from spark_bridge.process import launch, messages, pickling
from spark_bridge.process.config import SparkConfig
from spark_bridge.process.errors import SparkDied, SparkError, death_error, start_error, start_timeout_error

CANCEL_SECS: Final = 10.0
"""Longest wait for the end of a cancelled call."""
GROUP_EXIT_SECS: Final = 5.0
"""Time for the JVM to end after the Python process that it serves."""
_POLL_SECS: Final = 0.05
_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class PendingCall:
    """A call without a reply so far."""

    reply: "asyncio.Future[tuple[str, Any]]"
    on_event: Callable[[Any], None] | None
    listener_errors: list[BaseException] = field(default_factory=list)
    """The first error of `on_event`. Later events are dropped, so there is at most one."""


class SparkProcess:
    """A child process, running or ended. Each call gets its own copy of the error `exit_error`."""

    def __init__(self, config: SparkConfig, log: str, pool: ThreadPoolExecutor) -> None:
        self._config = config
        self._log = log
        self._pool = pool
        self._pending: dict[int, PendingCall] = {}
        self._last_number = 0
        self._launched: launch.LaunchedChild | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._death_report: str | None = None
        """The child's last message, which has the cause of its death."""
        self._closing = False
        self.exit_error: EngineError | None = None
        self.has_exited = False
        """True after the child closed its socket. `exit_error` follows when the exit status is known."""
        self.is_counted = False
        """True after its failure was counted."""
        self.facts: dict[str, Any] = {}
        """`pid`, `jvm_pid`, `version`, `application`, `ui`."""

    async def start(self) -> None:
        """Start the child, and return when its session is open. The caller must close it, also after an error.

        Raises SparkMissing, SparkUnavailable or SparkDied.
        """
        ours, theirs = socket.socketpair()
        unshare(ours, theirs)  # the child ends when its socket hangs up, and a forked process may outlive the run
        try:
            self._launched = await in_thread(self._pool, lambda: launch.launch_child(self._config, self._log, theirs))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._send_message("start", 0, self._config.as_plain())
        self._reading = asyncio.create_task(self._read_messages(reader))
        done, _ = await asyncio.wait([self._ready], timeout=self._config.start_timeout_secs)
        if not done:
            raise start_timeout_error(self._config, self._log, await self._log_tail())
        self.facts = self._ready.result()

    async def call(self, pickled: bytes, on_event: Callable[[Any], None] | None, stop: asyncio.Event | None) -> Any:
        """Call a pickled function in the child and return its result. Raises SparkError or SparkDied."""
        if self.exit_error is not None:
            raise copy.copy(self.exit_error)
        self._last_number += 1
        number, pending = self._last_number, PendingCall(asyncio.get_running_loop().create_future(), on_event)
        self._pending[number] = pending
        forwarding = None if stop is None else asyncio.create_task(self._forward_stop(stop, number))
        try:
            self._send_message("call", number, pickled)
            await self._drain_writer()
            kind, content = await asyncio.shield(pending.reply)
        except asyncio.CancelledError:
            await self._cancel_call(number, pending)
            raise
        finally:
            if forwarding is not None:
                forwarding.cancel()
        if pending.listener_errors:
            raise pending.listener_errors[0]
        if kind == "error":
            raise SparkError(content.message, condition=content.condition, place=content.place, hint=content.hint)
        return await self._run_in_thread(lambda: pickling.loads(content))

    async def close(self) -> None:
        """End the session, the JVM and the process, within `stop_timeout_secs` and a few seconds."""
        self._closing = True
        if self.exit_error is None and self._writer is not None:
            self._send_message("stop", 0, None)
        if self._launched is not None:
            await self._end_group(self._config.stop_timeout_secs)
        if self._reading is not None:
            await asyncio.wait([self._reading])
        if not self._ready.done():
            self._ready.cancel()

    async def _run_in_thread(self, work: Callable[[], _T]) -> _T:
        return await in_thread(self._pool, work)

    # Calls

    async def _forward_stop(self, stop: asyncio.Event, number: int) -> None:
        await stop.wait()
        self._send_message("stop-call", number, None)

    async def _cancel_call(self, number: int, pending: PendingCall) -> None:
        """Cancel a call, and wait until its function has ended. The caller may remove the function's files after that."""
        if self.exit_error is None and not pending.reply.done():
            self._send_message("cancel", number, None)
            await asyncio.wait([pending.reply], timeout=CANCEL_SECS)

    # Messages

    def _send_message(self, kind: str, number: int, content: Any) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(messages.encode_frame((kind, number, content)))

    async def _drain_writer(self) -> None:
        if self._writer is not None:
            try:
                await self._writer.drain()
            except ConnectionError:
                return  # the reading task gets the same error, and sets the cause

    async def _read_messages(self, reader: asyncio.StreamReader) -> None:
        """Handle the child's messages until it ends."""
        try:
            while True:
                (length,) = messages.HEADER.unpack(await reader.readexactly(messages.HEADER.size))
                await self._handle_message(messages.decode_body(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            await self._note_exit()
        finally:
            if self._writer is not None:
                self._writer.close()

    async def _handle_message(self, message: messages.Message) -> None:
        kind, number, content = message
        if kind == "ready":
            self._resolve_ready(content)
        elif kind == "refused":
            self._resolve_ready(start_error(self._config, content, self._log, await self._log_tail()))
        elif kind == "died":
            self._death_report = content
        elif kind == "event":
            await self._deliver_event(number, content)
        elif kind in ("result", "error"):
            pending = self._pending.pop(number, None)
            if pending is not None and not pending.reply.done():
                pending.reply.set_result((kind, content))
        else:
            raise EngineBug("Spark's process sent a message of an unknown kind", kind=kind)

    async def _deliver_event(self, number: int, content: bytes) -> None:
        pending = self._pending.get(number)
        if pending is None or pending.on_event is None or pending.listener_errors:
            return
        event = await self._run_in_thread(lambda: pickling.loads(content))
        try:
            pending.on_event(event)
        except Exception as error:  # noqa: BLE001 - raised by the awaited call
            pending.listener_errors.append(error)
            self._send_message("cancel", number, None)

    def _resolve_ready(self, outcome: dict[str, Any] | EngineError) -> None:
        if self._ready.done():
            return
        if isinstance(outcome, EngineError):
            self._ready.set_exception(outcome)
            self._ready.exception()  # mark the error as retrieved, because a cancelled start no longer awaits it
        else:
            self._ready.set_result(outcome)

    # The end

    async def _note_exit(self) -> None:
        """Find the cause of the exit, and fail all pending calls."""
        self.has_exited, closing = True, self._closing
        status = await self._end_group(GROUP_EXIT_SECS)
        if closing:
            self.exit_error = SparkDied("Spark's process was closed")
        else:
            self.exit_error = death_error(self._config, self._death_report, status, self._log, await self._log_tail())
        self._resolve_ready(self.exit_error)
        pending, self._pending = self._pending, {}
        for call in pending.values():
            if not call.reply.done():
                call.reply.set_exception(copy.copy(self.exit_error))
                call.reply.exception()

    async def _end_group(self, secs: float) -> int:
        """Wait for the process and its group, kill the remaining ones, and remove the temporary folder. Return the status."""
        launched = self._launched
        assert launched is not None
        loop = asyncio.get_running_loop()
        status = await asyncio.shield(loop.run_in_executor(self._pool, launch.wait_or_kill, launched, secs))
        for _ in range(int(GROUP_EXIT_SECS / _POLL_SECS)):
            if not launch.group_is_alive(launched):
                break
            await asyncio.sleep(_POLL_SECS)
        launch.kill_group(launched)
        await self._run_in_thread(lambda: launch.remove_folder(launched))
        return status

    async def _log_tail(self) -> str:
        return await self._run_in_thread(lambda: launch.read_log_tail(self._log))
