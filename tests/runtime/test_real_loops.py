"""Runs on real loops: asyncio, asyncio with debug checks, and uvloop."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from engine import BasicBolt, Bolt, Fields, TopologyBuilder, Tuple
from engine.runtime.spout_executor import BACKOFF
from engine.testing import Capture
from tests.patience import PATIENCE_SECS
from tests.runtime.stage import Endless, LogLines, Numbers, Sink, chain, running, strict

POLLS = 12
LOOPS = {"asyncio": (asyncio.new_event_loop, False), "debug": (asyncio.new_event_loop, True), "uvloop": (uvloop.new_event_loop, False)}


@pytest.fixture(params=LOOPS)
def on_loop(request: pytest.FixtureRequest) -> Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]:
    """Runs a main function on one of the loops. A leftover task or an unhandled error fails the test."""
    factory, debug = LOOPS[request.param]

    def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        async def watched() -> Any:
            result = await asyncio.wait_for(strict(main)(), PATIENCE_SECS)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return result

        with asyncio.Runner(loop_factory=factory, debug=debug) as runner:
            return runner.run(watched())

    return run


class Threaded(BasicBolt):
    output_fields = Fields("number")
    threads = 3

    def execute(self, tup: Tuple) -> Any:
        yield (tup[0],)


class Concurrent(Bolt):
    output_fields = Fields("number")
    concurrency = 8

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0.0001 * (tup[0] % 3))
        self.collector.emit((tup[0],), tup)
        self.collector.ack(tup)


class FailsOnce(Bolt):
    output_fields = Fields("number")
    seen: set[int]

    def execute(self, tup: Tuple) -> None:
        if tup[0] % 10 == 0 and tup[0] not in self.seen:
            self.seen.add(tup[0])
            raise ValueError(tup[0])
        self.collector.emit((tup[0],), tup)
        self.collector.ack(tup)


def test_a_run_with_all_kinds_of_components_completes(on_loop: Any) -> None:
    """The run has threads, concurrent calls, deaths, replays, tiny mailboxes and several ackers."""
    spout, sink = Numbers(300, replays=True), Capture()
    fails_once = type("Fresh", (FailsOnce,), {"seen": set()})
    builder = TopologyBuilder("mixed")
    builder.set_spout("source", lambda: spout, max_spout_pending=40)
    builder.set_bolt("threads", Threaded, parallelism=2).shuffle_grouping("source")
    builder.set_bolt("concurrent", Concurrent, parallelism=2).fields_grouping("threads", "number")
    builder.set_bolt("fails", fails_once).shuffle_grouping("concurrent")
    builder.set_bolt("sink", sink).shuffle_grouping("fails")

    async def main() -> None:
        settings: dict[str, Any] = {"executor_receive_buffer_size": 4, "acker_executors": 2, "max_task_restarts": 100}
        async with running(builder.build(), **settings) as run:
            await run.completed()

    on_loop(main)
    assert sorted(spout.acked) == list(range(300))
    assert set(spout.failed) >= set(range(0, 300, 10))
    assert set(sink.field(0)) == set(range(300))


@pytest.mark.guarantee("BP-4")
def test_the_pause_of_an_idle_spout_grows_on_every_loop(on_loop: Any) -> None:
    """A loop's timer may fire one clock tick early. The spout must not take that for a wake."""
    polls: list[float] = []

    class Idle(Endless):
        def next_tuple(self) -> None:
            polls.append(asyncio.get_running_loop().time())

    async def main() -> None:
        async with running(chain(Idle, Sink)):
            while len(polls) < POLLS:  # noqa: ASYNC110 - the loop is real
                await asyncio.sleep(0.01)

    on_loop(main)
    pauses = [BACKOFF.pause_secs(number) for number in range(1, POLLS)]
    assert polls[POLLS - 1] - polls[0] >= 0.8 * sum(pauses)


def test_a_thread_wakes_a_spout_through_the_loop(on_loop: Any) -> None:
    class Fed(Endless):
        def open(self) -> None:
            self.inbox: list[int] = []

        def next_tuple(self) -> None:
            if self.inbox:
                self.collector.emit((self.inbox.pop(0),), 1)

    spout, keeper = Fed(), Capture(settles=False)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def feed() -> None:
            for number in range(50):
                spout.inbox.append(number)
                loop.call_soon_threadsafe(spout.context.wake)

        async with running(chain(lambda: spout, keeper)):
            thread = threading.Thread(target=feed)
            thread.start()
            while len(keeper.unsettled) < 50:  # noqa: ASYNC110 - the loop is real
                await asyncio.sleep(0.001)
            thread.join()
            for tup in keeper.unsettled:
                keeper.ack(tup)

    on_loop(main)


def test_a_drain_and_a_stop_end_a_busy_run(on_loop: Any) -> None:
    class Busy(Numbers):
        def open(self) -> None:
            self.emitted = 0

        def next_tuple(self) -> None:
            self.emitted += 1
            self.collector.emit((self.emitted,), self.emitted)

    async def until_busy(spout: Busy) -> None:
        while len(spout.acked) < 100:  # noqa: ASYNC110 - the loop is real
            await asyncio.sleep(0.001)

    async def main() -> None:
        spout = Busy(0)
        async with running(chain(lambda: spout, Concurrent, Sink), executor_receive_buffer_size=100) as run:
            await until_busy(spout)
            await run.drain()
            assert len(spout.acked) == spout.emitted
        spout = Busy(0)
        async with running(chain(lambda: spout, Concurrent, Sink), executor_receive_buffer_size=100) as run:
            await until_busy(spout)
        assert run.state == "stopped"

    with LogLines() as log:
        on_loop(main)
    assert not log.lines
