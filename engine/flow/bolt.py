"""`FlowControlBolt` is a bolt that processes the records of a flow-control spout one by one."""

import asyncio
import contextvars
import functools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Any, Final, cast

from engine.api import BasicBolt, CallKind, Tuple, call_kind
from engine.api.arguments import number_within
from engine.api.basic_results import Emission, emit_recorded
from engine.api.bolt import BasicResult, OnBoltError
from engine.api.collector import BasicCollector
from engine.api.fields import Values
from engine.errors import UsageError
from engine.flow.call_limit import CallLimit, DaemonThreads
from engine.flow.records import PackCall, Records
from engine.in_thread import begin_in_thread
from engine.names import DEFAULT_STREAM, POOL_NAME
from engine.safe_text import safe_repr


class FlowControlBolt(BasicBolt):
    """Calls `process` for each record of a pack, in order, and acks the pack when all records are done (FC-1).

    Emits of `process` are anchored to the pack. If `process` raises, the pack fails. The failed record is retried alone, at another task.
    The records before and after it are retried as packs, so the records before it are processed twice.
    """

    takes_packs = True
    on_error: OnBoltError | None = "fail"
    """"fail" keeps the instance after `process` has raised, because the record is retried at another task."""
    call_timeout_secs: float | None = None
    """Seconds that a call of `process` may take if it is async or in `threads` (FC-9).

    None takes `Config.call_timeout_secs`, and math.inf means no limit."""

    _limit: CallLimit | None = None
    _threads: DaemonThreads | None = None

    @abstractmethod
    def process(self, record: Any) -> BasicResult:
        """Process one record.

        Like `BasicBolt.execute`, the method may be a plain function, a generator, a coroutine function or an async generator.
        """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "execute" in vars(cls):
            raise UsageError(
                f"{cls.__name__} is a FlowControlBolt, but defines execute()",
                hint="Define process(record) instead. Or derive from Bolt.",
            )
        _checked_secs(f"{cls.__name__}.call_timeout_secs", cls.call_timeout_secs)
        cls.execute = _EXECUTES[call_kind(cls.process)]  # type: ignore[method-assign, assignment]

    def execute(self, tup: Tuple) -> Iterator[Values]:
        """Call a plain `process` for each record. `__init_subclass__` replaces this method for other kinds of `process`."""
        process, records = self.process, _records(tup)
        left = iter(records)
        try:
            for record in left:
                result = process(record)
                if result is not None:
                    yield from _rows(self, result)
        except BaseException:  # includes GeneratorExit, which means that the emit of the last yielded row failed
            records.mark_failed(left)
            raise

    async def execute_in_threads(self, tup: Tuple) -> None:
        """Run `process` in a thread that can be abandoned. The executor calls this instead of `execute` if `threads` is set."""
        call, limit = PackCall(_records(tup)), self._call_limit()
        limit.check_abandoned()
        if self._threads is None:
            self._threads = DaemonThreads(f"{POOL_NAME} {self.context.component_id}")
            self.collector = cast(BasicCollector, _ThreadCollector(self.collector))
        emits: list[Emission] = []
        working = begin_in_thread(self._threads, functools.partial(_process_in_thread, self, call, emits))
        await limit.wait_for_thread(call, working)
        emit_recorded(emits, self.collector.emit, self.collector.emit_direct)

    def _call_limit(self) -> CallLimit:
        if self._limit is None:
            secs = _checked_secs(f"bolt {self.context.component_id!r}: call_timeout_secs", self.call_timeout_secs)
            self._limit = CallLimit(self.context, secs)
        return self._limit


def _checked_secs(name: str, secs: object) -> float | None:
    number = number_within(secs, 0)
    if secs is None or number:
        return number
    raise UsageError(f"{name} is {secs!r}", hint="Set a number of seconds above 0, math.inf for no limit, or None for the config's.")


def _records(tup: Tuple) -> Records:
    records = tup[0] if not tup.is_tick and len(tup) == 1 else None
    if type(records) is not Records:
        found = "a tick" if tup.is_tick else f"a tuple of {tup.source_component!r}"
        raise UsageError(
            f"a FlowControlBolt got {found}, not a pack of records",
            hint="Subscribe it to a FlowControlSpout by direct_grouping(), and to nothing else. For other inputs derive from Bolt.",
        )
    records.failed_index = None  # of an earlier call, which raised
    return records


# `execute` for the other kinds of `process`


def _execute_generator(self: FlowControlBolt, tup: Tuple) -> Iterator[Values]:
    process: Any = self.process
    records = _records(tup)
    left = iter(records)
    try:
        for record in left:
            yield from process(record)
    except BaseException:
        records.mark_failed(left)
        raise


async def _execute_coroutine(self: FlowControlBolt, tup: Tuple) -> None:
    # An async generator would cost about ten microseconds for each pack, and most of these bolts emit little.
    call = PackCall(_records(tup))
    await self._call_limit().run_coroutine(call, _await_each(self, call))


async def _await_each(self: FlowControlBolt, call: PackCall) -> None:
    process: Any = self.process
    try:
        for record in call.left:
            result = await process(record)
            if call.is_over:
                raise asyncio.CancelledError
            if result is not None:
                for row in _rows(self, result):
                    self.collector.emit(row)
    except BaseException:
        call.mark_failed()
        raise


async def _execute_async_generator(self: FlowControlBolt, tup: Tuple) -> None:
    call = PackCall(_records(tup))
    await self._call_limit().run_coroutine(call, _iterate_each(self, call))


async def _iterate_each(self: FlowControlBolt, call: PackCall) -> None:
    process: Any = self.process
    try:
        for record in call.left:
            async with aclosing(process(record)) as rows:
                async for values in rows:
                    call.raise_if_over()
                    call.yielded += 1
                    self.collector.emit(values)
            call.raise_if_over()
    except BaseException:
        call.mark_failed()
        raise


_EMITS: contextvars.ContextVar[list[Emission] | None] = contextvars.ContextVar("emits", default=None)
"""Recorded emits of the call that runs in this thread. The event loop emits these tuples when the call has returned.

None on the loop's thread.
"""


def _process_in_thread(self: FlowControlBolt, call: PackCall, emits: list[Emission]) -> None:
    _EMITS.set(emits)
    try:
        for record in call.left:
            result = self.process(record)
            if result is not None:
                for row in _rows(self, result):
                    call.yielded += 1
                    emits.append((row, DEFAULT_STREAM, None))
            if call.is_over:
                return
    except BaseException:
        call.mark_failed()
        raise


class _ThreadCollector:
    """Collector of a bolt with threads. Records the emits of a thread, and passes on all other emits."""

    def __init__(self, outer: BasicCollector) -> None:
        self._outer = outer

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        emits = _EMITS.get()
        if emits is None:
            self._outer.emit(values, stream)
        else:
            emits.append((values, stream, None))

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        emits = _EMITS.get()
        if emits is None:
            self._outer.emit_direct(task, values, stream)
        else:
            emits.append((values, stream, task))

    def report_error(self, error: BaseException) -> None:
        self._outer.report_error(error)


def _rows(bolt: FlowControlBolt, result: object) -> Iterator[Values]:
    if isinstance(result, tuple):
        return iter((result,))
    if isinstance(result, Iterable) and not isinstance(result, (str, bytes)):
        return iter(result)
    found = safe_repr(result, 200)
    raise UsageError(
        f"{type(bolt).__name__}.process() must yield or return tuples of values, not {found} ({type(result).__name__})",
        hint="Return (value,) for one tuple. To emit several tuples for a record, yield them.",
    )


_EXECUTES: Final[dict[CallKind, Callable[[FlowControlBolt, Tuple], Any]]] = {
    CallKind.PLAIN: FlowControlBolt.execute,
    CallKind.GENERATOR: _execute_generator,
    CallKind.COROUTINE: _execute_coroutine,
    CallKind.ASYNC_GENERATOR: _execute_async_generator,
}
