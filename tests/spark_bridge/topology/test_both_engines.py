"""The same topology commits the same batches in one process and on the levels of Spark (CL-1, CL-2)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from engine import BasicBolt, Burst, Fields, Tuple
from engine.cli.snapshot_text import state_texts
from engine.transactional import BatchBolt, BurstBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.topology.status import JobsEntry
from tests.spark_bridge.topology.both_engines import Committed, play_both
from tests.transactional.batch_topologies import Batches, OpaquePartitions, Partitions

pytestmark = pytest.mark.asyncio

LINES = [(" ".join(f"w{(7 * line + 3 * word) % 23}" for word in range(8)),) for line in range(60)]


class Split(BasicBolt):
    output_fields = "word"

    def execute(self, tup: Tuple) -> Iterator[tuple[str]]:
        for word in tup["line"].split():
            yield (word,)


class AsyncSplit(BasicBolt):
    output_fields = "word"

    async def execute(self, tup: Tuple) -> AsyncIterator[tuple[str]]:
        await asyncio.sleep(0)
        for word in tup["line"].split():
            yield (word,)


class CollectorSplit(BasicBolt):
    output_fields = "word"

    def execute(self, tup: Tuple) -> None:
        for word in tup["line"].split():
            self.collector.emit((word,))


class Counts(BatchBolt):
    output_fields = ("word", "count", "task")

    def prepare(self) -> None:
        self.counts: dict[str, int] = {}

    def execute(self, tup: Tuple) -> None:
        self.counts[tup["word"]] = self.counts.get(tup["word"], 0) + 1

    def finish_batch(self) -> None:
        self.collector.emit_many([(word, count, self.context.task_index) for word, count in self.counts.items()])


class AsyncCounts(Counts):
    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().execute(tup)

    async def finish_batch(self) -> None:  # type: ignore[override]
        await self.collector.ready()
        super().finish_batch()


class BurstCounts(BurstBolt):
    output_fields = ("word", "count", "task")
    burst_rows = 7

    def prepare(self) -> None:
        self.counts: dict[str, int] = {}

    def execute_many(self, burst: Burst) -> None:
        for word in burst["word"]:
            self.counts[word] = self.counts.get(word, 0) + 1

    def finish_batch(self) -> None:
        self.collector.emit_many([(word, count, self.context.task_index) for word, count in self.counts.items()])


def words(split: Any, counts: Any, committed: Committed, *, spout: Any = None, **settings: Any) -> Any:
    source = spout or MemoryTransactionalSpout([LINES[:30], LINES[30:]], "line", take=10)
    builder = TransactionalTopologyBuilder("words", "lines", source, 2)
    builder.set_bolt("split", split, 2, **settings).shuffle_grouping("lines")
    builder.set_bolt("count", counts, 3).fields_grouping("split", "word")
    builder.set_committer("keep", committed.committer, 2).fields_grouping("count", "word")
    return builder.build()


@pytest.mark.guarantee("CL-1", "CL-2")
@pytest.mark.parametrize("split", [Split, AsyncSplit, CollectorSplit])
@pytest.mark.parametrize("counts", [Counts, AsyncCounts, BurstCounts])
async def test_the_same_keys_are_counted_by_the_same_tasks_and_committed_by_the_same_ones(split: Any, counts: Any) -> None:
    here, there = await play_both(lambda committed: words(split, counts, committed), max_spout_pending=2)

    assert here.committed.batches.keys() == there.committed.batches.keys()
    for key, batch in here.committed.batches.items():
        assert {task: sorted(rows) for task, rows in batch.items()} == {
            task: sorted(rows) for task, rows in there.committed.batches[key].items()
        }
    assert sum(row[1] for row in there.committed.rows()) == 8 * len(LINES)
    assert not here.errors
    assert not there.errors
    assert there.jobs is not None
    assert there.jobs.jobs == 3


@pytest.mark.guarantee("CL-1")
async def test_a_bolt_with_threads_runs_on_the_levels() -> None:
    here, there = await play_both(lambda committed: words(CollectorSplit, Counts, committed, threads=2))
    assert here.committed.rows() == there.committed.rows()


class Both(BasicBolt):
    """Emits to two streams, one of them direct."""

    output_fields = {"default": Fields("number"), "chosen": Fields("number", direct=True), "unread": Fields("number")}

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["number"],))
        self.collector.emit((tup["number"],), "unread")
        targets = self.context.targets("chosen")
        if targets:
            self.collector.emit_direct(targets[tup["number"] % len(targets)], (-tup["number"],), "chosen")


class Pair(BatchBolt):
    output_fields = ("number", "task")

    def prepare(self) -> None:
        self.came: list[int] = []

    def execute(self, tup: Tuple) -> None:
        self.came.append(tup["number"])

    def finish_batch(self) -> None:
        for number in self.came:
            self.collector.emit((number, self.context.task_index))


class ToSecond:
    def prepare(self, context: Any, stream: Any, targets: Any) -> None:
        self.targets = targets

    def choose_tasks(self, source_task: int, values: Any) -> list[int]:
        return [self.targets[1]] if values[1] % 2 else [self.targets[0], self.targets[2]]


@pytest.mark.guarantee("CL-1", "CL-2")
@pytest.mark.parametrize("grouping", ["shuffle", "all", "direct", "custom", "global", "fields", "partial_key", "load_aware", "none"])
async def test_every_grouping_reaches_the_same_tasks_in_the_same_order(grouping: str) -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("groupings", "numbers", Batches([list(range(20)), [], list(range(20, 45))]), 2)
        builder.set_bolt("both", Both, 2).fields_grouping("numbers", "number")
        pairs = builder.set_bolt("pairs", Pair, 3)
        if grouping == "direct":
            pairs.direct_grouping("both", "chosen")
        elif grouping == "custom":
            pairs.custom_grouping("both", ToSecond)
        elif grouping in ("fields", "partial_key"):
            getattr(pairs, f"{grouping}_grouping")("both", "number")
        else:
            getattr(pairs, f"{grouping}_grouping")("both")
        builder.set_committer("keep", committed.committer).global_grouping("pairs")
        return builder.build()

    here, there = await play_both(build, max_spout_pending=3)

    depends_on_chance = grouping in ("shuffle", "none", "load_aware", "partial_key")
    shown = (lambda row: row[0]) if depends_on_chance else (lambda row: row)
    assert sorted(map(shown, here.committed.rows())) == sorted(map(shown, there.committed.rows()))
    assert here.committed.batches.keys() == there.committed.batches.keys() == {(1, 9), (2, 9), (3, 9)}


@pytest.mark.guarantee("CL-1")
async def test_a_direct_stream_to_a_committer_reaches_the_chosen_task() -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("direct", "numbers", Batches([list(range(9)), list(range(9, 15))]))
        builder.set_bolt("both", Both, 2).shuffle_grouping("numbers")
        builder.set_committer("keep", committed.committer, 3).direct_grouping("both", "chosen").all_grouping("both")
        return builder.build()

    here, there = await play_both(build)

    def by_task(committed: Committed) -> dict[tuple[int, int], list[tuple[str, tuple[Any, ...]]]]:
        return {key: sorted(each for rows in batch.values() for each in rows) for key, batch in committed.batches.items()}

    assert by_task(here.committed) == by_task(there.committed)


@pytest.mark.guarantee("CL-1")
@pytest.mark.parametrize("spout", ["whole", "partitioned", "opaque"])
async def test_a_spout_without_plans_emits_in_the_engines_process(spout: str) -> None:
    def build(committed: Committed) -> Any:
        data = {"a": list(range(7)), "b": list(range(10, 15))}
        source: Any = Batches([[1, 2], [3], [], [4, 5, 6]])
        if spout == "partitioned":
            source = Partitions(data)
        elif spout == "opaque":
            source = OpaquePartitions(data, lambda attempt, partition: 2)
        builder = TransactionalTopologyBuilder("spouts", "numbers", source, 2)
        builder.set_bolt("pairs", Pair, 2).fields_grouping("numbers", "number")
        builder.set_committer("keep", committed.committer).global_grouping("pairs").global_grouping("numbers")
        return builder.build()

    here, there = await play_both(build, max_spout_pending=2)

    def filled(committed: Committed) -> set[tuple[int, int]]:  # a source may begin an empty batch before it knows the end of the last one
        return {key for key, batch in committed.batches.items() if batch}

    assert filled(here.committed) == filled(there.committed)
    assert here.committed.rows() == there.committed.rows() != []
    assert not there.errors


@pytest.mark.guarantee("CL-1")
async def test_rows_of_the_source_reach_a_committer_without_a_bolt_between() -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("short", "lines", MemoryTransactionalSpout(LINES, "line", take=25), 2)
        builder.set_committer("keep", committed.committer, 2).fields_grouping("lines", "line")
        return builder.build()

    here, there = await play_both(build)
    assert here.committed.batches == there.committed.batches


class Metered(BasicBolt):
    """Counts its inputs."""

    output_fields = "word"

    def prepare(self) -> None:
        self.seen = self.context.counter("lines_seen")
        self.longest = self.context.gauge("words_of_line")
        self.lengths = self.context.histogram("length")

    def execute(self, tup: Tuple) -> Iterator[tuple[str]]:
        words = tup["line"].split()
        self.seen.add()
        self.longest.set(len(words))
        self.lengths.record(len(words))
        return ((word,) for word in words)


@pytest.mark.guarantee("CL-1")
async def test_counters_and_the_snapshot_tell_of_the_work_on_spark() -> None:
    here, there = await play_both(lambda committed: words(Metered, Counts, committed))

    def metered(played: Any) -> dict[str, float]:
        found: dict[str, float] = {}
        for metric in played.snapshot.user_metrics:
            if metric.labels.component_id == "split" and metric.kind != "histogram":
                found[metric.name] = found.get(metric.name, 0) + metric.value
        return found

    assert metered(here) == metered(there) == {"lines_seen": 60, "words_of_line": 16}
    jobs = there.snapshot.entry(JobsEntry)
    assert jobs.value is not None
    assert (jobs.value.done, jobs.value.failed, jobs.value.running) == (3, 0, ())
    assert jobs.value.executed == {"lines": 0, "split": 60, "count": 480}
    assert jobs.value.emitted["split"] == 480
    assert jobs.value.shuffled_bytes > 0
    assert JobsEntry.from_json(json.loads(json.dumps(jobs.to_json()))).value == jobs.value
    assert "Spark jobs 3 done · 0 running · 0 failed" in "\n".join(state_texts(None, there.snapshot))
    assert JobsEntry(None).text() is None


@pytest.mark.guarantee("CL-1")
async def test_committers_right_behind_emitters_here_need_no_job() -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("direct", "numbers", Batches([[1, 2, 3], [4], [5, 6]]), 2)
        builder.set_committer("keep", committed.committer, 2).fields_grouping("numbers", "number")
        return builder.build()

    here, there = await play_both(build)

    assert there.committed.batches == here.committed.batches
    assert there.committed.rows() == [(number,) for number in range(1, 7)]
    assert there.jobs is not None
    assert there.jobs.jobs == 0
