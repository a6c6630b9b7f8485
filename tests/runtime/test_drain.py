"""A drain waits for open trees, with a time limit. A stop does not wait (RUN-3)."""

import asyncio
import threading
from typing import Any

import pytest

import engine
from engine import BasicBolt, Bolt, ComponentError, Config, Fields, TopologyBuilder, Tuple
from engine.testing import Capture
from tests.patience import PATIENCE_SECS
from tests.runtime.stage import Endless, Keeper, LogLines, Numbers, Sink, chain, failing, loop, play, running

pytestmark = pytest.mark.guarantee("RUN-3")


class Slow(Bolt):
    """Takes a second for each input, and emits it at the end."""

    output_fields = Fields("number")

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(1)
        self.collector.emit((tup[0],), tup)
        self.collector.ack(tup)


def test_a_drain_stops_the_sources_and_finishes_open_trees() -> None:
    spout, sink = Numbers(1000), Capture()

    async def main() -> None:
        async with running(chain(lambda: spout, Slow, Slow, sink, max_spout_pending=4)) as run:
            await asyncio.sleep(2.5)
            polls = spout.polls
            await run.drain()
            assert run.state == "drained"
            assert spout.polls == polls
            assert loop().time() < 10
            await run.completed()

    play(main)
    assert sorted(spout.acked) == sorted(sink.field(0))
    assert len(spout.acked) == spout.polls
    assert not spout.failed


def test_untracked_tuples_are_drained_too() -> None:
    class Untracked(Numbers):
        def next_tuple(self) -> None:
            self.polls += 1
            self.collector.emit((self.waiting.popleft(),))

    spout, sink = Untracked(1000), Capture()

    async def main() -> None:
        async with running(chain(lambda: spout, Slow, sink), executor_receive_buffer_size=4) as run:
            await asyncio.sleep(2.5)
            await run.drain()

    play(main)
    assert len(sink.arrivals) == spout.polls


@pytest.mark.parametrize("by_config", [True, False])
def test_a_drain_waits_for_open_trees_until_its_time_limit(by_config: bool) -> None:
    spout = Numbers(3)

    async def main() -> None:
        async with running(chain(lambda: spout, Keeper), drain_timeout_secs=7 if by_config else 500) as run:
            await asyncio.sleep(1)
            await run.drain(None if by_config else 7)
            assert loop().time() == 8
            assert run.state == "drained"

    with LogLines("engine.runtime") as log:
        play(main)
    assert log.having("open trees of 'source': 3")
    assert not spout.acked
    assert not spout.failed


def test_a_drain_with_a_time_limit_of_zero_ends_at_once() -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(3), Keeper)) as run:
            await asyncio.sleep(1)
            await run.drain(0)
            assert (loop().time(), run.state) == (1, "drained")

    play(main)


def test_a_tuple_that_fails_during_a_drain_is_reported_and_not_replayed() -> None:
    spout, keeper = Numbers(3, replays=True), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: spout, keeper)) as run:
            await asyncio.sleep(1)
            draining = asyncio.ensure_future(run.drain())
            await asyncio.sleep(1)
            keeper.settle_next(ack=False)
            keeper.settle_next()
            keeper.settle_next()
            await draining
            assert run.state == "drained"

    play(main)
    assert (spout.failed, sorted(spout.acked)) == ([0], [1, 2])
    assert spout.polls == 4


def test_an_idle_run_drains_at_once() -> None:
    async def main() -> None:
        async with running(chain(Endless, Sink)) as run:
            await asyncio.sleep(1)
            await run.drain()
            assert loop().time() == 1

    play(main)


def test_a_full_run_drains() -> None:
    """Given full mailboxes and a stopped spout, then a drain still processes everything."""
    spout, sink = Numbers(10_000), Capture()

    async def main() -> None:
        async with running(chain(lambda: spout, Slow, Slow, sink), executor_receive_buffer_size=3) as run:
            await asyncio.sleep(20)
            await run.drain(60)
            assert run.state == "drained"

    play(main)
    assert sorted(spout.acked) == list(range(spout.polls))


def test_a_deactivated_run_drains() -> None:
    spout, keeper = Numbers(5), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: spout, keeper, max_spout_pending=2)) as run:
            await asyncio.sleep(1)
            await run.deactivate()
            draining = asyncio.ensure_future(run.drain())
            await asyncio.sleep(1)
            keeper.settle_next()
            keeper.settle_next()
            await draining
            assert loop().time() == 2

    play(main)
    assert sorted(spout.acked) == [0, 1]


def test_every_component_is_closed_in_order_after_a_drain() -> None:
    events: list[str] = []

    class Closing(Slow):
        def cleanup(self) -> None:
            events.append(self.context.component_id)

    class ClosingSpout(Numbers):
        def close(self) -> None:
            events.append("source")

    spout = ClosingSpout(100)

    async def main() -> None:
        async with running(chain(lambda: spout, Closing, Closing, Closing, max_spout_pending=2)) as run:
            await asyncio.sleep(1)
            await run.drain()

    play(main)
    assert events == ["source", "bolt1", "bolt2", "bolt3"]


def test_two_simultaneous_drains_are_one() -> None:
    spout = Numbers(100)

    async def main() -> None:
        async with running(chain(lambda: spout, Slow, Sink, max_spout_pending=3)) as run:
            await asyncio.sleep(1.5)
            await asyncio.gather(run.drain(), run.drain(50))
            assert run.state == "drained"
            await run.drain()

    play(main)
    assert len(spout.acked) == spout.polls


def test_a_stop_ends_a_drain() -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(3), Keeper)) as run:
            await asyncio.sleep(1)
            draining = asyncio.ensure_future(run.drain(1000))
            await asyncio.sleep(1)
            await run.stop()
            await asyncio.wait_for(draining, 1)
            assert loop().time() == 2
            assert run.state == "stopped"

    play(main)


def test_a_component_that_fails_for_good_ends_the_drain() -> None:
    class Dies(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(2)
            raise ValueError("always")

    async def main() -> None:
        config = Config(max_task_restarts=1, on_error="restart", drain_timeout_secs=1000)
        async with failing(engine.run(chain(lambda: Numbers(30), Dies), config)) as run:
            await asyncio.sleep(1)
            with pytest.raises(ComponentError) as drained:
                await asyncio.wait_for(run.drain(), 10)
            assert run.state == "failed"
            with pytest.raises(ComponentError) as completed:
                await run.completed()
            assert completed.value is drained.value is run.error

    play(main)


def test_a_drain_that_is_cancelled_leaves_a_run_that_can_be_stopped() -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(3), Keeper)) as run:
            await asyncio.sleep(1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(run.drain(1000), 5)
            assert run.state == "draining"
        assert run.state == "stopped"
        assert loop().time() == 6

    play(main)


def test_a_drain_waits_for_a_working_thread() -> None:
    release, is_working = threading.Event(), threading.Event()
    done: list[int] = []

    class Works(BasicBolt):
        threads = 2

        def execute(self, tup: Tuple) -> None:
            is_working.set()
            release.wait(PATIENCE_SECS)
            done.append(tup[0])

    spout = Numbers(2)

    async def main() -> None:
        async with running(chain(lambda: spout, Works)) as run:
            while not is_working.is_set():  # noqa: ASYNC110 - the loop is real
                await asyncio.sleep(0.001)
            draining = asyncio.ensure_future(run.drain(PATIENCE_SECS))
            await asyncio.sleep(0.05)  # whatever it does, it cannot be done
            assert not draining.done()
            release.set()
            await draining

    asyncio.run(asyncio.wait_for(main(), PATIENCE_SECS))
    assert sorted(done) == sorted(spout.acked) == [0, 1]


def test_held_tuples_of_two_sources_are_drained() -> None:
    spouts = [Numbers(50), Numbers(50, first=100)]
    sink = Capture()
    builder = TopologyBuilder("two sources")
    for number, spout in enumerate(spouts):
        builder.set_spout(f"source{number}", lambda spout=spout: spout, max_spout_pending=3)
    builder.set_bolt("slow", Slow).shuffle_grouping("source0").shuffle_grouping("source1")
    builder.set_bolt("sink", sink).shuffle_grouping("slow")

    async def main() -> None:
        async with running(builder.build()) as run:
            await asyncio.sleep(4.5)
            await run.drain()

    play(main)
    acked: list[Any] = [*spouts[0].acked, *spouts[1].acked]
    assert sorted(acked) == sorted(sink.field(0))
    assert len(acked) == spouts[0].polls + spouts[1].polls


@pytest.mark.guarantee("ACK-13")
def test_a_drain_does_not_wait_for_the_replacement_of_a_dead_spout() -> None:
    opened: list[float] = []
    next_opened = asyncio.Event()

    class Dies(Numbers):
        def open(self) -> None:
            opened.append(loop().time())
            next_opened.set()

        def next_tuple(self) -> None:
            super().next_tuple()
            raise OSError("gone")

    async def main() -> None:
        async with running(chain(lambda: Dies(1000), Keeper), on_error="restart", max_task_restarts=1000) as run:
            await asyncio.sleep(20)
            instances, pause_secs = len(opened), opened[-1] - opened[-2]
            assert pause_secs > 1
            next_opened.clear()
            await next_opened.wait()
            await asyncio.sleep(0.5)  # the new instance is dead already
            started = loop().time()
            await run.drain()
            assert run.state == "drained"
            assert loop().time() - started < 0.1
            assert len(opened) == instances + 1

    play(main)
