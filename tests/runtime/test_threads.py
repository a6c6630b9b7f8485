"""`threads = n`: a BasicBolt's calls run in a pool. Their emits and acks happen on the loop (ACK-10)."""

import asyncio
import threading
from collections import deque
from typing import Any

import pytest
import uvloop

import engine
from engine import BasicBolt, Bolt, FailTuple, Fields, Spout, Tuple, UsageError
from engine.testing import Capture
from tests.patience import PATIENCE_SECS
from tests.runtime.stage import LogLines, Numbers, Sink, chain, play, play_run, running, strict

pytestmark = pytest.mark.guarantee("ACK-10")


class Blocking(BasicBolt):
    """Doubles its input in a thread, and records the thread."""

    output_fields = Fields("number")
    threads = 3

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.in_flight = self.most = 0
        self.lock = threading.Lock()

    def execute(self, tup: Tuple) -> Any:
        with self.lock:
            self.names.add(threading.current_thread().name)
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
        self.collector.emit((tup[0] * 2,))
        with self.lock:
            self.in_flight -= 1


def test_calls_run_in_a_pool_and_their_emits_are_anchored() -> None:
    spout, bolt, sink = Numbers(100), Blocking(), Capture()
    play_run(chain(lambda: spout, lambda: bolt, sink))
    assert sorted(sink.field(0)) == [number * 2 for number in range(100)]
    assert sorted(spout.acked) == list(range(100))
    assert bolt.most <= 3
    assert all(name.startswith("stormcell bolt1") for name in bolt.names)


def test_n_calls_run_at_the_same_time() -> None:
    barrier = threading.Barrier(3, timeout=PATIENCE_SECS)

    class Meeting(BasicBolt):
        threads = 3

        def execute(self, tup: Tuple) -> None:
            barrier.wait()

    spout = Numbers(6)
    play_run(chain(lambda: spout, Meeting))
    assert sorted(spout.acked) == list(range(6))


def values_as(form: str, number: int) -> Any:
    rows = [(number,), (number,)]
    forms = {
        "list": rows,
        "deque": deque(rows),
        "map": map(tuple, rows),
        "set": {*rows},
        "empty": [],
        "none": None,
        "dict keys": dict.fromkeys(rows),
    }
    return forms[form]


@pytest.mark.parametrize("threads", [0, 2], ids=["on the loop", "in threads"])
@pytest.mark.parametrize(
    ("form", "times"), [("list", 2), ("deque", 2), ("map", 2), ("set", 1), ("dict keys", 1), ("empty", 0), ("none", 0)]
)
def test_each_iterable_of_tuples_may_be_returned(form: str, times: int, threads: int) -> None:
    class Returns(BasicBolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> Any:
            return values_as(form, tup[0])

    Returns.threads = threads
    spout, sink = Numbers(3), Capture()
    play_run(chain(lambda: spout, Returns, sink))
    assert sorted(sink.field(0)) == sorted([*range(3)] * times)
    assert sorted(spout.acked) == [0, 1, 2]


@pytest.mark.parametrize("threads", [0, 2], ids=["on the loop", "in threads"])
@pytest.mark.parametrize("wrong", ["text", b"bytes", 7])
def test_a_text_or_a_number_is_no_result(wrong: object, threads: int) -> None:
    class Returns(BasicBolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> Any:
            return wrong

    Returns.threads = threads
    spout = Numbers(2)
    with LogLines() as log:
        play_run(chain(lambda: spout, Returns))
    assert sorted(spout.failed) == [0, 1]
    assert log.having("yields or returns tuples of values")


@pytest.mark.parametrize("form", ["return", "generator", "collector", "direct and other stream"])
def test_every_form_of_emit_is_recorded(form: str) -> None:
    class Forms(BasicBolt):
        output_fields = {"default": Fields("number"), "named": Fields("task", direct=True)}
        threads = 2

        def prepare(self) -> None:
            self.target = self.context.targets("named")[0]

        def execute(self, tup: Tuple) -> Any:
            if form == "return":
                return (tup[0],)
            if form == "generator":
                return ((tup[0],) for _ in range(2))
            if form == "collector":
                self.collector.emit((tup[0],))
            else:
                self.collector.emit_direct(self.target, (tup[0],), "named")
            return None

    spout, sink = Numbers(5), Capture()
    builder = engine.TopologyBuilder("forms")
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("forms", Forms).shuffle_grouping("source")
    builder.set_bolt("sink", sink).shuffle_grouping("forms").direct_grouping("forms", stream="named")
    play_run(builder.build())
    assert sorted(sink.field(0)) == sorted([*range(5), *(range(5) if form == "generator" else ())])
    assert sorted(spout.acked) == list(range(5))


@pytest.mark.parametrize("on_error", ["fail", "restart"])
@pytest.mark.parametrize("error", [ValueError("bad"), FailTuple("quietly")])
def test_emits_of_a_call_that_raises_are_dropped(on_error: str, error: Exception) -> None:
    class Raises(BasicBolt):
        output_fields = Fields("number")
        threads = 2

        def execute(self, tup: Tuple) -> Any:
            self.collector.emit((tup[0],))
            if tup[0] == 2:
                raise error
            yield (tup[0],)

    Raises.on_error = on_error  # type: ignore[assignment]
    spout, sink = Numbers(5, replays=False), Capture()
    with LogLines() as log:
        play_run(chain(lambda: spout, Raises, sink))
    assert 2 not in sink.field(0)
    assert 2 in spout.failed
    assert sorted(spout.acked + spout.failed) == list(range(5))
    assert bool(log.having("raised ValueError: bad")) == isinstance(error, ValueError)


def test_a_thread_that_outlives_its_instance_has_no_effect() -> None:
    """Given a call that still runs when its instance dies, when it returns, then its emits are dropped."""
    release = threading.Event()

    class Lingers(BasicBolt):
        output_fields = Fields("number")
        threads = 2
        on_error = "restart"

        def execute(self, tup: Tuple) -> Any:
            if tup[0] == 0:
                release.wait(PATIENCE_SECS)
                self.collector.emit((tup[0],))
            if tup[0] == 1:
                raise ValueError("dies")
            return (tup[0],)

    spout, sink = Numbers(4), Capture()

    async def main() -> None:
        async with running(chain(lambda: spout, Lingers, sink)) as run:
            while len(spout.failed) < 2:  # noqa: ASYNC110 - the loop is real
                await asyncio.sleep(0.001)
            release.set()
            await run.completed()

    asyncio.run(asyncio.wait_for(strict(main)(), PATIENCE_SECS))
    assert sorted(spout.failed) == [0, 1]
    assert sorted(spout.acked) == [2, 3]
    assert sorted(sink.field(0)) == [2, 3]


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_threads_work_on_real_loops(loop_factory: Any) -> None:
    spout, bolt, sink = Numbers(300), Blocking(), Capture()

    async def main() -> None:
        async with running(chain(lambda: spout, lambda: bolt, sink)) as run:
            await run.completed()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(strict(main)(), PATIENCE_SECS))
    assert sorted(sink.field(0)) == [number * 2 for number in range(300)]


def raised_in_thread(action: Any) -> BaseException | None:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE_SECS)
    return raised[0] if raised else None


@pytest.mark.parametrize("use", ["emit", "emit_direct", "ack", "fail", "reset_timeout"])
def test_the_collector_of_a_bolt_raises_on_another_thread(use: str) -> None:
    errors: list[BaseException | None] = []

    class Foreign(Bolt):
        output_fields = {"default": Fields("number"), "named": Fields("number", direct=True)}

        def execute(self, tup: Tuple) -> None:
            collector = self.collector
            actions = {
                "emit": lambda: collector.emit((1,), tup),
                "emit_direct": lambda: collector.emit_direct(1, (1,), tup, "named"),
                "ack": lambda: collector.ack(tup),
                "fail": lambda: collector.fail(tup),
                "reset_timeout": lambda: collector.reset_timeout(tup),
            }
            errors.append(raised_in_thread(actions[use]))
            collector.ack(tup)

    spout, sink = Numbers(1), Capture()
    play_run(chain(lambda: spout, Foreign, sink))
    assert isinstance(errors[0], UsageError)
    assert "a thread other than" in str(errors[0])
    assert spout.acked == [0]
    assert not sink.arrivals


@pytest.mark.parametrize("use", ["emit", "emit_many", "emit_direct"])
def test_the_collector_of_a_spout_raises_on_another_thread(use: str) -> None:
    errors: list[BaseException | None] = []

    class Foreign(Spout):
        output_fields = {"default": Fields("number"), "named": Fields("number", direct=True)}

        def next_tuple(self) -> None:
            collector = self.collector
            actions = {
                "emit": lambda: collector.emit((1,), 1),
                "emit_many": lambda: collector.emit_many([(1,)], [1]),
                "emit_direct": lambda: collector.emit_direct(1, (1,), 1, "named"),
            }
            errors.append(raised_in_thread(actions[use]))
            raise engine.SpoutExhausted

    sink = Capture()
    play_run(chain(Foreign, sink))
    assert isinstance(errors[0], UsageError)
    assert not sink.arrivals


def test_a_thread_of_an_async_call_may_not_emit_either() -> None:
    errors: list[BaseException] = []

    class ToThread(BasicBolt):
        output_fields = Fields("number")
        concurrency = 2

        async def execute(self, tup: Tuple) -> None:
            try:
                await asyncio.to_thread(self.collector.emit, (1,))
            except UsageError as error:
                errors.append(error)

    async def main() -> None:
        async with running(chain(lambda: Numbers(2), ToThread, Sink)) as run:
            await run.completed()

    play(main)
    assert len(errors) == 2


def test_errors_may_be_reported_from_a_thread() -> None:
    class Reports(BasicBolt):
        threads = 2

        def execute(self, tup: Tuple) -> None:
            self.collector.report_error(ValueError(f"seen {tup[0]}"))

    with LogLines() as log:
        play_run(chain(lambda: Numbers(3), Reports))
    assert len(log.having("reported ValueError: seen")) == 3


def test_a_stop_does_not_wait_for_threads() -> None:
    release, is_stuck = threading.Event(), threading.Event()

    class Stuck(BasicBolt):
        threads = 1

        def execute(self, tup: Tuple) -> None:
            is_stuck.set()
            release.wait()

    async def main() -> None:
        try:
            async with running(chain(lambda: Numbers(3), Stuck)):
                while not is_stuck.is_set():  # noqa: ASYNC110 - the loop is real
                    await asyncio.sleep(0.001)
        finally:
            release.set()

    asyncio.run(asyncio.wait_for(strict(main)(), PATIENCE_SECS))
