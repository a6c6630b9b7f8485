"""BasicBolts anchor and ack by themselves (ACK-11)."""

import asyncio
from collections import namedtuple
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, FailTuple, Fields, TopologyBuilder, Tuple, bolt
from engine.testing import Capture
from tests.runtime.stage import LogLines, Numbers, Sink, chain, loop, play_run

pytestmark = pytest.mark.guarantee("ACK-11")


class ByReturn(BasicBolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> Any:
        return (tup[0],)


class ByYield(BasicBolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> Iterator[Any]:
        yield (tup[0],)


class ByCollector(BasicBolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup[0],))


class ByAsyncReturn(BasicBolt):
    output_fields = Fields("number")

    async def execute(self, tup: Tuple) -> Any:
        await asyncio.sleep(0.01)
        return (tup[0],)


class ByAsyncYield(BasicBolt):
    output_fields = Fields("number")

    async def execute(self, tup: Tuple) -> AsyncIterator[Any]:  # type: ignore[override]
        await asyncio.sleep(0.01)
        yield (tup[0],)


class ByAsyncCollector(BasicBolt):
    output_fields = Fields("number")

    async def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup[0],))
        await asyncio.sleep(0.01)


class ByList(BasicBolt):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> Any:
        return [(tup[0],)]


class ByPlainCoroutine(BasicBolt):
    """A plain function that returns a coroutine, like a decorated async function."""

    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> Any:
        async def work() -> None:
            await asyncio.sleep(0.01)
            self.collector.emit((tup[0],))

        return work()


class ByNamedTuple(BasicBolt):
    output_fields = Fields("number")
    Row = namedtuple("Row", "number")

    def execute(self, tup: Tuple) -> Any:
        return self.Row(tup[0])


@bolt("number")
def by_function(tup: Tuple) -> Any:
    return (tup[0],)


@bolt("number")
def by_generator_function(tup: Tuple) -> Any:
    yield (tup[0],)


@bolt("number")
async def by_async_function(tup: Tuple) -> Any:
    return (tup[0],)


@bolt("number")
async def by_async_generator_function(tup: Tuple) -> Any:
    yield (tup[0],)


FORMS = [
    ByReturn, ByYield, ByCollector, ByAsyncReturn, ByAsyncYield, ByAsyncCollector, ByList, ByPlainCoroutine, ByNamedTuple,
    by_function, by_generator_function, by_async_function, by_async_generator_function,
]  # fmt: skip


ASYNC_FORMS = [ByAsyncReturn, ByAsyncYield, ByAsyncCollector, by_async_function, by_async_generator_function]


@pytest.mark.parametrize(("form", "concurrency"), [*((form, 1) for form in FORMS), *((form, 4) for form in ASYNC_FORMS)])
def test_each_emit_is_anchored_to_its_input_which_is_acked_after_it(form: Any, concurrency: int) -> None:
    """Given a bolt behind it that fails odd numbers, then only their trees fail."""
    seen: list[int] = []

    class Judge(Bolt):
        def execute(self, tup: Tuple) -> None:
            seen.append(tup[0])
            (self.collector.fail if tup[0] % 2 else self.collector.ack)(tup)

    spout = Numbers(10)
    builder = TopologyBuilder("judged")
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("form", form, concurrency=concurrency).shuffle_grouping("source")
    builder.set_bolt("judge", Judge).shuffle_grouping("form")
    play_run(builder.build())
    assert sorted(spout.acked) == [0, 2, 4, 6, 8]
    assert sorted(spout.failed) == [1, 3, 5, 7, 9]
    assert sorted(seen) == list(range(10))


def test_the_input_is_acked_only_after_execute_has_ended() -> None:
    acked_at: list[float] = []

    class Late(ByAsyncYield):
        async def execute(self, tup: Tuple) -> AsyncIterator[Any]:  # type: ignore[override]
            yield (tup[0],)
            await asyncio.sleep(5)

    class Timed(Numbers):
        def ack(self, message_id: Any) -> None:
            acked_at.append(loop().time())

    play_run(chain(lambda: Timed(1), Late, Sink))
    assert acked_at == [5]


class Picky(BasicBolt):
    """Emits, then raises FailTuple for 1 quietly, for 2 with a report."""

    output_fields = Fields("number")
    made = 0

    def prepare(self) -> None:
        type(self).made += 1

    def judge(self, number: int) -> None:
        if number in (1, 2):
            raise FailTuple(f"no {number}", report=number == 2)


class PlainPicky(Picky):
    def execute(self, tup: Tuple) -> None:
        self.judge(tup[0])


class YieldingPicky(Picky):
    def execute(self, tup: Tuple) -> Iterator[Any]:
        yield (tup[0],)
        self.judge(tup[0])


class AsyncPicky(Picky):
    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0.01)
        self.judge(tup[0])


class WidePicky(AsyncPicky):
    concurrency = 4


class ThreadPicky(PlainPicky):
    threads = 2


@pytest.mark.parametrize("on_error", ["restart", "fail"])
@pytest.mark.parametrize("form", [PlainPicky, YieldingPicky, AsyncPicky, WidePicky, ThreadPicky])
def test_fail_tuple_fails_the_input_and_is_reported_only_on_request(form: type[Picky], on_error: Any) -> None:
    spout, form.made = Numbers(4), 0
    with LogLines() as log:
        run = play_run(chain(lambda: spout, form, Sink), Config(on_error=on_error))
    assert sorted(spout.acked) == [0, 3]
    assert sorted(spout.failed) == [1, 2]
    assert {failure.reason for failure in spout.failures} == {"failed"}
    assert sorted(failure.error or "" for failure in spout.failures) == ["no 1", "no 2"]
    assert not log.having("no 1")
    assert len(log.having("no 2")) == 1
    assert form.made == 1
    assert run.snapshot().components["bolt1"].restarts == 0


@pytest.mark.parametrize("result", ["text", 5, {"a": 1}, b"bytes", object()])
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_any_other_result_of_execute_is_an_error(result: Any, kind: str) -> None:
    class Plain(BasicBolt):
        output_fields = Fields("number")
        on_error = "fail"

        def execute(self, tup: Tuple) -> Any:
            return result

    class Async(Plain):
        async def execute(self, tup: Tuple) -> Any:
            return result

    spout = Numbers(1)
    with LogLines() as log:
        play_run(chain(lambda: spout, Plain if kind == "plain" else Async, Sink))
    assert spout.failed == [0]
    assert spout.failures[0].reason == "error"
    assert log.having("UsageError")


def test_a_bolt_that_returns_something_is_an_error() -> None:
    class Wrong(Bolt):
        on_error = "fail"

        def execute(self, tup: Tuple) -> Any:
            self.collector.ack(tup)
            return (1,)

    with LogLines() as log:
        play_run(chain(lambda: Numbers(1), Wrong))
    assert log.having("execute() returned (1,)")


def test_an_async_generator_is_closed_if_a_yield_cannot_be_emitted() -> None:
    closed: list[int] = []

    class Wrong(BasicBolt):
        output_fields = Fields("number")
        on_error = "fail"

        async def execute(self, tup: Tuple) -> AsyncIterator[Any]:  # type: ignore[override]
            try:
                yield (tup[0],)
                await asyncio.sleep(0.01)
                yield (1, 2, 3)
            finally:
                await asyncio.sleep(0.01)
                closed.append(tup[0])

    spout = Numbers(3)
    play_run(chain(lambda: spout, Wrong, Sink))
    assert spout.failed == closed == [0, 1, 2]


def test_a_yield_that_cannot_be_emitted_fails_the_input_and_earlier_yields() -> None:
    class Wrong(BasicBolt):
        output_fields = Fields("number")
        on_error = "fail"

        def execute(self, tup: Tuple) -> Iterator[Any]:
            yield (tup[0],)
            yield "no tuple"

    spout, sink = Numbers(2), Capture()
    with LogLines() as log:
        play_run(chain(lambda: spout, Wrong, sink))
    assert spout.failed == [0, 1]
    assert sink.field(0) == [0, 1]
    assert log.having("not a tuple of values")
