"""One child process from its start to its end, as the engine's process holds it: nothing here blocks the loop."""

import asyncio
import copy
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from engine.errors import EngineBug, EngineError
from engine.in_thread import in_thread
from spark_bridge.session import carrying, launch, wire
from spark_bridge.session.config import SparkConfig
from spark_bridge.session.deaths import died, refused, silent
from spark_bridge.session.errors import SparkDied, SparkError

CANCEL_SECS: Final = 10.0
"""How long a cancelled call is waited for."""
GROUP_SECS: Final = 5.0
"""How long the JVM may outlive the Python that it served."""
_LOOK_EVERY_SECS: Final = 0.05
_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class Pending:
    """A call that has not been answered."""

    reply: "asyncio.Future[tuple[str, Any]]"
    on_event: Callable[[Any], None] | None
    heard: list[BaseException] = field(default_factory=list)
    """What `on_event` raised: the first, and only it."""


class Life:
    """A child that runs, or has ended: then `ended` says by what. Of each death all calls get an error of their own."""

    def __init__(self, config: SparkConfig, log: str, pool: ThreadPoolExecutor) -> None:
        self._config = config
        self._log = log
        self._pool = pool
        self._pending: dict[int, Pending] = {}
        self._last = 0
        self._launched: launch.Launched | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._told: str | None = None
        """What the child said it is dying of."""
        self._closing = False
        self.ended: EngineError | None = None
        self.is_over = False
        """True once the child says no more; `ended` follows when all is known of its death."""
        self.counted = False
        """True once its failure was counted."""
        self.facts: dict[str, Any] = {}
        """`pid`, `jvm_pid`, `version`, `application`, `ui`."""

    async def start(self) -> None:
        """Return when its session is there; raise SparkMissing, SparkUnavailable or SparkDied. To be closed in any case."""
        ours, theirs = socket.socketpair()
        try:
            self._launched = await in_thread(self._pool, lambda: launch.launch(self._config, self._log, theirs))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._send("start", 0, self._config.as_plain())
        self._reading = asyncio.create_task(self._read(reader))
        done, _ = await asyncio.wait([self._ready], timeout=self._config.start_timeout_secs)
        if not done:
            raise silent(self._config, self._log, await self._tail())
        self.facts = self._ready.result()

    async def call(self, packed: bytes, on_event: Callable[[Any], None] | None, stop: asyncio.Event | None) -> Any:
        """Have the child call what was packed; return what comes back, raise SparkError or SparkDied."""
        if self.ended is not None:
            raise copy.copy(self.ended)
        self._last += 1
        number, pending = self._last, Pending(asyncio.get_running_loop().create_future(), on_event)
        self._pending[number] = pending
        stopping = None if stop is None else asyncio.create_task(self._pass_on(stop, number))
        try:
            self._send("call", number, packed)
            await self._drain()
            kind, content = await asyncio.shield(pending.reply)
        except asyncio.CancelledError:
            await self._cancel(number, pending)
            raise
        finally:
            if stopping is not None:
                stopping.cancel()
        if pending.heard:
            raise pending.heard[0]
        if kind == "error":
            raise SparkError(content.message, condition=content.condition, place=content.place, hint=content.hint)
        return await self.in_thread(lambda: carrying.loads(content))

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Call what takes its time beside the loop."""
        return await in_thread(self._pool, work)

    async def close(self) -> None:
        """End the session, the JVM and the process, within `stop_timeout_secs` and a few seconds."""
        self._closing = True
        if self.ended is None and self._writer is not None:
            self._send("stop", 0, None)
        if self._launched is not None:
            await self._end(self._config.stop_timeout_secs)
        if self._reading is not None:
            await asyncio.wait([self._reading])
        if not self._ready.done():
            self._ready.cancel()

    # Calls

    async def _pass_on(self, stop: asyncio.Event, number: int) -> None:
        await stop.wait()
        self._send("stop-call", number, None)

    async def _cancel(self, number: int, pending: Pending) -> None:
        """Cancel a call, and wait until its function has ended: what it works on may be removed then."""
        if self.ended is None and not pending.reply.done():
            self._send("cancel", number, None)
            await asyncio.wait([pending.reply], timeout=CANCEL_SECS)

    # The wire

    def _send(self, kind: str, number: int, content: Any) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(wire.pack((kind, number, content)))

    async def _drain(self) -> None:
        if self._writer is not None:
            try:
                await self._writer.drain()
            except ConnectionError:
                return  # the reader finds out, and says why

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Take in what the child says until it ends."""
        try:
            while True:
                (length,) = wire.HEADER.unpack(await reader.readexactly(wire.HEADER.size))
                await self._take(wire.unpack(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            await self._has_ended()
        finally:
            if self._writer is not None:
                self._writer.close()

    async def _take(self, message: wire.Message) -> None:
        kind, number, content = message
        if kind == "ready":
            self._resolve_ready(content)
        elif kind == "refused":
            self._resolve_ready(refused(self._config, content, self._log, await self._tail()))
        elif kind == "died":
            self._told = content
        elif kind == "event":
            await self._hear(number, content)
        elif kind in ("result", "error"):
            pending = self._pending.pop(number, None)
            if pending is not None and not pending.reply.done():
                pending.reply.set_result((kind, content))
        else:
            raise EngineBug("Spark's process said what nobody knows", kind=kind)

    async def _hear(self, number: int, content: bytes) -> None:
        pending = self._pending.get(number)
        if pending is None or pending.on_event is None or pending.heard:
            return
        event = await self.in_thread(lambda: carrying.loads(content))
        try:
            pending.on_event(event)
        except Exception as error:  # noqa: BLE001 - raised where the call is awaited
            pending.heard.append(error)
            self._send("cancel", number, None)

    def _resolve_ready(self, outcome: dict[str, Any] | EngineError) -> None:
        if self._ready.done():
            return
        if isinstance(outcome, EngineError):
            self._ready.set_exception(outcome)
            self._ready.exception()
        else:
            self._ready.set_result(outcome)

    # The end

    async def _has_ended(self) -> None:
        """The child is gone: say so to all that wait for it."""
        self.is_over, closing = True, self._closing
        status = await self._end(GROUP_SECS)
        if closing:
            self.ended = SparkDied("Spark's process was closed")
        else:
            self.ended = died(self._config, self._told, status, self._log, await self._tail())
        self._resolve_ready(self.ended)
        pending, self._pending = self._pending, {}
        for each in pending.values():
            if not each.reply.done():
                each.reply.set_exception(copy.copy(self.ended))
                each.reply.exception()

    async def _end(self, secs: float) -> int:
        """Wait for the process and its group, kill what is left, and remove what is temporary."""
        launched = self._launched
        assert launched is not None
        loop = asyncio.get_running_loop()
        status = await asyncio.shield(loop.run_in_executor(self._pool, launch.end, launched, secs))
        for _ in range(int(GROUP_SECS / _LOOK_EVERY_SECS)):
            if not launch.is_alive(launched):
                break
            await asyncio.sleep(_LOOK_EVERY_SECS)
        launch.kill_group(launched)
        await self.in_thread(lambda: launch.clear(launched))
        return status

    async def _tail(self) -> str:
        return await self.in_thread(lambda: launch.tail(self._log))
