"""Target tasks of each grouping, from spouts and bolts, in whole runs (GRP-1, GRP-2, GRP-3)."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import BasicBolt, Bolt, Config, Fields, Run, TaskContext, TopologyBuilder, Tuple
from engine.kernel import key_group
from engine.testing import Capture, Feeder, run_topology
from engine.topology import BoltDeclarer
from tests.model.routing_model import PartialKeyModel

Subscribe = Callable[[BoltDeclarer, str], object]
"""Subscribes a bolt to a component."""


class Repeat(BasicBolt):
    """Emits its inputs again."""

    output_fields = Fields("key", "number")

    def execute(self, tup: Tuple) -> tuple[object, ...]:
        return tup.values


class Routed:
    """Run, and return (source task, index of the target task, values) of each tuple in order of arrival."""

    def __init__(self, rows: Sequence[tuple[Any, ...]], subscribe: Subscribe, **shape: Any) -> None:
        tasks, emitters, through_bolt = shape.get("tasks", 4), shape.get("emitters", 1), shape.get("through_bolt", False)
        feeder, sink, builder = Feeder("key", "number"), Capture(), TopologyBuilder("routes")
        feeder.feed_all(rows)
        feeder.close()
        builder.set_spout("rows", feeder, parallelism=1 if through_bolt else emitters)
        if through_bolt:
            builder.set_bolt("repeat", Repeat, parallelism=emitters).shuffle_grouping("rows")
        subscribe(builder.set_bolt("sink", sink, parallelism=tasks), "repeat" if through_bolt else "rows")
        finished = run_topology(builder.build(), shape.get("config"), seed=shape.get("seed", 0))
        assert finished.errors == ()
        assert len(set(feeder.acked)) == len(feeder.acked) == len(rows)
        ids = sorted(task.task_id for task in finished.snapshot.components["sink"].tasks)
        self.arrivals = [(arrival.tup.source_task, ids.index(arrival.task_id), arrival.tup.values) for arrival in sink.arrivals]

    @property
    def counts(self) -> list[int]:
        """Count the tuples of each target, the largest count first."""
        return sorted(Counter(target for _, target, _ in self.arrivals).values(), reverse=True)

    def by_source(self) -> dict[int, list[tuple[int, tuple[Any, ...]]]]:
        found: dict[int, list[tuple[int, tuple[Any, ...]]]] = defaultdict(list)
        for source, target, values in self.arrivals:
            found[source].append((target, values))
        return found


def rows(count: int, keys: int = 10) -> list[tuple[Any, ...]]:
    return [(f"key-{number % keys}", number) for number in range(count)]


THROUGH = pytest.mark.parametrize("through_bolt", [False, True])
EVEN: list[Subscribe] = [
    lambda bolt, source: bolt.shuffle_grouping(source),
    lambda bolt, source: bolt.none_grouping(source),
    lambda bolt, source: bolt.local_or_shuffle_grouping(source),
]


@pytest.mark.guarantee("GRP-1")
@pytest.mark.parametrize("subscribe", EVEN, ids=["shuffle", "none", "local-or-shuffle"])
@THROUGH
@pytest.mark.parametrize("count", [400, 403])
def test_shuffled_tuples_spread_exactly_evenly(subscribe: Subscribe, through_bolt: bool, count: int) -> None:
    routed = Routed(rows(count), subscribe, through_bolt=through_bolt)
    assert routed.counts == [100 + (count > 400)] * 3 + [100]
    targets = [target for _, target, _ in sorted(routed.arrivals, key=lambda arrival: arrival[2][1])]
    assert targets == (targets[:4] * count)[:count]
    assert sorted(targets[:4]) == [0, 1, 2, 3]


@pytest.mark.guarantee("GRP-1")
@THROUGH
def test_each_emitting_task_shuffles_evenly_from_its_own_start(through_bolt: bool) -> None:
    routed = Routed(rows(303), EVEN[0], emitters=3, through_bolt=through_bolt)
    for sent in routed.by_source().values():
        counts = Counter(target for target, _ in sent)
        assert max(counts.values()) - min(counts.values()) <= 1
    firsts = {Routed(rows(1), EVEN[0], seed=seed).arrivals[0][1] for seed in range(12)}
    assert firsts == {0, 1, 2, 3}


@pytest.mark.guarantee("GRP-1", "GRP-2")
@THROUGH
@pytest.mark.parametrize("key_groups", [7, 128])
def test_fields_grouping_uses_the_stable_hash_and_the_key_group(through_bolt: bool, key_groups: int) -> None:
    routed = Routed(
        rows(200, keys=40),
        lambda bolt, source: bolt.fields_grouping(source, "key"),
        emitters=2,
        through_bolt=through_bolt,
        config=Config(key_groups=key_groups),
    )
    for _, target, (key, _) in routed.arrivals:
        assert target == key_group(key, key_groups) * 4 // key_groups


@pytest.mark.guarantee("GRP-1", "GRP-2")
def test_several_fields_form_one_key_in_the_order_of_the_grouping() -> None:
    routed = Routed(rows(100, keys=3), lambda bolt, source: bolt.fields_grouping(source, "number", "key"))
    for _, target, (key, number) in routed.arrivals:
        assert target == key_group((number, key), 128) * 4 // 128
    assert len(routed.counts) == 4


@pytest.mark.guarantee("GRP-2")
@settings(max_examples=10)
@given(keys=st.lists(st.one_of(st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.none()), min_size=1, max_size=20))
def test_equal_keys_go_to_the_same_task(keys: list[object]) -> None:
    routed = Routed([(key, 0) for key in keys * 2], lambda bolt, source: bolt.fields_grouping(source, "key"), emitters=2)
    where: dict[object, int] = {}
    for _, target, (key, _) in routed.arrivals:
        assert where.setdefault(key, target) == target


@pytest.mark.guarantee("GRP-1")
@THROUGH
def test_all_sends_every_tuple_to_every_task(through_bolt: bool) -> None:
    routed = Routed(rows(10), lambda bolt, source: bolt.all_grouping(source), through_bolt=through_bolt)
    for index in range(4):
        assert [values for _, target, values in routed.arrivals if target == index] == rows(10)


@pytest.mark.guarantee("GRP-1")
@THROUGH
def test_global_sends_everything_to_the_lowest_task(through_bolt: bool) -> None:
    routed = Routed(rows(10), lambda bolt, source: bolt.global_grouping(source), emitters=2, through_bolt=through_bolt)
    assert {target for _, target, _ in routed.arrivals} == {0}
    assert len(routed.arrivals) == 10


@pytest.mark.guarantee("GRP-1")
@THROUGH
def test_partial_key_chooses_the_less_used_of_two_candidates_for_each_emitter(through_bolt: bool) -> None:
    routed = Routed(
        rows(300, keys=6), lambda bolt, source: bolt.partial_key_grouping(source, "key"), tasks=5, emitters=2, through_bolt=through_bolt
    )
    assert len(routed.by_source()) == 2
    tasks_of: dict[object, set[int]] = defaultdict(set)
    for sent in routed.by_source().values():
        model = PartialKeyModel(5)
        for target, (key, number) in sorted(sent, key=lambda row: row[1][1]):
            assert target == model.choose(key), number
            tasks_of[key].add(target)
    assert max(len(tasks) for tasks in tasks_of.values()) == 2


class Unequal(Bolt):
    """The first task takes ten seconds for a tuple, the others take none."""

    def __init__(self, got: Counter[int]) -> None:
        self.got = got

    async def execute(self, tup: Tuple) -> None:
        self.got[self.context.task_index] += 1
        if self.context.task_index == 0:
            await asyncio.sleep(10)
        self.collector.ack(tup)


@pytest.mark.guarantee("GRP-1")
def test_load_aware_avoids_the_task_with_the_longest_queue() -> None:
    feeder, got, builder = Feeder("key", "number"), Counter[int](), TopologyBuilder("load")
    builder.set_spout("rows", feeder)
    builder.set_bolt("sink", lambda: Unequal(got), parallelism=3).load_aware_grouping("rows")

    async def script(run: Run) -> None:
        for row in rows(90):
            feeder.feed(row)
            await asyncio.sleep(0.1)
        feeder.close()

    run_topology(builder.build(), during=script)
    assert sum(got.values()) == 90
    assert got[0] <= 3
    assert abs(got[1] - got[2]) <= 2


# Direct


class Directs(Bolt):
    """Sends each input to the task with the index number modulo tasks, on a direct stream."""

    output_fields = {"direct": Fields("key", "number", direct=True)}

    def execute(self, tup: Tuple) -> None:
        targets = self.context.targets("direct")
        self.collector.emit_direct(targets[tup["number"] % len(targets)], tup.values, tup, "direct")
        self.collector.ack(tup)


@pytest.mark.guarantee("GRP-1")
def test_the_emitter_names_the_task_on_a_direct_stream() -> None:
    routed_by_bolt = direct_routes(through_bolt=True)
    assert routed_by_bolt == direct_routes(through_bolt=False) == {index: [n for n in range(12) if n % 3 == index] for index in range(3)}


def direct_routes(*, through_bolt: bool) -> dict[int, list[int]]:
    """Run, and return the numbers of each of three tasks, by index."""

    class DirectFeeder(Feeder):
        def take_next(self, task_id: int) -> Any:
            row = super().take_next(task_id)
            if row is None or through_bolt:
                return row
            values, message_id, stream = row
            spout = self._instances[task_id]
            targets = spout.context.targets(stream)
            number: Any = values[1]
            spout.collector.emit_direct(targets[number % 3], values, message_id, stream)
            return None

    stream = "default" if through_bolt else "direct"
    feeder = DirectFeeder(streams={stream: Fields("key", "number", direct=not through_bolt)})
    feeder.feed_all(rows(12), stream)
    feeder.close()
    sink, builder = Capture(), TopologyBuilder("direct")
    builder.set_spout("rows", feeder)
    if through_bolt:
        builder.set_bolt("directs", Directs).shuffle_grouping("rows")
    builder.set_bolt("sink", sink, parallelism=3).direct_grouping("directs" if through_bolt else "rows", "direct")
    finished = run_topology(builder.build())
    assert len(feeder.acked) == 12
    ids = sorted(task.task_id for task in finished.snapshot.components["sink"].tasks)
    return {index: [arrival.tup["number"] for arrival in sink.arrivals if arrival.task_id == ids[index]] for index in range(3)}


# Custom


class ByNumber:
    """Sends a number to the targets with a lower index, and counts its calls."""

    prepared: list[tuple[str, str, int, tuple[int, ...]]] = []

    def __init__(self) -> None:
        self.used = 0

    def prepare(self, context: TaskContext, stream: str, targets: Sequence[int]) -> None:
        self.targets = tuple(targets)
        self.prepared.append((context.component_id, stream, context.task_id, self.targets))

    def choose_tasks(self, source_task: int, values: Any) -> Sequence[int]:
        self.used += 1
        return self.targets[: values[1]]


@pytest.mark.guarantee("GRP-1")
@pytest.mark.parametrize("instance", [False, True])
def test_a_custom_grouping_chooses_any_number_of_tasks(instance: bool) -> None:
    ByNumber.prepared.clear()
    grouping = ByNumber() if instance else ByNumber
    routed = Routed([("x", number) for number in (0, 1, 4, 2)], lambda bolt, source: bolt.custom_grouping(source, grouping), emitters=2)
    assert sorted((values[1], target) for _, target, values in routed.arrivals) == [(1, 0), (2, 0), (2, 1), (4, 0), (4, 1), (4, 2), (4, 3)]
    assert ByNumber.prepared == [("rows", "default", 1, (3, 4, 5, 6)), ("rows", "default", 2, (3, 4, 5, 6))]
    assert not isinstance(grouping, ByNumber) or grouping.used == 0


class ByTable(ByNumber):
    """Looks up its choice in a table."""

    table: dict[str, Any] = {"wrong": [99], "number": 3, "nothing": None, "right": [2]}

    def choose_tasks(self, source_task: int, values: Any) -> Any:
        return self.table[values[0]]


@pytest.mark.guarantee("GRP-1")
def test_a_wrong_result_of_a_custom_grouping_is_a_usage_error_and_its_exception_is_raised() -> None:
    feeder, sink, builder = Feeder("key", "number"), Capture(), TopologyBuilder("custom")
    builder.set_spout("rows", feeder)
    builder.set_bolt("repeat", Repeat, on_error="fail").shuffle_grouping("rows")
    builder.set_bolt("sink", sink, parallelism=2).custom_grouping("repeat", ByTable)
    for key in ("wrong", "number", "nothing", "missing"):
        feeder.feed((key, 0))
    feeder.close()
    finished = run_topology(builder.build())
    assert [(message_id, failure.reason) for message_id, failure in feeder.failed] == [(n, "error") for n in (1, 2, 3, 4)]
    wrong, number, nothing, missing = (failure.error or "" for _, failure in feeder.failed)
    assert wrong.startswith("UsageError: bolt 'repeat': a custom grouping chose task 99, which is not among its targets [3, 4]")
    assert number.startswith("UsageError: bolt 'repeat': a custom grouping returned 3, which is not a list of tasks")
    assert nothing.startswith("UsageError: bolt 'repeat': a custom grouping returned None, which is not a list of tasks")
    assert missing == "KeyError: 'missing'"
    assert [report.text for report in finished.errors] == [wrong, missing]
    assert sink.arrivals == []


# Several subscribers, several streams


@pytest.mark.guarantee("GRP-3")
def test_each_subscriber_of_a_stream_chooses_on_its_own() -> None:
    feeder, everyone, one, keyed = Feeder("key", "number"), Capture(), Capture(), Capture()
    feeder.feed_all(rows(20, keys=4))
    feeder.close()
    builder = TopologyBuilder("several")
    builder.set_spout("rows", feeder)
    builder.set_bolt("everyone", everyone, parallelism=3).all_grouping("rows")
    builder.set_bolt("one", one, parallelism=2).global_grouping("rows")
    builder.set_bolt("keyed", keyed, parallelism=2).fields_grouping("rows", "key")
    finished = run_topology(builder.build())
    assert finished.snapshot.components["rows"].transferred == 20 * (3 + 1 + 1)
    assert (len(everyone.arrivals), len(one.arrivals), len(keyed.arrivals)) == (60, 20, 20)
    assert len(feeder.acked) == 20


@pytest.mark.guarantee("GRP-3")
def test_each_stream_goes_to_its_own_subscribers() -> None:
    class Sorts(BasicBolt):
        output_fields = {"even": "number", "odd": ("number", "text"), "nobody": "number"}

        def execute(self, tup: Tuple) -> None:
            number = tup["number"]
            if number % 2:
                self.collector.emit((number, str(number)), "odd")
            else:
                self.collector.emit((number,), "even")
            self.collector.emit((number,), "nobody")

    feeder, even, odd = Feeder("key", "number"), Capture(), Capture()
    feeder.feed_all(rows(6))
    feeder.close()
    builder = TopologyBuilder("streams")
    builder.set_spout("rows", feeder)
    builder.set_bolt("sorts", Sorts).shuffle_grouping("rows")
    builder.set_bolt("even", even).shuffle_grouping("sorts", stream="even")
    builder.set_bolt("odd", odd).shuffle_grouping("sorts", stream="odd")
    finished = run_topology(builder.build())
    assert even.values == [(0,), (2,), (4,)]
    assert odd.values == [(1, "1"), (3, "3"), (5, "5")]
    assert {(tup.stream, tup.source_component, tuple(tup.fields)) for tup in odd.tuples} == {("odd", "sorts", ("number", "text"))}
    assert (finished.snapshot.components["sorts"].emitted, finished.snapshot.components["sorts"].transferred) == (12, 6)
