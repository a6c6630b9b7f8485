"""Whole topologies with values, on every database: exact after failed batches, different replays and killed tasks."""

from collections import Counter
from random import Random
from typing import Any

import pytest

import engine
from engine import Config, FailedBatch, Tuple, bolt
from engine.testing import KillTask, run_topology
from engine.transactional import Committer, MemoryTransactionalSpout, TransactionalTopologyBuilder
from engine.transactional.values import MemoryValues, ReduceInto, ReducingCommitter, ValueMap
from tests.transactional.batch_topologies import OpaquePartitions
from tests.transactional.values.conftest import NewMap
from tests.transactional.values.tasks import add, read_values

LINES = [(" ".join(f"word{Random(number).randint(0, number)}" for _ in range(3)),) for number in range(200)]
COUNTS = Counter(word for (line,) in LINES for word in line.split())


@bolt("word")
def split(tup: Tuple) -> Any:
    for word in tup["line"].split():
        yield (word,)


class Failing(ReducingCommitter[Any, Any, Any]):
    """Counts words, and sometimes fails before or after its write."""

    keyed_by = ("word",)
    output_fields = ("word", "count")

    def __init__(self, values: ValueMap, random: Random) -> None:
        self.values, self.random = values, random

    def fold(self, partial: int | None, tup: Tuple) -> int:
        return (partial or 0) + 1

    def combine(self, stored: int | None, partial: int) -> int:
        return add(stored, partial)

    async def finish_batch(self) -> None:
        if self.random.random() < 0.2:
            raise FailedBatch
        await super().finish_batch()
        if self.random.random() < 0.2:
            raise FailedBatch


async def completed(topology: Any, **settings: Any) -> None:
    async with engine.run(topology, Config(seed=1, **settings)) as run:
        await run.completed()
    assert run.state == "complete"


@pytest.mark.guarantee("TX-8", "TX-10")
async def test_word_counts_and_values_derived_from_them_are_exact(new_map: NewMap) -> None:
    random = Random(4)

    class Top(ReducingCommitter[Any, Any, Any]):
        """The most frequent word."""

        values = new_map("top")

        def fold(self, partial: Any, tup: Tuple) -> Any:
            return max(partial or (0, ""), (tup["count"], tup["word"]))

        def combine(self, stored: Any, partial: Any) -> Any:
            return max(stored or (0, ""), partial)

    builder = TransactionalTopologyBuilder("words", "lines", MemoryTransactionalSpout(LINES, "line", take=25))
    builder.set_bolt("split", split, 2).shuffle_grouping("lines")
    builder.set_committer("count", lambda: Failing(new_map("words"), random), 2).fields_grouping("split", "word")
    builder.set_committer("total", ReduceInto(new_map("total"))).global_grouping("split")
    builder.set_committer("top", Top).global_grouping("count")
    await completed(builder.build(), max_spout_pending=3)
    assert await read_values(new_map("words")) == COUNTS
    assert await read_values(new_map("total")) == {"all": 600}
    assert await read_values(new_map("top")) == {"all": max((count, word) for word, count in COUNTS.items())}


@pytest.mark.guarantee("TX-7", "TX-8")
async def test_replays_that_differ_leave_exact_values(new_map: NewMap) -> None:
    random = Random(8)
    data = {name: [number * 10 + place for number in range(60)] for place, name in enumerate("abc")}
    spout = OpaquePartitions(data, lambda attempt, partition: random.randint(0, 12))

    class Sum(Failing):
        keyed_by = ("partition",)

        def fold(self, partial: int | None, tup: Tuple) -> int:
            return (partial or 0) + tup["number"]

    builder = TransactionalTopologyBuilder("sums", "numbers", spout)
    builder.set_committer("sum", lambda: Sum(new_map("sums"), random), 2).fields_grouping("numbers", "partition")
    await completed(builder.build(), max_spout_pending=3)
    assert await read_values(new_map("sums")) == {name: sum(numbers) for name, numbers in data.items()}
    assert len(spout.starts) > 60


@pytest.mark.guarantee("TX-10")
async def test_one_transaction_writes_to_two_databases(new_map: NewMap) -> None:
    words, lengths = new_map("words"), MemoryValues("lengths")

    class Both(Committer):
        def prepare(self) -> None:
            self.words: Counter[str] = Counter()

        def execute(self, tup: Tuple) -> None:
            self.words[tup["word"]] += 1

        async def finish_batch(self) -> None:
            for values, counts in ((words, self.words), (lengths, Counter(map(len, self.words.elements())))):
                opened = await self.resources.opened(values)
                await opened.update(self.attempt, counts, add)

    builder = TransactionalTopologyBuilder("both", "lines", MemoryTransactionalSpout(LINES, "line", take=25))
    builder.set_bolt("split", split, 2).shuffle_grouping("lines")
    builder.set_committer("both", Both).global_grouping("split")
    await completed(builder.build())
    assert await read_values(words) == COUNTS
    assert sum((await read_values(lengths)).values()) == 600


@pytest.mark.guarantee("TX-8", "TX-9")
async def test_a_run_whose_coordinator_lost_its_state_ends_with_a_hint(new_map: NewMap) -> None:
    def topology() -> Any:
        builder = TransactionalTopologyBuilder("words", "lines", MemoryTransactionalSpout(LINES, "line", take=25))
        builder.set_bolt("split", split, 2).shuffle_grouping("lines")
        builder.set_committer("count", ReduceInto(new_map("words"), key="word")).fields_grouping("split", "word")
        return builder.build()

    await completed(topology())
    with pytest.raises(engine.ComponentError, match="the state of the coordinator is older than the map"):
        await completed(topology())
    assert await read_values(new_map("words")) == COUNTS


def test_tasks_that_are_killed_in_virtual_time_leave_exact_values() -> None:
    words = MemoryValues("words")
    builder = TransactionalTopologyBuilder("words", "lines", MemoryTransactionalSpout(LINES, "line", take=10))
    builder.set_bolt("split", split, 2).shuffle_grouping("lines")
    builder.set_committer("count", ReduceInto(words, key="word"), 3).fields_grouping("split", "word")
    faults = [KillTask("count", at_call={5, 60, 100}), KillTask("split", at_call={20})]
    run_topology(builder.build(), Config(max_spout_pending=2), faults=faults)
    assert {key: row.value for key, row in words._table.rows.items()} == COUNTS


@pytest.mark.guarantee("TX-8")
async def test_a_factory_that_makes_another_map_for_each_batch_ends_the_run() -> None:
    """Given a map in memory that the factory makes for every batch, then the run reports it."""
    builder = TransactionalTopologyBuilder("words", "lines", MemoryTransactionalSpout({"a": LINES}, "line", take=10))
    builder.set_bolt("split", split).shuffle_grouping("lines")
    builder.set_bolt("counts", lambda: ReduceInto(MemoryValues("words"), key="word").create()).fields_grouping("split", "word")
    with pytest.raises(engine.ComponentError, match=r"was given another map for batch 2 \(attempt .*\): the map 'words' in memory is not"):
        await completed(builder.build())
