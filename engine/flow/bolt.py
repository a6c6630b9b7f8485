"""`FlowControlBolt`: a bolt behind a flow-control spout, whose user code sees records."""

import asyncio
import contextvars
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import aclosing
from types import GeneratorType
from typing import Any, Final, cast

from engine.errors import UsageError
from engine.flow.call_limit import CallLimit, PackCall
from engine.flow.daemon_threads import DaemonThreads
from engine.flow.pack import Records
from engine.names import DEFAULT_STREAM, POOL_NAME
from engine.topology import BasicBolt, CallKind, Tuple, call_kind
from engine.topology.bolt import BasicResult
from engine.topology.collector import BasicCollector
from engine.topology.spout import OnError
from engine.topology.values import Values


class FlowControlBolt(BasicBolt):
    """Calls `process` for each record of a pack, in order, and acks the pack when all are done (FC-1).

    What `process` emits is anchored to the pack. What it raises fails the pack: the record that raised comes again by itself, at another
    task, and so do those before it and those behind it; those before it are repeated.
    """

    takes_packs = True
    on_error: OnError | None = "fail"
    """A record that raises is one of many, and is tried at another task: the instance goes on."""
    call_timeout_secs: float | None = None
    """Seconds that a call of an async `process`, or of one in `threads`, may take (FC-9); None: `Config.call_timeout_secs`; inf: any."""

    _limit: CallLimit | None = None
    _threads: DaemonThreads | None = None

    @abstractmethod
    def process(self, record: Any) -> BasicResult:
        """Process one record: a plain function, a generator, `async def`, or an async generator, as `BasicBolt.execute`."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "execute" in vars(cls):
            raise UsageError(f"{cls.__name__} defines execute()", hint="A FlowControlBolt defines process(record); or derive from Bolt.")
        _check_secs(f"{cls.__name__}.call_timeout_secs", cls.call_timeout_secs)
        cls.execute = _EXECUTES[call_kind(cls.process)]  # type: ignore[method-assign, assignment]

    def execute(self, tup: Tuple) -> Iterator[Values]:
        """Unpack for a `process` that is a plain function; a subclass with another kind gets one of those below in its place."""
        process, records = self.process, _records(tup)
        left = iter(records)
        try:
            for record in left:
                result = process(record)
                if result is not None:
                    yield from _rows(result)
        except BaseException:  # a GeneratorExit, too: what was yielded last could not be emitted
            records.note_failed(left)
            raise

    async def execute_in_threads(self, tup: Tuple) -> None:
        """Take the place of `execute` where `threads` is set: `process` runs in threads of its own, each of which may be left behind."""
        call, limit = PackCall(_records(tup)), self._call_limit()
        limit.check_room()
        if self._threads is None:
            self._threads = DaemonThreads(f"{POOL_NAME} {self.context.component_id}")
            self.collector = cast(BasicCollector, _ThreadCollector(self.collector))
        recorded: list[tuple[Values, str, int | None]] = []
        work = contextvars.copy_context().run
        working = asyncio.get_running_loop().run_in_executor(self._threads, work, _process_in_thread, self, call, recorded)
        await limit.wait_for_thread(call, working)
        for values, stream, task in recorded:
            if task is None:
                self.collector.emit(values, stream)
            else:
                self.collector.emit_direct(task, values, stream)

    def _call_limit(self) -> CallLimit:
        if self._limit is None:
            _check_secs(f"bolt {self.context.component_id!r}: call_timeout_secs", self.call_timeout_secs)
            self._limit = CallLimit(self.context, self.call_timeout_secs)
        return self._limit


def _check_secs(what: str, secs: object) -> None:
    if secs is None or (isinstance(secs, (int, float)) and not isinstance(secs, bool) and secs > 0):
        return
    raise UsageError(f"{what} is {secs!r}", hint="Set a number of seconds above 0, math.inf for no limit, or None for the config's.")


def _records(tup: Tuple) -> Records:
    records = tup[0] if not tup.is_tick and len(tup) == 1 else None
    if type(records) is not Records:
        what = "a tick" if tup.is_tick else f"a tuple of {tup.source_component!r}"
        raise UsageError(
            f"a FlowControlBolt got {what}, which is no pack of records",
            hint="It takes a FlowControlSpout by direct_grouping(), and nothing else; for other inputs derive from Bolt.",
        )
    return records


def _by_generator(self: FlowControlBolt, tup: Tuple) -> Iterator[Values]:
    process: Any = self.process
    records = _records(tup)
    left = iter(records)
    try:
        for record in left:
            yield from process(record)
    except BaseException:
        records.note_failed(left)
        raise


async def _by_coroutine(self: FlowControlBolt, tup: Tuple) -> None:
    """No async generator: most of these emit little, and that costs some ten microseconds a pack."""
    call = PackCall(_records(tup))
    await self._call_limit().run(call, _await_each(self, call))


async def _await_each(self: FlowControlBolt, call: PackCall) -> None:
    process: Any = self.process
    try:
        for record in call.left:
            result = await process(record)
            if call.is_over:
                raise asyncio.CancelledError
            if result is not None:
                for row in _rows(result):
                    self.collector.emit(row)
    except BaseException:
        call.note_failed()
        raise


async def _by_async_generator(self: FlowControlBolt, tup: Tuple) -> None:
    call = PackCall(_records(tup))
    await self._call_limit().run(call, _iterate_each(self, call))


async def _iterate_each(self: FlowControlBolt, call: PackCall) -> None:
    process: Any = self.process
    try:
        for record in call.left:
            async with aclosing(process(record)) as rows:
                async for values in rows:
                    call.go_on()
                    call.steps += 1
                    self.collector.emit(values)
            call.go_on()
    except BaseException:
        call.note_failed()
        raise


_RECORDED: contextvars.ContextVar[list[tuple[Values, str, int | None]] | None] = contextvars.ContextVar("recorded", default=None)
"""In a thread: what `process` has emitted there, for the loop to emit."""


def _process_in_thread(self: FlowControlBolt, call: PackCall, recorded: list[tuple[Values, str, int | None]]) -> None:
    _RECORDED.set(recorded)
    try:
        for record in call.left:
            result = self.process(record)
            if result is not None:
                for row in _rows(result):
                    call.steps += 1
                    recorded.append((row, DEFAULT_STREAM, None))
            if call.is_over:
                return
    except BaseException:
        call.note_failed()
        raise


class _ThreadCollector:
    """`self.collector` of a bolt with threads: records what a thread emits."""

    def __init__(self, outer: BasicCollector) -> None:
        self._outer = outer

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        recorded = _RECORDED.get()
        if recorded is None:
            self._outer.emit(values, stream)
        else:
            recorded.append((values, stream, None))

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        recorded = _RECORDED.get()
        if recorded is None:
            self._outer.emit_direct(task, values, stream)
        else:
            recorded.append((values, stream, task))

    def report_error(self, error: BaseException) -> None:
        self._outer.report_error(error)


def _rows(result: object) -> Iterator[Values]:
    if isinstance(result, tuple):
        return iter((result,))
    if isinstance(result, GeneratorType):
        return result
    raise UsageError(
        f"process() returned {result!r} ({type(result).__name__})"[:300],
        hint="Return a tuple of values to emit, or None; a generator yields several.",
    )


_EXECUTES: Final[dict[CallKind, Callable[[FlowControlBolt, Tuple], Any]]] = {
    CallKind.PLAIN: FlowControlBolt.execute,
    CallKind.GENERATOR: _by_generator,
    CallKind.COROUTINE: _by_coroutine,
    CallKind.ASYNC_GENERATOR: _by_async_generator,
}
