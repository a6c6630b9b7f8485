"""`FlowControlBolt`: a bolt behind a flow-control spout, whose user code sees records."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from types import GeneratorType
from typing import Any, Final

from engine.errors import UsageError
from engine.flow.pack import Records
from engine.topology import BasicBolt, CallKind, Tuple, call_kind
from engine.topology.bolt import BasicResult
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

    @abstractmethod
    def process(self, record: Any) -> BasicResult:
        """Process one record: a plain function, a generator, `async def`, or an async generator, as `BasicBolt.execute`."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "execute" in vars(cls):
            raise UsageError(f"{cls.__name__} defines execute()", hint="A FlowControlBolt defines process(record); or derive from Bolt.")
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
    process: Any = self.process
    records = _records(tup)
    left = iter(records)
    try:
        for record in left:
            result = await process(record)
            if result is not None:
                for row in _rows(result):
                    self.collector.emit(row)
    except BaseException:
        records.note_failed(left)
        raise


async def _by_async_generator(self: FlowControlBolt, tup: Tuple) -> AsyncIterator[Values]:
    process: Any = self.process
    records = _records(tup)
    left = iter(records)
    try:
        for record in left:
            async for values in process(record):
                yield values
    except BaseException:
        records.note_failed(left)
        raise


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
