"""A partition of an opaque source is missing in a replay of its batch, and returns later (TX-7, TX-8)."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine import Config
from engine.testing import run_topology
from engine.transactional import FailedBatch, TransactionalTopologyBuilder, TransactionAttempt
from engine.transactional.values import MemoryValues, ReducingCommitter, SqliteValues, ValueMap
from tests.transactional.batch_topologies import OpaquePartitions

DATA = {"a": [number % 3 for number in range(20)], "b": [number % 5 for number in range(17)]}


@pytest.mark.guarantee("TX-7", "TX-8")
@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("pending", [1, 3])
@pytest.mark.parametrize("lost_in", [1, 2, 4])
def test_values_of_a_lost_partition_are_rolled_back_and_counted_once(tmp_path: Path, store: str, pending: int, lost_in: int) -> None:
    values: ValueMap = MemoryValues("numbers") if store == "memory" else SqliteValues(tmp_path / "values.db", "numbers")
    stored: list[TransactionAttempt] = []

    class FailsOnceStored(ReducingCommitter[int, int, int]):
        keyed_by = ("number",)

        def fold(self, partial: int | None, tup: Any) -> int:
            return (partial or 0) + 1

        def combine(self, before: int | None, partial: int) -> int:
            return (before or 0) + partial

        async def finish_batch(self) -> None:
            await super().finish_batch()
            stored.append(self.attempt)
            if [attempt.txid for attempt in stored].count(lost_in) == 1 and self.attempt.txid == lost_in:
                raise FailedBatch("stored, and tried again")

    FailsOnceStored.values = values

    def take(attempt: TransactionAttempt, partition: str) -> int:
        is_replay = lost_in in [each.txid for each in stored]
        return 0 if partition == "b" and attempt.txid == lost_in and is_replay else 3

    spout = OpaquePartitions(DATA, take)
    builder = TransactionalTopologyBuilder("lost", "numbers", spout, 2, max_spout_pending=pending)
    builder.set_committer("count", FailsOnceStored).fields_grouping("numbers", "number")
    run_topology(builder.build(), Config())

    async def read() -> dict[int, int]:
        async with values.reader() as reader:
            return {key: value async for key, value in reader.items()}

    assert [attempt.txid for attempt in stored].count(lost_in) == 2
    assert asyncio.run(read()) == Counter(number for numbers in DATA.values() for number in numbers)
