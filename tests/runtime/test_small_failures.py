"""An exception fails only its own input, in every kind of bolt. A dead instance is replaced (SV-1, SV-3)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import engine
from engine import BasicBolt, Bolt, Fields, StatefulBasicBolt, StatefulBolt, Tuple, bolt, stateful_bolt
from engine.flow import FlowControlBolt, FlowControlSpout, FlowProducer
from engine.testing import Capture
from tests.runtime.stage import AtOnce, Numbers, Sink, chain, play_run

POISON = (1, 4, 5, 8)
COUNT = 12
GOOD = [number for number in range(COUNT) if number not in POISON]


def check(number: int) -> int:
    """Raise for some numbers."""
    if number in POISON:
        raise ValueError(f"number {number}")
    return number


class Plain(Bolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((check(tup[0]),), tup)
        self.collector.ack(tup)


class Async(Bolt):
    output_fields = Fields("number")

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0.01 * (tup[0] % 3))
        self.collector.emit((check(tup[0]),), tup)
        self.collector.ack(tup)


class Concurrent(Async):
    concurrency = 4


class Returning(BasicBolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> Any:
        return (check(tup[0]),)


class Yielding(BasicBolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> Iterator[Any]:
        yield (check(tup[0]),)


class AsyncReturning(BasicBolt):
    output_fields = Fields("number")

    async def execute(self, tup: Tuple) -> Any:
        await asyncio.sleep(0.01)
        return (check(tup[0]),)


class AsyncYielding(BasicBolt):
    output_fields = Fields("number")

    async def execute(self, tup: Tuple) -> AsyncIterator[Any]:
        await asyncio.sleep(0.01)
        yield (check(tup[0]),)


class ConcurrentYielding(AsyncYielding):
    concurrency = 4


class Threaded(Returning):
    threads = 3


class ThreadedYielding(Yielding):
    threads = 1


@bolt("number")
def by_function(tup: Tuple) -> Any:
    return (check(tup[0]),)


@bolt("number")
def by_generator(tup: Tuple) -> Iterator[Any]:
    yield (check(tup[0]),)


@bolt("number")
async def by_coroutine(tup: Tuple) -> Any:
    await asyncio.sleep(0.01)
    return (check(tup[0]),)


@bolt("number")
async def by_async_generator(tup: Tuple) -> AsyncIterator[Any]:
    await asyncio.sleep(0.01)
    yield (check(tup[0]),)


@bolt("number", concurrency=4)
async def by_concurrent_coroutine(tup: Tuple) -> Any:
    await asyncio.sleep(0.01)
    return (check(tup[0]),)


@bolt("number", threads=2)
def by_threads(tup: Tuple) -> Any:
    return (check(tup[0]),)


class Stateful(StatefulBolt):
    output_fields = Fields("number")

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup[0], tup[0])
        self.collector.emit((check(tup[0]),), tup)
        self.collector.ack(tup)


class AsyncStateful(Stateful):
    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0.01)
        super().execute(tup)


class StatefulBasic(StatefulBasicBolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> Any:
        self.state.put(tup[0], tup[0])
        yield (check(tup[0]),)


@stateful_bolt("number")
def by_stateful_function(tup: Tuple, state: Any) -> Any:
    state.put(tup[0], tup[0])
    return (check(tup[0]),)


@stateful_bolt("number")
async def by_stateful_coroutine(tup: Tuple, state: Any) -> Any:
    await asyncio.sleep(0.01)
    state.put(tup[0], tup[0])
    return (check(tup[0]),)


@stateful_bolt("number")
async def by_stateful_async_generator(tup: Tuple, state: Any) -> AsyncIterator[Any]:
    await asyncio.sleep(0.01)
    state.put(tup[0], tup[0])
    yield (check(tup[0]),)


CLASSES: tuple[Any, ...] = (
    *(Plain, Async, Concurrent, Returning, Yielding, AsyncReturning, AsyncYielding, ConcurrentYielding, Threaded, ThreadedYielding),
    *(Stateful, AsyncStateful, StatefulBasic),
)
FUNCTIONS: tuple[Any, ...] = (
    *(by_function, by_generator, by_coroutine, by_async_generator, by_concurrent_coroutine, by_threads),
    *(by_stateful_function, by_stateful_coroutine, by_stateful_async_generator),
)
forms = pytest.mark.parametrize("form", [*CLASSES, *FUNCTIONS], ids=lambda form: form.__name__)


@pytest.mark.guarantee("SV-1")
@pytest.mark.parametrize("source", [Numbers, AtOnce])
@forms
def test_a_call_that_raises_fails_only_its_own_input(form: Any, source: type[Numbers]) -> None:
    spout, sink = source(COUNT), Capture()
    run = play_run(chain(lambda: spout, form, sink))
    assert run.state == "complete"
    assert sorted(spout.failed) == list(POISON)
    assert sorted(spout.acked) == GOOD
    assert sorted(sink.field(0)) == GOOD
    reasons = {(failure.reason, failure.component_id, failure.error) for failure in spout.failures}
    assert reasons == {("error", "bolt1", f"ValueError: number {number}") for number in POISON}
    found = run.snapshot().components["bolt1"]
    assert (found.restarts, found.errors, found.failed) == (0, len(POISON), len(POISON))


@pytest.mark.guarantee("SV-1")
@pytest.mark.parametrize("form", CLASSES, ids=lambda form: form.__name__)
def test_the_instance_that_raised_continues(form: Any) -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(form())
        return made[-1]

    play_run(chain(lambda: AtOnce(COUNT), make, Sink))
    assert len(made) == 1


@pytest.mark.guarantee("SV-1")
@pytest.mark.parametrize("kind", ["plain", "generator", "coroutine", "async generator"])
def test_a_record_that_raises_in_a_flow_bolt_does_not_end_the_instance(kind: str) -> None:
    """The source replays the record, and its second attempt succeeds."""
    tried: list[int] = []
    done: list[int] = []

    def work(record: int) -> None:
        tried.append(record)
        if tried.count(record) == 1:
            check(record)
        done.append(record)

    class ByFunction(FlowControlBolt):
        def process(self, record: Any) -> Any:
            work(record)

    class ByGenerator(FlowControlBolt):
        def process(self, record: Any) -> Any:
            work(record)
            yield from ()

    class ByCoroutine(FlowControlBolt):
        async def process(self, record: Any) -> Any:
            await asyncio.sleep(0)
            work(record)

    class ByAsyncGenerator(FlowControlBolt):
        async def process(self, record: Any) -> Any:
            work(record)
            for nothing in ():
                yield nothing

    class Records(FlowProducer):
        def records(self, after: Any) -> Any:
            yield from ((number, number) for number in range(COUNT))

    made: list[Any] = []
    forms: dict[str, type[FlowControlBolt]] = {
        "plain": ByFunction, "generator": ByGenerator, "coroutine": ByCoroutine, "async generator": ByAsyncGenerator,
    }  # fmt: skip

    def make() -> FlowControlBolt:
        made.append(forms[kind]())
        return made[-1]  # type: ignore[no-any-return]

    builder = engine.TopologyBuilder("flow")
    builder.set_spout("records", lambda: FlowControlSpout(Records()))
    builder.set_bolt("work", make).direct_grouping("records")
    run = play_run(builder.build())
    assert run.state == "complete"
    assert set(done) == set(range(COUNT))
    assert len(made) == 1
    assert run.snapshot().components["work"].restarts == 0


@pytest.mark.guarantee("SV-1")
def test_an_exception_does_not_cancel_other_calls_in_flight() -> None:
    """Given four calls at once, when the shortest raises, then the others end normally."""
    ends: list[int] = []

    class InFlight(Bolt):
        concurrency = 4

        async def execute(self, tup: Tuple) -> None:
            try:
                await asyncio.sleep(1 + tup[0])
                check(tup[0] + 1)
                self.collector.ack(tup)
            finally:
                ends.append(tup[0])

    spout = AtOnce(4)
    play_run(chain(lambda: spout, InFlight))
    assert ends == [0, 1, 2, 3]
    assert sorted(spout.failed) == [0, 3]
    assert sorted(spout.acked) == [1, 2]


@pytest.mark.guarantee("SV-1")
def test_an_exception_in_a_thread_does_not_affect_other_threads() -> None:
    raised = threading.Event()

    class InThreads(BasicBolt):
        output_fields = Fields("number")
        threads = 3

        def execute(self, tup: Tuple) -> Any:
            if tup[0] == 1:
                raised.set()
                raise ValueError("number 1")
            assert raised.wait(20)
            return (tup[0],)

    spout, sink = AtOnce(3), Capture()
    run = play_run(chain(lambda: spout, InThreads, sink))
    assert spout.failed == [1]
    assert sorted(sink.field(0)) == [0, 2]
    assert run.snapshot().components["bolt1"].restarts == 0


@pytest.mark.guarantee("SV-1")
def test_a_tick_that_raises_fails_no_tuple() -> None:
    raised: list[int] = []

    class TickRaises(Bolt):
        tick_tuple_freq_secs = 1.0

        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            if not tup.is_tick:
                self.kept.append(tup)
                return
            if len(self.kept) < 5:
                raised.append(1)
                raise ValueError("tick")
            while self.kept:
                self.collector.ack(self.kept.pop())

    class Slow(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(1.5)
            super().next_tuple()

    spout = Slow(5)
    run = play_run(chain(lambda: spout, TickRaises))
    assert not spout.failed
    assert sorted(spout.acked) == [0, 1, 2, 3, 4]
    assert run.snapshot().components["bolt1"].restarts == 0
    assert run.snapshot().components["bolt1"].errors == len(raised) > 5


@pytest.mark.guarantee("SV-1")
def test_an_input_that_was_acked_before_its_call_raised_stays_acked_without_a_state() -> None:
    class AcksFirst(Bolt):
        def execute(self, tup: Tuple) -> None:
            self.collector.ack(tup)
            check(tup[0])

    spout = Numbers(COUNT)
    run = play_run(chain(lambda: spout, AcksFirst))
    assert sorted(spout.acked) == list(range(COUNT))
    assert not spout.failed
    assert run.snapshot().components["bolt1"].settled_twice == 0


@pytest.mark.guarantee("SV-1")
def test_earlier_inputs_stay_with_the_instance_that_raised() -> None:
    class Collects(Bolt):
        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            check(tup[0])
            self.kept.append(tup)
            if len(self.kept) == len(GOOD):
                for each in self.kept:
                    self.collector.ack(each)

    spout = AtOnce(COUNT)
    play_run(chain(lambda: spout, Collects))
    assert sorted(spout.acked) == GOOD
    assert sorted(spout.failed) == list(POISON)
