"""Committers of topologies without batches under hostile calls, deaths and restarts (EO-9). `test_committers` has the plain cases."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from engine import Bolt, Config, Spout, SpoutExhausted, Topology, TopologyBuilder, TopologyError, Tuple, bolt
from engine.checkpoint.feature import CheckpointEntry
from engine.testing import Finished, KillTask, run_topology
from engine.transactional import BatchBolt, BurstBolt, Committer
from engine.transactional.values import MemoryValues, ReducingCommitter
from tests.checkpoint.scenarios.kit import Numbers, Told, once
from tests.checkpoint.test_committers import ROWS, RaisesFor, Target, Writing, WritingBursts, topology

pytestmark = pytest.mark.guarantee("EO-9")


# Calls that raise after they have taken a part of their row


class Listing(ReducingCommitter[Any, list[int], list[int]]):
    """Collects the rows of each key in a list that `fold` changes in place, and may raise after it."""

    keyed_by = ("n",)

    def __init__(self, values: MemoryValues, before: Callable[[Any], object]) -> None:
        self.values, self.before = values, before

    def key(self, tup: Tuple) -> Any:
        return tup["n"] % 10

    def fold(self, partial: list[int] | None, tup: Tuple) -> list[int]:
        partial = [] if partial is None else partial
        partial.append(tup["n"])
        self.partials[self.key(tup)] = partial
        self.before(tup["n"])
        return partial

    def combine(self, stored: list[int] | None, partial: list[int]) -> list[int]:
        return [*(stored or []), *partial]


def listed(values: MemoryValues) -> Counter[int]:
    async def read() -> Counter[int]:
        async with values.reader() as reader:
            return Counter([n async for _, rows in reader.items() for n in rows])

    return asyncio.run(read())


@pytest.mark.parametrize("settings", [{}, {"retries": 2}])
def test_a_fold_that_raises_after_a_change_leaves_nothing_behind(settings: Any) -> None:
    values = MemoryValues("listed")
    before = RaisesFor([3, 100, 101, 150], times=1)
    run_topology(topology(lambda: Listing(values, before), **settings))
    assert listed(values) == once(ROWS)


def diverting(committer: Any) -> tuple[Topology, list[int]]:
    """Build numbers > out, whose bad rows leave on the stream `failed`."""
    diverted: list[int] = []
    builder = TopologyBuilder("diverting")
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    builder.set_committer("out", committer, on_error="divert").shuffle_grouping("numbers")
    builder.set_bolt("bad", bolt()(lambda tup: diverted.append(tup["values"]))).shuffle_grouping("out", "failed")
    return builder.build(), diverted


def test_a_fold_whose_row_is_diverted_leaves_nothing_behind() -> None:
    values = MemoryValues("diverted_lists")
    before = RaisesFor([3, 100, 101, 150], times=100)
    diverted_from, _ = diverting(lambda: Listing(values, before))
    run_topology(diverted_from)
    assert listed(values) == once(ROWS) - Counter([3, 100, 101, 150])


@pytest.mark.parametrize("committing", [Writing, WritingBursts])
def test_a_row_that_is_diverted_is_not_published(committing: Any) -> None:
    target, before = Target(), RaisesFor([3, 100, 101, 150], times=100)
    diverted_from, diverted = diverting(lambda: committing(target, before))
    run_topology(diverted_from)
    assert Counter(target.rows) == once(ROWS) - Counter([3, 100, 101, 150])
    assert len(diverted) == 4


class StagingBursts(BurstBolt):
    """Stages its rows itself, and gets them in bursts."""

    is_committer = True

    def __init__(self, target: Target, before: Callable[[Any], object]) -> None:
        self.target, self.before = target, before
        self.rows: list[Any] = []

    def execute_many(self, burst: Any) -> None:
        for n in burst["n"]:
            self.rows.append(n)
            self.before(n)

    def finish_batch(self) -> None:
        raise AssertionError("not called")

    def stage(self) -> Iterator[list[Any]]:
        yield self.rows

    def publish(self, pieces: Iterable[list[Any]]) -> None:
        self.target.write(self, [row for piece in pieces for row in piece])  # type: ignore[arg-type]


def test_a_burst_that_raises_once_is_not_staged_twice() -> None:
    target, before = Target(), RaisesFor([3, 100, 101, 150])
    run_topology(topology(lambda: StagingBursts(target, before)))
    assert Counter(target.rows) == once(ROWS)


# Rows that belong to no tree


class Unanchored(Bolt):
    """Passes on rows without anchors."""

    output_fields = "n"

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["n"],))
        self.collector.ack(tup)


def unanchored(committer: Any, **settings: Any) -> Topology:
    builder = TopologyBuilder("unanchored")
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    builder.set_bolt("cut", Unanchored).shuffle_grouping("numbers")
    builder.set_committer("out", committer, **settings).shuffle_grouping("cut")
    if settings.get("on_error") == "divert":
        builder.set_bolt("bad", bolt()(lambda tup: None)).shuffle_grouping("out", "failed")
    return builder.build()


@pytest.mark.parametrize("committing", [Writing, WritingBursts])
def test_a_row_of_no_tree_that_raises_once_is_published_once(committing: Any) -> None:
    target, before = Target(), RaisesFor([3, 100])
    run_topology(unanchored(lambda: committing(target, before)))
    assert Counter(target.rows) == once(ROWS)


def test_a_row_of_no_tree_that_succeeds_at_its_retry_costs_no_rollback() -> None:
    target, before = Target(), RaisesFor([3, 100], times=2)
    result = run_topology(unanchored(lambda: Writing(target, before), retries=2))
    assert Counter(target.rows) == once(ROWS)
    assert recoveries(result) == 0


def test_a_row_of_no_tree_that_is_diverted_holds_up_nothing() -> None:
    target, before = Target(), RaisesFor([3, 100], times=1000)
    result = run_topology(unanchored(lambda: Writing(target, before), on_error="divert"), limit_secs=120)
    assert Counter(target.rows) == once(ROWS) - Counter([3, 100])
    assert recoveries(result) == 0


def recoveries(result: Finished) -> int:
    value = result.snapshot.entry(CheckpointEntry).value
    assert value is not None
    return value.recoveries


# Publishing


class HoldsPublishing(Writing):
    """Waits in the middle of publishing, `times` times in all, and then publishes."""

    left = 0

    def __init__(self, target: Target, secs: float) -> None:
        super().__init__(target)
        self.secs = secs

    async def finish_batch(self) -> None:  # type: ignore[override]
        if HoldsPublishing.left:
            HoldsPublishing.left -= 1
            await asyncio.sleep(self.secs)
        super().finish_batch()


def test_publishing_that_hangs_is_cancelled_and_called_again() -> None:
    target = Target()
    HoldsPublishing.left = 3
    run_topology(topology(lambda: HoldsPublishing(target, 1e6)), Config(checkpoint_timeout_secs=5))
    assert target.rows == list(range(ROWS))


@pytest.mark.parametrize("killed", ["out", "numbers", "count"])
@pytest.mark.parametrize("secs", [1.02, 1.2, 3.5])
def test_a_death_while_it_publishes_publishes_it_again_with_the_same_attempt(killed: str, secs: float) -> None:
    target = Target()
    HoldsPublishing.left = 2
    builder = TopologyBuilder("both")
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    told = Told()
    builder.set_bolt("count", told.create).shuffle_grouping("numbers")
    builder.set_committer("out", lambda: HoldsPublishing(target, 2.0)).shuffle_grouping("numbers")
    run_topology(builder.build(), faults=[KillTask(killed, at_secs=secs)])
    assert Counter(target.rows) == once(ROWS) == told.counts()
    assert len(set(target.attempts)) == len(target.batches)


class Updating(Committer):
    """Updates a map of values by itself, and then waits."""

    def __init__(self, values: MemoryValues, waits: list[float]) -> None:
        self.target, self.waits = values, waits
        self.counts: Counter[int] = Counter()

    def execute(self, tup: Tuple) -> None:
        self.counts[tup["n"]] += 1

    async def finish_batch(self) -> None:
        values = await self.resources.opened(self.target)
        await values.update(self.attempt, self.counts, lambda stored, count: (stored or 0) + count)
        if self.waits:
            await asyncio.sleep(self.waits.pop())


@pytest.mark.parametrize(("secs", "killed"), [(1e6, ""), (3.0, "numbers"), (3.0, "out")])
def test_values_that_are_written_by_hand_are_written_once_although_publishing_is_repeated(secs: float, killed: str) -> None:
    """A try that has written, and then hangs or is rolled back, has marked its attempt as done in the open map."""
    values, waits = MemoryValues(f"by_hand_{killed}"), [secs] * 2
    faults = [KillTask(killed, at_secs=1.5)] if killed else []
    run_topology(topology(lambda: Updating(values, waits)), Config(checkpoint_timeout_secs=5), faults=faults, limit_secs=300)

    async def read() -> Counter[int]:
        async with values.reader() as reader:
            return Counter({key: value async for key, value in reader.items()})

    assert asyncio.run(read()) == once(ROWS)


# Hooks that are coroutines


class Async(Committer):
    """Has coroutines for all its methods."""

    def __init__(self, target: Target) -> None:
        self.target = target

    async def prepare(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.01)
        self.rows: list[Any] = []

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0.01)
        self.rows.append(tup["n"])
        await asyncio.sleep(0.01)

    async def finish_batch(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.1)
        self.target.write(self, self.rows)


@pytest.mark.parametrize("secs", [0.5, 1.0001, 1.05, 2.3])
def test_coroutines_publish_each_row_once(secs: float) -> None:
    target = Target()
    run_topology(topology(lambda: Async(target)), faults=[KillTask("out", at_secs=secs)])
    assert Counter(target.rows) == once(ROWS)


class FailsToPrepare(Writing):
    left = 3

    def prepare(self) -> None:
        if FailsToPrepare.left:
            FailsToPrepare.left -= 1
            raise OSError("no connection")


def test_a_prepare_that_raises_loses_nothing() -> None:
    target = Target()
    FailsToPrepare.left = 3
    run_topology(topology(lambda: FailsToPrepare(target)))
    assert Counter(target.rows) == once(ROWS)


# Sources and guarantees


class Forgetful(Spout):
    """Emits numbers, repeats those that fail, and cannot rewind."""

    output_fields = "n"

    def open(self) -> None:
        self.left = list(range(ROWS))

    async def next_tuple(self) -> None:
        if not self.left:
            raise SpoutExhausted
        await asyncio.sleep(0.02)
        n = self.left.pop(0)
        self.collector.emit((n,), n)

    def fail(self, message_id: Any, failure: Any = None) -> None:
        self.left.append(message_id)


@pytest.mark.parametrize("guarantee", [None, "at_least_once"])
def test_rows_of_a_source_that_cannot_rewind_are_published_at_least_once(guarantee: Any) -> None:
    target, before = Target(), RaisesFor([5, 150])
    builder = TopologyBuilder("forgetful")
    builder.set_spout("numbers", Forgetful)
    builder.set_committer("out", lambda: Writing(target, before)).shuffle_grouping("numbers")
    run_topology(builder.build(), Config(processing_guarantee=guarantee), faults=[KillTask("out", at_secs=1.5)])
    assert set(target.rows) == set(range(ROWS))


# Batch bolts in front of a committer


class Pairs(BatchBolt):
    """Emits the sum of its interval at the end."""

    output_fields = "n"

    def __init__(self) -> None:
        self.sum = 0

    def execute(self, tup: Tuple) -> None:
        self.sum += tup["n"]

    def finish_batch(self) -> None:
        self.collector.emit((self.sum,))


@pytest.mark.parametrize("secs", [0.7, 1.0001, 2.2])
def test_what_a_batch_bolt_emits_at_its_end_belongs_to_the_same_checkpoint(secs: float) -> None:
    target, builder = Target(), TopologyBuilder("sums")
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    builder.set_bolt("sum", Pairs, 2).shuffle_grouping("numbers")
    builder.set_committer("out", lambda: Writing(target)).shuffle_grouping("sum")
    run_topology(builder.build(), faults=[KillTask("sum", at_secs=secs), KillTask("out", at_secs=2 * secs)])
    assert sum(target.rows) == sum(range(ROWS))


class SpoiledPairs(Pairs):
    """Raises for some rows, after it has taken them."""

    def __init__(self, before: Callable[[Any], object]) -> None:
        super().__init__()
        self.before = before

    def execute(self, tup: Tuple) -> None:
        super().execute(tup)
        self.before(tup["n"])


@pytest.mark.parametrize("settings", [{}, {"retries": 2}])
def test_a_batch_bolt_that_raises_after_it_has_taken_its_row_leaves_nothing_behind(settings: Any) -> None:
    target, before, builder = Target(), RaisesFor([3, 100, 101, 150]), TopologyBuilder("sums")
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    builder.set_bolt("sum", lambda: SpoiledPairs(before), 2, **settings).shuffle_grouping("numbers")
    builder.set_committer("out", lambda: Writing(target)).shuffle_grouping("sum")
    run_topology(builder.build())
    assert sum(target.rows) == sum(range(ROWS))


# What is declared in another way


def test_a_committer_by_its_class_is_one_with_set_bolt_too() -> None:
    target, builder = Target(), TopologyBuilder("by its class")
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    builder.set_bolt("out", lambda: Writing(target)).shuffle_grouping("numbers")
    run_topology(builder.build(), faults=[KillTask("out", at_secs=1.5)])
    assert target.rows == list(range(ROWS))


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"tick_tuple_freq_secs": 1}, "a tick belongs to no interval"),
        ({"processes": True}, "processes=True is not possible"),
        ({"concurrency": 2}, "a committer takes one input at a time"),
        ({"threads": 2}, "a committer takes one input at a time"),
    ],
)
def test_settings_that_a_committer_cannot_have_are_refused(settings: Any, fault: str) -> None:
    with pytest.raises(TopologyError, match=fault):
        topology(lambda: Writing(Target()), **settings)


def test_a_committer_without_input_is_refused() -> None:
    builder = TopologyBuilder("no input")
    builder.set_spout("numbers", partial(Numbers, 1))
    builder.set_committer("out", lambda: Writing(Target()))
    with pytest.raises(TopologyError, match="has no input"):
        builder.build()
