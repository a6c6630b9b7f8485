"""Figures of a snapshot that tell where the time goes: edges, slots, and the time on the loop."""

import asyncio
from typing import Any

import pytest

import engine
from engine import BasicBolt, TopologyBuilder, Tuple, stateful_bolt
from engine.runtime.bottleneck import find_bottleneck, loop_busy
from engine.runtime.snapshot import Snapshot, TaskSnapshot, capacity
from tests.runtime.stage import Counting, Endless, EverySecond, Numbers, PassOn, Sink, chain, loop, play, play_run, running


def only_task(now: Snapshot, component_id: str) -> TaskSnapshot:
    (task,) = now.components[component_id].tasks
    return task


def edges(now: Snapshot) -> dict[tuple[str, str, str], int]:
    return {(edge.source, edge.target, edge.stream): edge.tuples for edge in now.edges}


@stateful_bolt()
def count(tup: Tuple, state: Any) -> None:
    state.put(tup["number"], 1)


# Edges


def test_an_edge_has_the_tuples_of_all_tasks_on_both_sides() -> None:
    builder = TopologyBuilder("edges")
    builder.set_spout("source", lambda: Numbers(10))
    builder.set_bolt("pass", PassOn, parallelism=3).shuffle_grouping("source")
    builder.set_bolt("all", Sink, parallelism=2).all_grouping("pass").shuffle_grouping("source")
    now = play_run(builder.build()).snapshot()
    assert edges(now) == {("source", "pass", "default"): 10, ("source", "all", "default"): 10, ("pass", "all", "default"): 20}
    assert now.components["source"].transferred == 20


def test_the_streams_of_barriers_are_no_edges() -> None:
    builder = TopologyBuilder("barriers")
    builder.set_spout("source", lambda: Numbers(3))
    builder.set_bolt("count", count).fields_grouping("source", "number")
    assert edges(play_run(builder.build()).snapshot()) == {("source", "count", "default"): 3}


def test_the_count_of_an_edge_continues_after_a_restart() -> None:
    async def main() -> None:
        async with running(chain(lambda: EverySecond(6), PassOn, Sink)) as run:
            await asyncio.sleep(2.5)
            run.kill_task(run.task_ids("bolt1")[0])
            await run.completed()
            now = run.snapshot()
        assert now.components["bolt1"].restarts == 1
        assert edges(now)["bolt1", "bolt2", "default"] == now.components["bolt1"].transferred == 6

    play(main)


# Slots and the time on the loop


def test_a_plain_call_holds_the_loop() -> None:
    class Blocks(Sink):
        def execute(self, tup: Tuple) -> None:
            loop().advance(0.5)
            super().execute(tup)

    task = only_task(play_run(chain(lambda: Numbers(4), Blocks)).snapshot(), "bolt1")
    assert (task.busy_secs, task.loop_secs, task.slots) == (pytest.approx(2), pytest.approx(2), 1)


def test_an_async_call_holds_the_loop_in_its_steps_only() -> None:
    class Waits(Sink):
        concurrency = 4

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            loop().advance(0.25)
            await asyncio.sleep(1)
            self.collector.ack(tup)

    now = play_run(chain(lambda: Numbers(4), Waits)).snapshot()
    task = only_task(now, "bolt1")
    assert task.slots == 4
    assert task.loop_secs == pytest.approx(1.0)
    assert task.busy_secs == pytest.approx(10.5)  # the steps of 0.25 s follow each other, so the calls take 2.25 to 3 s
    assert capacity(None, now, "bolt1") == pytest.approx(10.5 / 4 / 3)


def test_an_async_call_that_raises_counts_as_well() -> None:
    class Raises(Sink):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            loop().advance(0.25)
            await asyncio.sleep(1)
            raise ValueError("wrong")

    class RaisesTogether(Raises):
        concurrency = 2

    for bolt in (Raises, RaisesTogether):
        task = only_task(play_run(chain(lambda: Numbers(2), bolt)).snapshot(), "bolt1")
        assert task.loop_secs == pytest.approx(0.5)
        assert task.busy_secs >= 2.5


@pytest.mark.parametrize("calls", [1, 3])
def test_a_running_call_counts_before_it_ends_and_never_twice(calls: int) -> None:
    class Waits(Sink):
        concurrency = calls

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(10)
            self.collector.ack(tup)

    async def main() -> None:
        async with running(chain(lambda: Numbers(calls), Waits)) as run:
            await asyncio.sleep(4)
            first = run.snapshot()
            await asyncio.sleep(4)
            second = run.snapshot()
            await run.completed()
            last = run.snapshot()
        assert only_task(first, "bolt1").busy_secs == pytest.approx(4 * calls, abs=0.1)
        assert capacity(first, second, "bolt1") == pytest.approx(1)
        assert only_task(last, "bolt1").busy_secs == pytest.approx(10 * calls, abs=0.1)

    play(main)


def test_calls_of_a_dead_instance_stay_counted() -> None:
    class Waits(Sink):
        concurrency = 2

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(10)
            self.collector.ack(tup)

    async def main() -> None:
        async with running(chain(lambda: Numbers(2), Waits)) as run:
            await asyncio.sleep(4)
            run.kill_task(run.task_ids("bolt1")[0])
            await asyncio.sleep(1)
            assert only_task(run.snapshot(), "bolt1").busy_secs == pytest.approx(8, abs=0.1)
            await run.stop()

    play(main)


def test_a_call_in_a_thread_does_not_hold_the_loop() -> None:
    class Computes(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            sum(range(100_000))

    builder = TopologyBuilder("threads")
    builder.set_spout("source", lambda: Numbers(4))
    builder.set_bolt("computes", Computes, threads=2).shuffle_grouping("source")

    async def main() -> Snapshot:
        async with engine.run(builder.build()) as run:
            await run.completed()
            return run.snapshot()

    task = only_task(asyncio.run(main()), "computes")
    assert (task.slots, task.loop_secs) == (2, 0)
    assert task.busy_secs > 0


def test_an_async_spout_counts_its_steps_and_the_whole_time_of_its_calls() -> None:
    class Source(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            loop().advance(0.5)
            super().next_tuple()

    async def main() -> None:
        async with running(chain(lambda: Source(3), Sink)) as run:
            await asyncio.sleep(0.75)
            assert only_task(run.snapshot(), "source").busy_secs == pytest.approx(0.75)
            await run.completed()
            task = only_task(run.snapshot(), "source")
        assert task.loop_secs == pytest.approx(2)  # three numbers, and the end of the source
        assert task.busy_secs == pytest.approx(6)
        assert (task.slots, task.process_latency) == (1, None)

    play(main)


def test_steps_of_background_work_hold_the_loop() -> None:
    class Works(Endless):
        def open(self) -> None:
            self.context.create_task(self.work())

        async def work(self) -> None:
            await asyncio.sleep(1)
            loop().advance(0.5)
            await asyncio.sleep(1)

    async def main() -> None:
        async with running(chain(Works, Sink)) as run:
            await asyncio.sleep(10)
            task = only_task(run.snapshot(), "source")
            assert (task.loop_secs, task.busy_secs) == (pytest.approx(0.5), pytest.approx(0))

    play(main)


def test_an_acker_holds_the_loop_while_it_is_busy() -> None:
    now = play_run(chain(lambda: Numbers(3), Sink)).snapshot()
    task = only_task(now, "__acker")
    assert (task.loop_secs, task.slots) == (task.busy_secs, 1)


# Latencies


def test_the_histograms_have_all_trees_and_the_measured_inputs() -> None:
    now = play_run(chain(lambda: EverySecond(5), Sink)).snapshot()
    complete, process = now.components["source"].complete_latency, now.components["bolt1"].process_latency
    assert complete is not None
    assert process is not None
    assert (complete.count, complete.below[-1], process.count) == (5, 5, 5)
    assert now.components["source"].process_latency is now.components["bolt1"].complete_latency is None


# The loop


def test_virtual_time_takes_no_cpu_time() -> None:
    now = play_run(chain(lambda: Numbers(3), Sink)).snapshot()
    assert now.loop_cpu_secs == 0


def test_the_cpu_time_of_the_loop_is_unknown_on_another_thread() -> None:
    async def main() -> None:
        async with engine.run(chain(lambda: Numbers(3), Sink)) as run:
            assert (run.snapshot().loop_cpu_secs or 0) > 0
            assert (await asyncio.to_thread(run.snapshot)).loop_cpu_secs is None
            await run.completed()

    asyncio.run(main())


def test_a_bolt_that_blocks_the_loop_is_the_bottleneck() -> None:
    class Signs(Sink):
        def execute(self, tup: Tuple) -> None:
            loop().advance(0.01)
            super().execute(tup)

    builder = TopologyBuilder("signs")
    builder.set_spout("orders", Counting, max_spout_pending=100)
    builder.set_bolt("sign", Signs).shuffle_grouping("orders")

    async def main() -> None:
        async with running(builder.build()) as run:
            await asyncio.sleep(1)
            before = run.snapshot()
            await asyncio.sleep(1)
            now = run.snapshot()
            assert loop_busy(before, now) == pytest.approx(1)
            found = find_bottleneck(before, now)
            assert (found.kind, found.component_id) == ("loop", "sign")
            assert found.text == "'sign' blocks the loop 100% of the time. Make it async, or give it threads."
            await run.stop()

    play(main)


def test_with_state_the_open_trees_wait_for_the_checkpoint() -> None:
    builder = TopologyBuilder("waits")
    builder.set_spout("source", lambda: Numbers(1000), max_spout_pending=10)
    builder.set_bolt("count", count).fields_grouping("source", "number")

    async def main() -> None:
        async with running(builder.build(), state_checkpoint_interval_ms=5000) as run:
            await asyncio.sleep(1)
            before = run.snapshot()
            await asyncio.sleep(1)
            found = find_bottleneck(before, run.snapshot())
            assert (found.kind, found.component_id) == ("pending", "source")
            assert found.text == (
                "'source' waits for acks: 10 of 10 trees are open, and nothing is busy. Acks wait for the next checkpoint. "
                "Raise max_spout_pending, or lower state_checkpoint_interval_ms."
            )
            await run.stop()

    play(main)
