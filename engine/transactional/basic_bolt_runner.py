"""Runner of a BasicBolt, with one instance for all attempts. Emitted tuples belong to the batch of the input (TX-5, TX-6)."""

import functools
from collections.abc import Callable, Iterable
from concurrent import futures
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from engine.api import BasicBolt, Tuple, Values, call_kind
from engine.api.basic_results import Emission, emit_recorded, emit_result, record_result
from engine.cancellation import CALL_ERRORS, was_cancelled
from engine.errors import UsageError
from engine.in_thread import begin_in_thread
from engine.kernel import BatchEmitter, TaskBatch
from engine.names import DEFAULT_STREAM, POOL_NAME
from engine.safe_text import safe_repr
from engine.transactional.batch_runner import BatchRunner, BoltWiring, OpenAttempt, call_timeout


@dataclass(slots=True)
class _Call:
    """An `async` call, or a call in a thread. A call in a thread records its emits, and the loop's thread sends them."""

    batch: TaskBatch
    recorded: list[Emission] | None = None


_CALL: ContextVar[_Call | None] = ContextVar("_CALL", default=None)


class BasicBoltRunner(BatchRunner):
    """Runs a user's BasicBolt, which has nothing to do at the end of a batch."""

    def __init__(self, wiring: BoltWiring) -> None:
        super().__init__(wiring)
        self._bolt: BasicBolt = wiring.spec.factory.create()
        self._threads = wiring.spec.settings.threads
        self._pool: futures.ThreadPoolExecutor | None = None

    @property
    def execute(self) -> Callable[[Any], Any]:
        """The function that the task calls for every tuple. Compiled, unless calls are `async` or run in threads."""
        if not hasattr(self, "feed"):
            self.prepare_feed(emits_results=True)
        return self._execute_later if self._threads or call_kind(self._bolt.execute).is_async else self.feed.execute

    async def prepare(self) -> None:
        bolt = self._bolt
        bolt.context = self.context
        bolt.collector = _BasicCollector(self)
        if self._threads:
            name = f"{POOL_NAME} {self._wiring.spec.component_id}"
            self._pool = futures.ThreadPoolExecutor(self._threads, thread_name_prefix=name)
        result = bolt.prepare()
        if result is not None:
            await result

    def on_drop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def cleanup(self) -> None:
        for attempt in list(self.feed.batches):
            self.feed.drop_batch(attempt)
        self.on_drop()
        result = self._bolt.cleanup()
        if result is not None:
            await result

    def _begin_instance(self, open_attempt: OpenAttempt) -> None:
        rows, execute = open_attempt.rows, self._bolt.execute
        if rows is None or not rows.leaves_out:
            open_attempt.batch.execute_by(execute)
        else:
            open_attempt.batch.execute_by(lambda tup: None if rows.leave_out(tup) else execute(tup))

    def _end_instance(self, open_attempt: OpenAttempt) -> None:
        return None

    def _finish(self, open_attempt: OpenAttempt) -> None:
        self.finished(open_attempt)

    # Calls

    def returned(self, batch: TaskBatch, tup: Tuple, result: object) -> None:
        """Emit from a result of execute that is neither values nor a generator."""
        if not isinstance(result, Iterable) or isinstance(result, (str, bytes)):
            raise self._wrong_result(result)
        emitter = BatchEmitter(batch)
        for values in result:
            emitter.emit(values)

    async def _execute_later(self, tup: Any) -> None:
        """Await one call. Up to `concurrency` or `threads` calls run at once."""
        batch = self.feed.count_received(tup)
        if batch is None:
            return
        rows = self._open_attempts[batch.attempt].rows
        if rows is not None and rows.leave_out(tup):
            self.feed.end_tuple(batch, tup)
            return
        call = _Call(batch, [] if self._pool is not None else None)
        token = _CALL.set(call)
        try:
            async with call_timeout(self.context.config, "execute()"):
                await self._call_of(call, tup)
        except CALL_ERRORS as error:
            if was_cancelled(error):
                raise
            self.call_failed(batch, error, tup)
        finally:
            _CALL.reset(token)
        self.feed.end_tuple(batch, tup)

    async def _call_of(self, call: _Call, tup: Any) -> None:
        if self._pool is None:
            await emit_result(self._bolt.execute(tup), BatchEmitter(call.batch).emit, (), self._wrong_result)
        else:
            await begin_in_thread(self._pool, functools.partial(self._in_pool, call, tup))
            recorded, call.recorded = call.recorded or [], None
            emitter = BatchEmitter(call.batch)
            emit_recorded(recorded, emitter.emit, emitter.emit_direct)

    def _in_pool(self, call: _Call, tup: Tuple) -> None:
        """Run execute in a thread, and record its emits."""
        assert call.recorded is not None
        record_result(self._bolt.execute(tup), call.recorded, self._wrong_result)

    def _wrong_result(self, result: object) -> UsageError:
        where = f"bolt {self._wiring.spec.component_id!r}: execute() returned {safe_repr(result)} ({type(result).__name__})"
        return UsageError(where, hint="A BasicBolt yields or returns tuples of values.")

    def emit_from(self, values: Values, stream: str, task: int | None) -> None:
        """Emit for the running call."""
        call = _CALL.get()
        if call is not None and call.recorded is not None:
            call.recorded.append((values, stream, task))
            return
        batch = self.feed.calling if call is None else call.batch
        if batch is None:
            where = f"bolt {self._wiring.spec.component_id!r} emitted outside execute()"
            raise UsageError(where, hint="Emit in execute(): the tuples of a BasicBolt belong to the batch of its input.")
        emitter = BatchEmitter(batch)
        if task is None:
            emitter.emit(values, stream)
        else:
            emitter.emit_direct(task, values, stream)

    def report(self, error: BaseException) -> None:
        """Report an error of the user's bolt."""
        self.collector.report_error(error)


class _BasicCollector:
    """`self.collector` of a BasicBolt in a transactional topology."""

    def __init__(self, runner: BasicBoltRunner) -> None:
        self._runner = runner

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        self._runner.emit_from(values, stream, None)

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        self._runner.emit_from(values, stream, task)

    def report_error(self, error: BaseException) -> None:
        self._runner.report(error)
