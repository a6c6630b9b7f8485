"""Trees, and DAGs by several anchors: same verdicts for any order and any number of ackers (ACK-1, 2, 7)."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine import Bolt, Config, Fields, Run, Spout, SpoutExhausted, Topology, TopologyBuilder, Tuple
from engine.testing import Capture, Feeder, run_topology

ACKERS = pytest.mark.parametrize("ackers", [1, 2, 5])


class Joins(Bolt):
    """Waits for `width` inputs, then emits one tuple `emits` times, anchored to all of them, and acks them."""

    output_fields = Fields("numbers")

    def __init__(self, width: int, *, emits: int = 1, times_listed: int = 1, in_a: type = list) -> None:
        self.width, self.emits, self.times_listed, self.in_a = width, emits, times_listed, in_a
        self.waiting: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.waiting.append(tup)
        if len(self.waiting) == self.width:
            for _ in range(self.emits):
                self.collector.emit((tuple(one[0] for one in self.waiting),), self.in_a(self.waiting * self.times_listed))
            while self.waiting:
                self.collector.ack(self.waiting.pop())


class Splits(Bolt):
    """Emits each input `width` times, anchored; acks it."""

    output_fields = Fields("number", "part")

    def __init__(self, width: int) -> None:
        self.width = width

    def execute(self, tup: Tuple) -> None:
        for part in range(self.width):
            self.collector.emit((tup[0], part), tup)
        self.collector.ack(tup)


def chain(feeder: Feeder, *bolts: Any) -> Topology:
    """Build the feeder and the bolts in a row."""
    builder, before = TopologyBuilder("chain"), "feed"
    builder.set_spout("feed", feeder)
    for number, bolt in enumerate(bolts, 1):
        builder.set_bolt(f"bolt{number}", bolt).shuffle_grouping(before)
        before = f"bolt{number}"
    return builder.build()


def run_script(feeder: Feeder, topology: Topology, script: Callable[[Run], Awaitable[object]], ackers: int = 1) -> None:
    run_topology(topology, Config(acker_executors=ackers), during=script)
    assert feeder.open == []


def numbers(count: int) -> tuple[Feeder, list[object]]:
    feeder = Feeder("number")
    return feeder, feeder.feed_all((number,) for number in range(count))


@pytest.mark.guarantee("ACK-1", "ACK-7")
@ACKERS
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_tree_is_acked_after_its_last_leaf_in_any_order(ackers: int, order: tuple[int, ...]) -> None:
    (feeder, _), leaves = numbers(1), Capture(settles=False)

    async def script(run: Run) -> None:
        await leaves.arrived(3)
        assert len({tup.roots for tup in leaves.tuples}) == 1
        for leaf in order:
            assert feeder.acked == []
            leaves.ack(leaves.tuples[leaf])
        feeder.close()
        await feeder.settled()

    run_script(feeder, chain(feeder, lambda: Splits(3), leaves), script, ackers)
    assert feeder.acked == [1]


@pytest.mark.guarantee("ACK-1")
def test_every_tree_and_every_delivery_has_its_own_id() -> None:
    (feeder, _), sink = numbers(200), Capture()
    feeder.close()
    builder = TopologyBuilder("ids")
    builder.set_spout("feed", feeder)
    builder.set_bolt("sink", sink, parallelism=3).all_grouping("feed")
    run_topology(builder.build())
    roots = [tup.roots for tup in sink.tuples]
    assert all(len(of_one) == 1 and of_one[0] != 0 for of_one in roots)
    assert len(set(roots)) == 200
    assert len(feeder.acked) == 200


@pytest.mark.guarantee("ACK-2", "ACK-7")
@ACKERS
@pytest.mark.parametrize("in_a", [list, tuple, set, frozenset])
def test_a_tuple_with_several_anchors_keeps_all_their_trees_open(ackers: int, in_a: type) -> None:
    (feeder, ids), sink = numbers(5), Capture(settles=False)

    async def script(run: Run) -> None:
        await sink.arrived(1)
        assert len(set(sink.tuples[0].roots)) == 5
        assert feeder.acked == []
        sink.ack(sink.tuples[0])
        await feeder.settled()
        feeder.close()

    run_script(feeder, chain(feeder, lambda: Joins(5, in_a=in_a), sink), script, ackers)
    assert sorted(map(str, feeder.acked)) == sorted(map(str, ids))


@pytest.mark.guarantee("ACK-2", "ACK-4", "ACK-7")
@ACKERS
def test_a_failed_joined_tuple_fails_exactly_its_trees(ackers: int) -> None:
    (feeder, ids), sink = numbers(6), Capture(settles=False)

    async def script(run: Run) -> None:
        await sink.arrived(2)
        sink.fail(sink.tuples[0])
        sink.ack(sink.tuples[1])
        await feeder.settled()
        feeder.close()

    run_script(feeder, chain(feeder, lambda: Joins(3), sink), script, ackers)
    assert {message_id for message_id, _ in feeder.failed} == set(ids[:3])
    assert set(feeder.acked) == set(ids[3:])
    assert {(failure.reason, failure.component_id) for _, failure in feeder.failed} == {("failed", "bolt2")}


@pytest.mark.guarantee("ACK-2")
@ACKERS
@pytest.mark.parametrize("times", [2, 3])
def test_the_same_anchor_listed_several_times_still_balances(ackers: int, times: int) -> None:
    (feeder, _), sink = numbers(4), Capture()
    feeder.close()
    run_topology(chain(feeder, lambda: Joins(2, times_listed=times), sink), Config(acker_executors=ackers))
    assert len(feeder.acked) == 4
    assert all(len(tup.roots) == 2 for tup in sink.tuples)


@pytest.mark.guarantee("ACK-2")
@ACKERS
def test_anchors_with_several_roots_make_a_dag(ackers: int) -> None:
    # 8 trees → 4 tuples of two trees → 2 of four, each twice → split in three → 1 of all
    (feeder, ids), sink = numbers(8), Capture(settles=False)

    async def script(run: Run) -> None:
        await sink.arrived(1)
        assert len(set(sink.tuples[0].roots)) == 8
        assert feeder.acked == []
        sink.ack(sink.tuples[0])
        await feeder.settled()
        feeder.close()

    bolts = (lambda: Joins(2), lambda: Joins(2, emits=2), lambda: Splits(3), lambda: Joins(12))
    run_script(feeder, chain(feeder, *bolts, sink), script, ackers)
    assert set(feeder.acked) == set(ids)
    assert feeder.failed == []


@pytest.mark.guarantee("ACK-2")
@ACKERS
@pytest.mark.parametrize("failing", [None, 0, 1, 2])
def test_a_diamond_is_acked_when_both_ways_are(ackers: int, failing: int | None) -> None:
    (feeder, _), sink = numbers(1), Capture(settles=False)

    builder = TopologyBuilder("diamond")
    builder.set_spout("feed", feeder)
    builder.set_bolt("left", lambda: Splits(1)).shuffle_grouping("feed")
    builder.set_bolt("right", lambda: Splits(2)).shuffle_grouping("feed")
    builder.set_bolt("meets", lambda: Joins(3, emits=3)).global_grouping("left").global_grouping("right")
    builder.set_bolt("sink", sink).shuffle_grouping("meets")

    async def script(run: Run) -> None:
        await sink.arrived(3)
        assert {len(tup.roots) for tup in sink.tuples} == {1}
        for number, tup in enumerate(sink.tuples):
            assert feeder.verdicts == []
            (sink.fail if number == failing else sink.ack)(tup)
            if number == failing:
                break
        await feeder.settled()
        feeder.close()

    run_script(feeder, builder.build(), script, ackers)
    assert (feeder.acked, [message_id for message_id, _ in feeder.failed]) == (([1], []) if failing is None else ([], [1]))


@pytest.mark.guarantee("ACK-2", "ACK-6")
def test_a_tuple_without_anchors_belongs_to_no_tree() -> None:
    class Detaches(Splits):
        def execute(self, tup: Tuple) -> None:
            nothing: list[Any] = [None, [], ()]
            for anchors in (*nothing, tup):
                self.collector.emit((tup[0], 0), anchors)
            self.collector.ack(tup)

    (feeder, _), sink = numbers(1), Capture(settles=False)

    async def script(run: Run) -> None:
        await sink.arrived(4)
        assert [len(tup.roots) for tup in sink.tuples] == [0, 0, 0, 1]
        sink.ack(sink.tuples[3])
        await feeder.settled()
        for tup in sink.tuples[:3]:
            sink.fail(tup)
        feeder.close()

    run_script(feeder, chain(feeder, lambda: Detaches(0), sink), script)
    assert (feeder.acked, feeder.failed) == ([1], [])


@pytest.mark.guarantee("ACK-2")
def test_an_untracked_input_is_an_anchor_without_a_tree() -> None:
    feeder, sink = Feeder("number"), Capture()
    feeder.feed((0,), tracked=False)
    feeder.feed((1,))
    feeder.close()
    run_topology(chain(feeder, lambda: Joins(2), sink))
    assert sink.values == [((0, 1),)]
    assert len(sink.tuples[0].roots) == 1
    assert feeder.acked == [1]


@pytest.mark.guarantee("ACK-3", "ACK-4")
def test_only_the_task_that_emitted_a_tree_gets_its_verdict() -> None:
    class Own(Spout):
        output_fields = Fields("number")
        heard: list[tuple[str, int, Any]] = []

        def open(self) -> None:
            self.left = 6

        def next_tuple(self) -> None:
            if not self.left:
                raise SpoutExhausted
            self.left -= 1
            self.collector.emit((self.left,), (self.context.task_id, self.left))

        def ack(self, message_id: Any) -> None:
            self.heard.append(("ack", self.context.task_id, message_id))

        def fail(self, message_id: Any) -> None:
            self.heard.append(("fail", self.context.task_id, message_id))

    class Odd(Bolt):
        def execute(self, tup: Tuple) -> None:
            (self.collector.fail if tup[0] % 2 else self.collector.ack)(tup)

    builder = TopologyBuilder("own")
    builder.set_spout("own", Own, parallelism=3)
    builder.set_bolt("odd", Odd, parallelism=2).shuffle_grouping("own")
    run_topology(builder.build(), Config(acker_executors=2), shuffle=True)
    assert sorted(Own.heard) == sorted(("fail" if number % 2 else "ack", task, (task, number)) for task in (1, 2, 3) for number in range(6))
