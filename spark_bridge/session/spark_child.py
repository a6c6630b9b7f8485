"""`SparkChild`: functions are called in Spark's process, which is started when it is needed, and again when it has died (SP-5)."""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from engine.clock import Clock
from engine.errors import EngineError, FatalError, UsageError
from engine.in_thread import in_thread
from engine.names import POOL_NAME
from spark_bridge.session import carrying, launch, wire
from spark_bridge.session.config import SparkConfig
from spark_bridge.session.errors import SparkDied, SparkError, SparkMissing
from spark_bridge.session.life import Life

MOST_CALLS: Final = 64
"""At once; the next ones wait."""
THREADS: Final = 4
"""For what would hold up the loop: pickling, files, the start and the end of processes."""
FIRST_PAUSE_SECS: Final = 1.0
LONGEST_PAUSE_SECS: Final = 30.0


class SparkChild:
    """One child process at a time. Belongs to the loop that it is first used on; `await close()` ends it.

    >>> async def count(config):
    ...     child = SparkChild(config)
    ...     try:
    ...         return await child.call(lambda spark, call, n: spark.range(n).count(), 1000)
    ...     finally:
    ...         await child.close()
    """

    def __init__(self, config: SparkConfig) -> None:
        self.config = config
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix=f"{POOL_NAME} spark")
        self._log = config.log_file
        self._log_is_named = config.log_file is not None
        """True where an error has named it: then it stays."""
        self._life: Life | None = None
        self._starting: asyncio.Task[Life] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._room: asyncio.Semaphore | None = None
        self._closed = False
        self._failures = 0
        """Starts that failed, and deaths, since a call has last come back."""
        self._not_before = 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """`pid`, `jvm_pid`, `version`, `application` and `ui` of the child that runs; empty where none does."""
        return dict(self._life.facts) if self._life is not None and not self._life.is_over else {}

    async def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        on_event: Callable[[Any], None] | None = None,
        timeout: float | None = None,
        stop: asyncio.Event | None = None,
    ) -> Any:
        """Return what `function(spark, call, *arguments)` returns there, in a thread of its own; several calls run at once.

        `on_event` is called on the loop with what `call.emit(...)` gives there; `stop`, once set, shows there as `call.stopping`.
        Cancelled, or after `timeout` seconds, its Spark jobs are cancelled. Raises SparkError for what the function raised, SparkDied when
        Spark died, SparkUnavailable or SparkMissing where it cannot be started. What goes there and comes back is pickled, at most 16 MiB.
        """
        if self._closed:
            raise UsageError("Spark's process was closed", hint="Make another SparkChild.")
        if self._room is None:
            self._room = asyncio.Semaphore(MOST_CALLS)
        async with self._room:
            packed = await self._pack(function, arguments)
            try:
                async with asyncio.timeout(timeout) as scope:
                    return await self._call(packed, on_event, stop)
            except TimeoutError as error:
                if not scope.expired():
                    raise
                raise SparkError(f"{_name(function)} did not return within {timeout:g} s, and was cancelled") from error

    async def close(self) -> None:
        """End the session, its JVM and the process, within bounded time; calls that go on fail."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._life is not None:
            await self._life.close()
        if self._ending:
            await asyncio.wait(self._ending)
        if self._log is not None and not self._log_is_named:
            await in_thread(self._pool, functools.partial(launch.remove_log, self._log))
        self._pool.shutdown(wait=False)

    async def _call(self, packed: bytes, on_event: Callable[[Any], None] | None, stop: asyncio.Event | None) -> Any:
        life = await self._alive()
        try:
            result = await life.call(packed, on_event, stop)
        except SparkDied:
            self._log_is_named = True
            self._note_failure(life)
            raise
        except SparkError:
            self._failures = 0
            raise
        self._failures = 0
        return result

    async def _pack(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
        try:
            packed = await in_thread(self._pool, lambda: carrying.dumps((function, arguments)))
        except ModuleNotFoundError as error:
            if error.name not in ("pyspark", "pyspark.cloudpickle"):
                raise
            raise no_pyspark() from error
        except Exception as error:
            text = f"{_name(function)} cannot be sent to Spark's process: {type(error).__name__}: {error}"
            raise SparkError(text, hint="Open files, connections and locks inside of it, and give it plain values.") from error
        if len(packed) > wire.MOST_BYTES - 1024:
            text = f"{_name(function)} with its arguments is {len(packed):,} bytes; at most {wire.MOST_BYTES:,} are sent to Spark's process"
            raise SparkError(text, hint="Put large things into a file, and give it the path.")
        return packed

    # Starting

    async def _alive(self) -> Life:
        """Return the child that runs; start one where none does. It is started in a task of its own, for all that wait for it."""
        if self._life is not None and not self._life.is_over:
            return self._life
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(_retrieve)
        return await asyncio.shield(self._starting)

    async def _start(self) -> Life:
        try:
            clock = Clock.of(asyncio.get_running_loop())
            if self._life is not None:
                self._end(self._life)
                self._life = None
            await asyncio.sleep(max(0.0, self._not_before - clock.now()))
            if self._log is None:
                self._log = await in_thread(self._pool, launch.new_log)
            life = Life(self.config, self._log, self._pool)
            try:
                await life.start()
            except BaseException as error:
                self._log_is_named = self._log_is_named or isinstance(error, EngineError)
                if isinstance(error, EngineError) and not isinstance(error, FatalError):
                    self._note_failure(life)
                self._end(life)
                raise
            self._life = life
            return life
        finally:
            self._starting = None

    def _end(self, life: Life) -> None:
        ending = asyncio.create_task(life.close())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _note_failure(self, life: Life) -> None:
        """The next start waits, the longer the more often it fails; the calls of one child that died count once."""
        if life.counted:
            return
        life.counted = True
        now = Clock.of(asyncio.get_running_loop()).now()
        self._not_before = now + (min(FIRST_PAUSE_SECS * 2 ** (self._failures - 1), LONGEST_PAUSE_SECS) if self._failures else 0.0)
        self._failures += 1


def no_pyspark() -> SparkMissing:
    """Return the error of an environment without Spark."""
    return SparkMissing("pyspark is not installed", hint="pip install 'stormcell[spark]' (for sc:// servers: 'stormcell[spark-connect]').")


def _name(function: object) -> str:
    return f"{getattr(function, '__qualname__', function)}()"


def _retrieve(starting: "asyncio.Task[Life]") -> None:
    """Nobody may wait for it any more: asyncio is not to complain of what it raised."""
    if not starting.cancelled():
        starting.exception()
