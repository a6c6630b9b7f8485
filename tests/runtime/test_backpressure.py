"""Bounded mailboxes stop their senders. No tuple is lost or times out while it waits (BP-1, BP-2, BP-3)."""

import asyncio
import gc
import tracemalloc
from random import Random
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, Fields, Run, Spout, TopologyBuilder, Tuple
from engine.testing import Capture
from tests.runtime.stage import AtOnce, Endless, Keeper, Numbers, PassOn, chain, loop, play, play_run, running


class Flood(Spout):
    """Emits a fixed number of numbers at each poll, forever."""

    output_fields = Fields("number")

    def __init__(self, at_once: int = 1) -> None:
        self.at_once = at_once
        self.polls = self.emitted = self.acked = self.failed = 0

    def next_tuple(self) -> None:
        self.polls += 1
        for _ in range(self.at_once):
            self.emitted += 1
            self.collector.emit((self.emitted,), self.emitted)

    def ack(self, message_id: Any) -> None:
        self.acked += 1

    def fail(self, message_id: Any) -> None:
        self.failed += 1


class Gate(Bolt):
    """Executes nothing until it is opened, then as many inputs as it is allowed."""

    output_fields = Fields("number")

    def prepare(self) -> None:
        self.permits = asyncio.Semaphore(0)
        self.got: list[int] = []

    def let(self, count: int) -> None:
        for _ in range(count):
            self.permits.release()

    async def execute(self, tup: Tuple) -> None:
        await self.permits.acquire()
        self.got.append(tup[0])
        self.collector.emit((tup[0],), tup)
        self.collector.ack(tup)


def waiting(run: Run, component: str) -> int:
    return run.snapshot().components[component].waiting


@pytest.mark.guarantee("BP-1")
@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_a_mailbox_exceeds_its_bound_by_the_emits_of_one_call_at_most(at_once: int) -> None:
    flood, gate = Flood(at_once), Gate()

    async def main() -> None:
        async with running(chain(lambda: flood, lambda: gate), executor_receive_buffer_size=100, drain_timeout_secs=0) as run:
            await asyncio.sleep(1)
            assert 99 <= waiting(run, "bolt1") <= 100 + at_once
            assert flood.polls <= 100 // at_once + 1 + 1

    play(main)


@pytest.mark.guarantee("BP-1")
def test_each_of_several_senders_may_exceed_the_bound_by_one_call() -> None:
    gate = Gate()
    builder = TopologyBuilder("many")
    builder.set_spout("flood", lambda: Flood(50), parallelism=6)
    builder.set_bolt("gate", lambda: gate).shuffle_grouping("flood")

    async def main() -> None:
        async with running(builder.build(), executor_receive_buffer_size=100) as run:
            await asyncio.sleep(1)
            assert 99 <= waiting(run, "gate") <= 100 + 6 * 50

    play(main)


@pytest.mark.guarantee("BP-1", "BP-2")
def test_backpressure_propagates_up_the_chain() -> None:
    """Given bolts in a row, when the last one stops, then the others and the spout stop with full mailboxes."""
    flood, gate = Flood(), Gate()

    class Pass(BasicBolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> Any:
            return (tup[0],)

    async def main() -> None:
        async with running(chain(lambda: flood, Pass, Pass, lambda: gate), executor_receive_buffer_size=50) as run:
            await asyncio.sleep(1)
            for component in ("bolt1", "bolt2", "bolt3"):
                assert 49 <= waiting(run, component) <= 51
            snapshot = run.snapshot()
            assert snapshot.components["bolt1"].status == snapshot.components["bolt2"].status == "stopped by a full mailbox"
            assert snapshot.components["source"].status == "full"
            emitted = flood.emitted
            await asyncio.sleep(100)
            assert flood.emitted == emitted
            gate.let(1000)
            await asyncio.sleep(1)
            assert flood.emitted >= emitted + 900

    play(main)


@pytest.mark.guarantee("BP-2")
def test_a_stopped_sender_continues_only_when_half_of_the_mailbox_is_left() -> None:
    flood, gate = Flood(), Gate()

    async def main() -> None:
        async with running(chain(lambda: flood, lambda: gate), executor_receive_buffer_size=100) as run:
            await asyncio.sleep(1)
            before = flood.polls
            gate.let(waiting(run, "bolt1") - 51)
            await asyncio.sleep(1)
            assert (flood.polls, waiting(run, "bolt1")) == (before, 51)
            gate.let(1)
            await asyncio.sleep(1)
            assert flood.polls > before
            assert 99 <= waiting(run, "bolt1") <= 101

    play(main)


@pytest.mark.guarantee("BP-2")
@pytest.mark.parametrize("kind", ["spout", "bolt", "async bolt", "concurrent bolt"])
def test_a_stopped_task_uses_no_cpu(kind: str) -> None:
    """While everything is stopped, only the clock of trees wakes the loop."""
    gate = Gate()

    class AsyncPass(PassOn):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            PassOn.execute(self, tup)

    class ConcurrentPass(AsyncPass):
        concurrency = 10

    between: list[Any] = {"spout": [], "bolt": [PassOn], "async bolt": [AsyncPass], "concurrent bolt": [ConcurrentPass]}[kind]

    async def main() -> int:
        async with running(chain(Flood, *between, lambda: gate), executor_receive_buffer_size=100):
            await asyncio.sleep(5)
            running_loop: Any = loop()
            turns, select = 0, running_loop._selector.turn

            def counted(timeout: float | None) -> Any:
                nonlocal turns
                turns += 1
                return select(timeout)

            running_loop._selector.turn = counted
            await asyncio.sleep(60)
            running_loop._selector.turn = select
            return turns

    turns = play(main)
    assert turns < 60 / 3.75 * 20


@pytest.mark.guarantee("BP-2")
def test_a_stopped_spout_still_gets_verdicts() -> None:
    """Given a spout that a full mailbox stops, when trees on another path are settled, then it gets their verdicts."""
    gate, sink = Gate(), Capture()

    class Both(Numbers):
        output_fields = {"default": Fields("number"), "other": Fields("number")}  # type: ignore[assignment]

        def next_tuple(self) -> None:
            self.collector.emit((1,), None)
            self.collector.emit((2,), 2, "other")

    spout = Both(0)
    builder = TopologyBuilder("both")
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("gate", lambda: gate).shuffle_grouping("source")
    builder.set_bolt("sink", sink).shuffle_grouping("source", stream="other")

    async def main() -> None:
        async with running(builder.build(), executor_receive_buffer_size=20) as run:
            await asyncio.sleep(1)
            assert run.snapshot().components["source"].status == "full"
            assert len(spout.acked) == len(sink.arrivals) >= 20
            assert run.snapshot().components["source"].pending == 0

    play(main)


@pytest.mark.guarantee("BP-2")
def test_ready_waits_while_the_task_is_stopped() -> None:
    events: list[tuple[str, float]] = []
    gate = Gate()

    class Background(Bolt):
        output_fields = Fields("number")

        def prepare(self) -> None:
            self.context.create_task(self.work())

        async def work(self) -> None:
            for number in range(300):
                await self.collector.ready()
                self.collector.emit((number,))
            events.append(("done", loop().time()))

        def execute(self, tup: Tuple) -> None: ...

    async def main() -> None:
        async with running(chain(Endless, Background, lambda: gate), executor_receive_buffer_size=50) as run:
            await asyncio.sleep(10)
            assert 49 <= waiting(run, "bolt2") <= 51
            assert not events
            gate.let(1000)
            await asyncio.sleep(10)
            assert events == [("done", 10)]

    play(main)


@pytest.mark.guarantee("BP-3")
@pytest.mark.parametrize("kind", ["spout is fast", "pending is bounded"])
def test_a_bolt_a_thousand_times_slower_than_its_spout_gets_every_tuple(kind: str) -> None:
    """The test runs a minute of virtual time, twice T. Mailbox and memory stay bounded, and no tuple is lost or times out."""
    flood = Flood()
    sizes: list[tuple[int, int]] = []

    class Slow(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(0.05)
            self.collector.ack(tup)

    settings: dict[str, Any] = {"max_spout_pending": 500} if kind == "pending is bounded" else {"executor_receive_buffer_size": 500}

    async def main() -> None:
        async with running(chain(lambda: flood, Slow), **settings) as run:
            await asyncio.sleep(5)
            tracemalloc.start()
            for _ in range(6):
                await asyncio.sleep(10)
                gc.collect()
                sizes.append((waiting(run, "bolt1"), tracemalloc.get_traced_memory()[0]))
            tracemalloc.stop()
            await run.drain(100)
            assert run.state == "drained"

    play(main)
    assert all(250 <= count <= 501 for count, _ in sizes), sizes
    assert sizes[-1][1] - sizes[0][1] < 50_000, sizes
    assert flood.failed == 0
    assert flood.acked == flood.emitted > 1200


@pytest.mark.guarantee("BP-3")
def test_a_tree_that_waits_for_an_hour_in_a_mailbox_does_not_time_out() -> None:
    spout, gate = AtOnce(40), Gate()

    async def main() -> None:
        async with running(chain(lambda: spout, lambda: gate)) as run:
            await asyncio.sleep(1)
            gate.let(1)
            await asyncio.sleep(3600)
            assert sorted(spout.failed + spout.acked) == [0, 1], "only the tuple in the call may time out"
            gate.let(100)
            await run.completed()

    play(main, limit_secs=7200)
    assert sorted(spout.acked) == [0, *range(2, 40)]


@pytest.mark.guarantee("BP-3")
def test_with_timeout_from_emit_waiting_trees_time_out() -> None:
    spout, gate = AtOnce(40), Gate()

    async def main() -> None:
        async with running(chain(lambda: spout, lambda: gate), timeout_from="emit"):
            await asyncio.sleep(60)
            assert sorted(spout.failed) == list(range(40))

    play(main)


@pytest.mark.guarantee("BP-1", "BP-2")
@pytest.mark.parametrize("seed", range(4))
def test_a_diamond_with_tiny_mailboxes_loses_no_tuple(seed: int) -> None:
    class Slow(Bolt):
        output_fields = Fields("number")

        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(self.context.random.random() / 1000)
            self.collector.emit((tup[0],), tup)
            self.collector.ack(tup)

    spout, sink = Numbers(400), Capture()
    builder = TopologyBuilder("diamond", config=Config(executor_receive_buffer_size=2, seed=seed))
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("slow", Slow, 2).shuffle_grouping("source")
    builder.set_bolt("quick", PassOn, 2).shuffle_grouping("source")
    builder.set_bolt("sink", sink).shuffle_grouping("slow").shuffle_grouping("quick")
    play_run(builder.build(), shuffle=Random(seed))
    assert sorted(spout.acked) == list(range(400))
    assert sorted(sink.field(0)) == sorted([*range(400)] * 2)


@pytest.mark.guarantee("BP-2")
def test_after_the_death_of_a_full_task_its_senders_continue_with_the_next_instance() -> None:
    made: list[Keeper] = []

    class DiesLater(Keeper):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            if len(made) == 1:
                await asyncio.sleep(10)
                raise ValueError("dies full")
            self.collector.ack(tup)

    spout = Numbers(1000)
    run = play_run(chain(lambda: spout, DiesLater), Config(executor_receive_buffer_size=10, on_error="restart"))
    assert run.state == "complete"
    assert len(spout.acked) == 999
    assert spout.failed == [0]
