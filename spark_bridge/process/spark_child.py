"""`SparkChild` calls functions in Spark's process. It starts the process on first use, and again after a death (SP-5).

`SharedSpark` and `hold` share one child between all users of an event loop with an equal configuration.
"""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from engine.api import TaskContext
from engine.backoff import Backoff
from engine.clock import Clock
from engine.errors import EngineError, FatalError, UsageError
from engine.in_thread import in_thread
from engine.names import POOL_NAME
from spark_bridge.installation import install_command
from spark_bridge.process import launch, messages, pickling
from spark_bridge.process.config import SparkConfig
from spark_bridge.process.errors import SparkDied, SparkError, SparkMissing
from spark_bridge.process.spark_process import SparkProcess

MAX_CALLS: Final = 64
"""Calls at the same time. Further calls wait."""
THREADS: Final = 4
"""Number of threads for work that would block the loop (pickling, files, start and end of processes)."""
BACKOFF: Final = Backoff(1.0, 30.0)
"""Pauses before another start. After the first failure there is no pause."""


class SparkChild:
    """Calls functions in one child process at a time. Belongs to the loop of its first call. `await close()` ends it.

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
        self._keeps_log = config.log_file is not None
        """True after an error has named the log. The log then stays on disk."""
        self._process: SparkProcess | None = None
        self._starting: asyncio.Task[SparkProcess] | None = None
        self._closing_tasks: set[asyncio.Task[None]] = set()
        self._call_slots: asyncio.Semaphore | None = None
        self._closed = False
        self._failures = 0
        """Failed starts and deaths since the last call that returned."""
        self._not_before = 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """`pid`, `jvm_pid`, `version`, `application` and `ui` of the running child. Empty without one."""
        return dict(self._process.facts) if self._process is not None and not self._process.has_exited else {}

    async def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        on_event: Callable[[Any], None] | None = None,
        timeout: float | None = None,
        stop: asyncio.Event | None = None,
    ) -> Any:
        """Call `function(spark, call, *arguments)` in Spark's process and return its result. Each call runs in its own thread.

        `on_event` is called on the loop with each value of `call.emit(...)`. When `stop` is set, `call.stopping` becomes True there.
        On cancellation, or after `timeout` seconds, the Spark jobs of the call are cancelled. Raises SparkError for an error of the
        function, SparkDied after a death, and SparkUnavailable or SparkMissing if Spark cannot start. Arguments and results are pickled,
        at most 16 MiB each.
        """
        if self._closed:
            raise UsageError("Spark's process was closed", hint="Create a new SparkChild.")
        if self._call_slots is None:
            self._call_slots = asyncio.Semaphore(MAX_CALLS)
        async with self._call_slots:
            pickled = await self._pickle_call(function, arguments)
            try:
                async with asyncio.timeout(timeout) as scope:
                    return await self._call(pickled, on_event, stop)
            except TimeoutError as error:
                if not scope.expired():
                    raise
                raise SparkError(f"{_function_text(function)} did not return within {timeout:g} s, and was cancelled") from error

    async def close(self) -> None:
        """End the session, its JVM and the process within bounded time. Running calls raise SparkDied."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._process is not None:
            await self._process.close()
        if self._closing_tasks:
            await asyncio.wait(self._closing_tasks)
        if self._log is not None and not self._keeps_log:
            await in_thread(self._pool, functools.partial(launch.remove_log, self._log))
        self._pool.shutdown(wait=False)

    async def _call(self, pickled: bytes, on_event: Callable[[Any], None] | None, stop: asyncio.Event | None) -> Any:
        process = await self._running_process()
        try:
            result = await process.call(pickled, on_event, stop)
        except SparkDied:
            self._keeps_log = True
            self._note_failure(process)
            raise
        except SparkError:
            self._failures = 0
            raise
        self._failures = 0
        return result

    async def _pickle_call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
        try:
            pickled = await in_thread(self._pool, lambda: pickling.dumps((function, arguments)))
        except ModuleNotFoundError as error:
            if error.name not in ("pyspark", "pyspark.cloudpickle"):
                raise
            raise pyspark_missing_error() from error
        except Exception as error:
            text = f"{_function_text(function)} cannot be sent to Spark's process: {type(error).__name__}: {error}"
            raise SparkError(text, hint="Open files, connections and locks inside the function, and pass plain values.") from error
        if len(pickled) > messages.MAX_BYTES - 1024:
            text = f"{_function_text(function)} with its arguments is {len(pickled):,} bytes. At most {messages.MAX_BYTES:,} can be sent"
            raise SparkError(text, hint="Put large values into a file, and pass its path.")
        return pickled

    # Starting

    async def _running_process(self) -> SparkProcess:
        """Return the running child, or start one. The start has its own task, because several calls may wait for it."""
        if self._process is not None and not self._process.has_exited:
            return self._process
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(_mark_retrieved)
        return await asyncio.shield(self._starting)

    async def _start(self) -> SparkProcess:
        try:
            clock = Clock.of(asyncio.get_running_loop())
            if self._process is not None:
                self._close_later(self._process)
                self._process = None
            await asyncio.sleep(max(0.0, self._not_before - clock.now()))
            if self._log is None:
                self._log = await in_thread(self._pool, launch.create_log)
            process = SparkProcess(self.config, self._log, self._pool)
            try:
                await process.start()
            except BaseException as error:
                self._keeps_log = self._keeps_log or isinstance(error, EngineError)
                if isinstance(error, EngineError) and not isinstance(error, FatalError):
                    self._note_failure(process)
                self._close_later(process)
                raise
            self._process = process
            return process
        finally:
            self._starting = None

    def _close_later(self, process: SparkProcess) -> None:
        ending = asyncio.create_task(process.close())
        self._closing_tasks.add(ending)
        ending.add_done_callback(self._closing_tasks.discard)

    def _note_failure(self, process: SparkProcess) -> None:
        """Delay the next start with exponential backoff. All calls that fail with one child count as one failure."""
        if process.is_counted:
            return
        process.is_counted = True
        now = Clock.of(asyncio.get_running_loop()).now()
        self._not_before = now + BACKOFF.pause_secs(self._failures)
        self._failures += 1


@dataclass(slots=True, eq=False)
class _SharedChild:
    """A child and the number of its users."""

    child: SparkChild
    users: int = 0


_CHILDREN: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[SparkConfig, _SharedChild]]] = WeakKeyDictionary()
"""Shared children by event loop, because a child belongs to one loop, and a program may have several loops."""


@dataclass(frozen=True)
class SharedSpark:
    """A resource (`await self.resources.opened(SharedSpark(config))`). The last task that closes it ends the child."""

    config: SparkConfig

    async def open(self, context: TaskContext) -> "SparkHold":
        """Return a hold of the child of this configuration. Does not start Spark: the first `call` does."""
        return hold(self.config)


def hold(config: SparkConfig) -> "SparkHold":
    """Return a hold of the child of this configuration on the running loop. The caller must close it."""
    children = _CHILDREN.setdefault(asyncio.get_running_loop(), {})
    shared = children.get(config)
    if shared is None:
        shared = children[config] = _SharedChild(SparkChild(config))
    shared.users += 1
    return SparkHold(config, shared)


class SparkHold:
    """Reference of one user to a shared child."""

    def __init__(self, config: SparkConfig, shared: _SharedChild) -> None:
        self._config = config
        self._shared = shared
        self._closed = False
        self.child = shared.child

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the running child, see `SparkChild.facts`."""
        return self.child.facts

    async def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return `await child.call(...)`."""
        return await self.child.call(function, *arguments, **options)

    async def close(self) -> None:
        """Release the child. The last release ends it."""
        if self._closed:
            return
        self._closed = True
        self._shared.users -= 1
        if self._shared.users == 0:
            children = _CHILDREN[asyncio.get_running_loop()]
            if children.get(self._config) is self._shared:
                del children[self._config]
            await self.child.close()


def pyspark_missing_error() -> SparkMissing:
    """Return the error of an environment without pyspark."""
    hint = f"{install_command('spark')} (for sc:// servers: {install_command('spark-connect')})"
    return SparkMissing("pyspark is not installed", hint=hint)


def _function_text(function: object) -> str:
    return f"{getattr(function, '__qualname__', function)}()"


def _mark_retrieved(starting: "asyncio.Task[SparkProcess]") -> None:
    """Retrieve the exception, so that asyncio logs no warning if all waiting calls were cancelled."""
    if not starting.cancelled():
        starting.exception()
