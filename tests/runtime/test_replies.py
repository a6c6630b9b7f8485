"""Calls of an Inlet: each returns exactly the tuples of its own tree that reached a Reply (SV-6, SV-7)."""

import asyncio
import gc
import weakref
from collections import Counter
from contextlib import aclosing
from typing import Any

import pytest
import uvloop

import engine
from engine import BasicBolt, Bolt, Config, Fields, Inlet, Reply, Run, RunEnded, Topology, TopologyBuilder, Tuple, TupleFailed, UsageError
from tests.runtime.stage import Keeper, PassOn, loop, play, running, strict

pytestmark = pytest.mark.guarantee("SV-6")


class Parts(Bolt):
    """Emits (number, 0) to (number, number - 1), and takes a while for some inputs, so that calls overtake each other."""

    output_fields = Fields("number", "part")
    concurrency = 7

    async def execute(self, tup: Tuple) -> None:
        for part in range(tup["number"]):
            if (tup["number"] + part) % 3 == 0:
                await asyncio.sleep(0.001 * part)
            self.collector.emit((tup["number"], part), tup)
        self.collector.ack(tup)


class Pairs(Bolt):
    """Joins each two inputs into one tuple with both as anchors."""

    output_fields = Fields("first", "second")

    def prepare(self) -> None:
        self.waiting: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.waiting.append(tup)
        if len(self.waiting) == 2:
            first, second = self.waiting
            self.collector.emit((first[0], second[0]), [first, second])
            self.collector.ack(first)
            self.collector.ack(second)
            self.waiting = []


class Holds(Keeper):
    output_fields = Fields("number")


class Refuses(BasicBolt):
    """Passes numbers on, but fails odd ones after their emit."""

    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> Any:
        yield (tup[0],)
        if tup[0] % 2:
            raise ValueError(f"{tup[0]} is odd")


def topology_of(bolt: Any, *, grouping: str = "shuffle", tasks: int = 1, replies: int = 1, **inlet: Any) -> Topology:
    """inlet -> bolt -> reply."""
    builder = TopologyBuilder("calls")
    builder.set_spout("in", lambda: Inlet("number", **inlet), parallelism=2)
    builder.set_bolt("bolt", bolt, parallelism=tasks).fields_grouping("in", "number")
    getattr(builder.set_bolt("reply", Reply, parallelism=replies), f"{grouping}_grouping")("bolt")
    return builder.build()


def values(rows: list[Tuple]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows]


def left_in(run: Run) -> list[object]:
    """Return the open trees and the waiting senders of a run."""
    inlet = run.inlet("in")
    trees = [spout.core.open_trees.roots() for spout in run._assembled.user_spouts]
    return [inlet.waiting, sum(map(len, trees))]


@pytest.mark.parametrize(("grouping", "times"), [("shuffle", 1), ("load_aware", 1), ("global", 1), ("all", 3)])
def test_thousands_of_calls_at_once_each_get_the_tuples_of_their_own_tree(grouping: str, times: int) -> None:
    async def main() -> None:
        async with running(topology_of(Parts, grouping=grouping, tasks=3, replies=3)) as run:
            inlet = run.inlet("in")
            numbers = [number % 5 for number in range(3000)]
            results = await asyncio.gather(*(inlet.call((number,)) for number in numbers))
            for number, rows in zip(numbers, results, strict=True):
                assert Counter(values(rows)) == {(number, part): times for part in range(number)}
            assert left_in(run) == [0, 0]

    play(main)


def test_a_row_has_the_fields_of_its_stream() -> None:
    async def main() -> None:
        async with running(topology_of(Parts)) as run:
            rows = await run.inlet("in").call((2,))
            assert [(row["number"], row["part"]) for row in rows] == [(2, 0), (2, 1)]

    play(main)


def test_a_tuple_with_anchors_of_several_calls_belongs_to_each_of_them() -> None:
    async def main() -> None:
        async with running(topology_of(Pairs, tasks=1)) as run:
            first, second = await asyncio.gather(run.inlet("in").call((1,)), run.inlet("in").call((2,)))
            assert values(first) == values(second)
            assert sorted(*values(first)) == [1, 2]

    play(main)


def test_a_failed_call_raises_and_leaves_the_others_alone() -> None:
    async def main() -> None:
        async with running(topology_of(Refuses, tasks=2)) as run:
            results = await asyncio.gather(*(run.inlet("in").call((number,)) for number in range(100)), return_exceptions=True)
            for number, result in enumerate(results):
                if number % 2:
                    assert isinstance(result, TupleFailed)
                    assert f"{number} is odd" in str(result)
                else:
                    assert values(result) == [(number,)]
            assert left_in(run) == [0, 0]

    play(main)


@pytest.mark.guarantee("SV-7")
def test_a_call_whose_tree_never_ends_fails_at_the_timeout_and_leaves_nothing() -> None:
    async def main() -> None:
        async with running(topology_of(Holds), message_timeout_secs=8) as run:
            with pytest.raises(TupleFailed, match="timed out"):
                await run.inlet("in").call((1,))
            assert left_in(run) == [0, 0]

    play(main)


def test_a_call_with_a_timeout_of_its_own_raises_timeout_error() -> None:
    async def main() -> None:
        async with running(topology_of(Holds), message_timeout_secs=8) as run:
            with pytest.raises(TimeoutError):
                await run.inlet("in").call((1,), timeout=2)
            assert loop().time() == 2

    play(main)


@pytest.mark.guarantee("SV-7")
def test_a_cancelled_call_leaves_nothing_behind() -> None:
    class Slow(Bolt):
        output_fields = Fields("number")
        concurrency = 100

        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(1)
            self.collector.emit((tup[0],), tup)
            self.collector.ack(tup)

    async def main() -> None:
        async with running(topology_of(Slow, max_waiting=50)) as run:
            inlet = run.inlet("in")
            calls = [asyncio.create_task(inlet.call((number,))) for number in range(80)]
            await asyncio.sleep(0.5)
            assert inlet.waiting == 50
            for call in calls:
                call.cancel()
            assert {type(result) for result in await asyncio.gather(*calls, return_exceptions=True)} == {asyncio.CancelledError}
            assert values(await inlet.call((100,))) == [(100,)]
            assert left_in(run) == [0, 0]

    play(main)


@pytest.mark.guarantee("SV-7")
def test_the_rows_of_an_ended_call_are_released() -> None:
    class Big:
        pass

    class Makes(BasicBolt):
        output_fields = Fields("big")

        def execute(self, tup: Tuple) -> Any:
            made.append(weakref.ref(big := Big()))
            yield (big,)

    made: list[weakref.ref[Big]] = []

    async def main() -> None:
        async with running(topology_of(Makes)) as run:
            inlet = run.inlet("in")
            for number in range(10):
                await inlet.call((number,))
            await inlet.send((10,))
            gc.collect()
            assert len(made) == 11
            assert [big() for big in made] == [None] * 11

    play(main)


def test_stream_yields_each_row_as_it_comes_and_ends_with_the_tree() -> None:
    class EverySecond(Bolt):
        output_fields = Fields("number")

        async def execute(self, tup: Tuple) -> None:
            for number in range(tup[0]):
                await asyncio.sleep(1)
                self.collector.emit((number,), tup)
            await asyncio.sleep(5)
            self.collector.ack(tup)

    async def main() -> None:
        async with running(topology_of(EverySecond)) as run:
            seen = [(row[0], loop().time()) async for row in run.inlet("in").stream((3,))]
            assert seen == [(0, 1), (1, 2), (2, 3)]
            assert loop().time() == 8
            assert [row async for row in run.inlet("in").stream((0,))] == []

    play(main)


def test_a_stream_raises_the_failure_after_the_rows_before_it() -> None:
    async def main() -> None:
        async with running(topology_of(Refuses)) as run:
            rows = run.inlet("in").stream((3,))
            assert (await anext(rows))[0] == 3
            with pytest.raises(TupleFailed, match="3 is odd"):
                await anext(rows)

    play(main)


def test_a_stream_that_is_closed_before_its_failure_reports_nothing() -> None:
    async def main() -> None:
        async with running(topology_of(Refuses)) as run:
            async with aclosing(run.inlet("in").stream((3,))) as rows:
                assert (await anext(rows))[0] == 3
                await asyncio.sleep(1)
            assert left_in(run) == [0, 0]

    play(main)


@pytest.mark.guarantee("SV-7")
def test_a_stream_that_is_closed_early_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with running(topology_of(Parts)) as run:
            async with aclosing(run.inlet("in").stream((20,))) as rows:
                async for row in rows:
                    assert row["part"] == 0
                    break
            assert len(await run.inlet("in").call((4,))) == 4
            await asyncio.sleep(1)  # the tree of the stream ends by itself
            assert left_in(run) == [0, 0]

    play(main)


def test_calls_when_tasks_die_return_all_rows_or_fail() -> None:
    async def main() -> None:
        async with running(topology_of(Parts, tasks=2, replies=2)) as run:

            async def kill() -> None:
                for _ in range(20):
                    for component in ("bolt", "reply", "in", "__acker"):
                        await asyncio.sleep(0.003)
                        run.kill_task(run.task_ids(component)[0])

            async def client(number: int) -> None:
                for _ in range(60):
                    try:
                        rows = await run.inlet("in").call((number,))
                    except TupleFailed as failed:
                        ends[failed.failure.reason] += 1
                    else:
                        ends["answered"] += 1
                        assert sorted(values(rows)) == [(number, part) for part in range(number)]

            await asyncio.gather(kill(), *(client(number) for number in range(8)))
            assert left_in(run) == [0, 0]

    ends: Counter[str] = Counter()
    play(main)
    assert ends["answered"] > 100
    assert ends["task_died"] > 5


def test_a_call_pending_at_the_end_of_the_run_raises_run_ended() -> None:
    async def main() -> None:
        async with running(topology_of(Holds)) as run:
            call = asyncio.create_task(run.inlet("in").call((1,)))
            stream = aiter(run.inlet("in").stream((2,)))
            following = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(1)
            inlet = run.inlet("in")
        for waiting in (call, following):
            with pytest.raises(RunEnded):
                await waiting
        with pytest.raises(RunEnded):
            await inlet.call((3,))

    play(main)


def test_a_call_without_a_reply_or_without_ackers_is_refused() -> None:
    async def main() -> None:
        builder = TopologyBuilder("calls")
        builder.set_spout("in", lambda: Inlet("number"))
        builder.set_bolt("pass", PassOn).shuffle_grouping("in")
        async with running(builder.build()) as run:
            with pytest.raises(UsageError, match=r"the topology has none\nFix: Add builder.set_bolt"):
                await run.inlet("in").call((1,))
            with pytest.raises(UsageError, match=r"Inlet.call\(\) was given"):
                await run.inlet("in").call((1, 2))
        async with running(topology_of(Parts), acker_executors=0) as run:
            with pytest.raises(UsageError, match="acker_executors is 0"):
                await anext(aiter(run.inlet("in").stream((1,))))
            await run.inlet("in").send((1,))

    play(main)


@pytest.mark.parametrize("timeout", ["5", -1, True, float("nan")])
def test_a_wrong_timeout_is_refused_before_the_emit(timeout: Any) -> None:
    async def main() -> None:
        async with running(topology_of(Parts)) as run:
            with pytest.raises(UsageError, match="timeout is a number of seconds of at least 0") as raised:
                await run.inlet("in").call((1,), timeout=timeout)
            assert raised.value.hint == "Write timeout=5."
            assert run.snapshot().components["in"].emitted == 0

    play(main)


def test_inputs_of_a_reply_that_belong_to_no_call_are_dropped() -> None:
    class Aside(Bolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> None:
            self.collector.emit((-1,))
            self.collector.emit((tup[0],), tup)
            self.collector.ack(tup)

    async def main() -> None:
        async with running(topology_of(Aside)) as run:
            assert values(await run.inlet("in").call((1,))) == [(1,)]
            await run.inlet("in").send((2,))
            assert values(await run.inlet("in").call((3,))) == [(3,)]

    play(main)


def test_trees_that_an_inlet_opens_by_itself_belong_to_no_call() -> None:
    class Greets(Inlet):
        def next_tuple(self) -> None:
            if not self.in_flight and self.context.task_index == 0:
                self.collector.emit((0,), "a message id of its own")
            super().next_tuple()

        def ack(self, message_id: object) -> None:
            if not isinstance(message_id, str):
                super().ack(message_id)

    async def main() -> None:
        builder = TopologyBuilder("calls")
        builder.set_spout("in", lambda: Greets("number"))
        builder.set_bolt("parts", Parts).shuffle_grouping("in")
        builder.set_bolt("pass", PassOn).shuffle_grouping("in")
        builder.set_bolt("reply", Reply).shuffle_grouping("pass")
        async with running(builder.build(), max_spout_pending=3) as run:
            assert values(await run.inlet("in").call((5,))) == [(5,)]

    play(main)


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_calls_on_real_loops(make_loop: Any) -> None:
    async def main() -> None:
        async with engine.run(topology_of(Parts, tasks=3), Config()) as run:
            numbers = [number % 6 for number in range(500)]
            results = await asyncio.gather(*(run.inlet("in").call((number,), timeout=30) for number in numbers))
            assert [sorted(values(rows)) for rows in results] == [[(number, part) for part in range(number)] for number in numbers]

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(strict(main)())
