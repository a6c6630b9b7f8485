"""One partition of a level: deterministic blocks, bounded memory, and the end after a failure elsewhere (CL-2, CL-3)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from engine import BasicBolt, Config, Fields, Tuple
from engine.kernel import Source
from engine.transactional import BatchBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder, TransactionAttempt
from engine.transactional.open_batches import EmitRequest
from spark_bridge.topology.blocks import BLOCK_BYTES, BLOCK_ROWS, NOTICE, Block, Packer
from spark_bridge.topology.cluster_run import ClusterRun, on_spark
from spark_bridge.topology.level_run import Attempt, run_level
from spark_bridge.topology.level_status import LevelStatus
from spark_bridge.topology.loaded_program import LoadedProgram, load_program
from spark_bridge.topology.pickled_program import pickle_program
from spark_bridge.topology.program import Program

ATTEMPT = TransactionAttempt(3, 2**32 + 5)


class Doubles(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> Iterator[tuple[int]]:
        yield (tup["number"],)
        yield (tup["number"] + 1,)


class Draws(BatchBolt):
    """Emits each number with a random one."""

    output_fields = ("number", "drawn")

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["number"], self.context.random.random()))

    def finish_batch(self) -> None: ...


def program(rows: int = 20) -> LoadedProgram:
    builder = TransactionalTopologyBuilder("levels", "numbers", MemoryTransactionalSpout([(n,) for n in range(rows)], "number", take=rows))
    builder.set_bolt("doubles", Doubles, 2).shuffle_grouping("numbers")
    builder.set_bolt("draws", Draws, 2).fields_grouping("doubles", "number")
    builder.set_committer("ends", Draws).global_grouping("draws")
    return loaded_of(builder)


def loaded_of(builder: TransactionalTopologyBuilder) -> LoadedProgram:
    """Return the program of a topology as executors load it."""
    topology = on_spark(builder.build())
    [feature] = [each for each in topology.features if each.name == "transactional"]
    run: Any = feature.new_run(topology, Config(seed=5))  # type: ignore[attr-defined]
    assert isinstance(run, ClusterRun)
    made: Program = run.program()
    return load_program(pickle_program(made))


def attempt(rows: int = 20) -> Attempt:
    return Attempt(EmitRequest(ATTEMPT, [0], 2, {}, {}, {0: [0, rows]}), None)


async def level(loaded: LoadedProgram, number: int, partition: int, blocks: list[Block], rows: int = 20, tried: int = 1) -> list[Block]:
    """Run one partition of a level, in a thread as in a worker process."""

    def work() -> list[Block]:
        return list(run_level(loaded, attempt(rows), number, partition, tried, blocks))

    return await asyncio.to_thread(work)


def of(blocks: list[Block], number: int, partition: int) -> list[Block]:
    return sorted((block for block in blocks if block[:2] == (number, partition)), key=lambda block: block[2:4])


def rows(blocks: list[Block]) -> list[Block]:
    """Blocks with rows."""
    return [block for block in blocks if block.source != NOTICE]


def statuses(blocks: list[Block]) -> list[LevelStatus]:
    return [block.content() for block in blocks if block.source == NOTICE and block.payload]


@pytest.mark.guarantee("CL-2")
@pytest.mark.asyncio
async def test_a_partition_that_is_computed_again_sends_the_same_blocks() -> None:
    loaded = program()
    assert loaded.plan.partitions == (1, 2, 2)
    first = await level(loaded, 0, 0, [])
    assert rows(await level(loaded, 0, 0, [])) == rows(first)
    second = [block for partition in (0, 1) for block in await level(loaded, 1, partition, of(first, 1, partition))]
    again = [block for partition in (0, 1) for block in await level(program(), 1, partition, of(first, 1, partition))]
    assert rows(again) == rows(second)
    third = await level(loaded, 2, 0, of(second, 2, 0))
    assert rows(await level(loaded, 2, 0, of(second, 2, 0))) == rows(third) != []
    assert [status.failure for status in statuses(third)] == [None]


@pytest.mark.guarantee("CL-2")
@pytest.mark.asyncio
async def test_large_batches_become_many_bounded_blocks_and_no_row_is_lost() -> None:
    rows = 3 * BLOCK_ROWS
    loaded = program(rows)
    blocks = await level(loaded, 0, 0, [], rows)
    sizes = [sum(len(rows) for stream, rows in block.content() if not stream.startswith("$")) for block in blocks if block.source != NOTICE]
    assert sum(sizes) == rows
    assert max(sizes) <= 2 * 32_768
    assert len(sizes) > 2


@pytest.mark.guarantee("CL-3")
@pytest.mark.asyncio
async def test_a_level_below_a_failed_one_ends_without_its_reports() -> None:
    loaded = program()
    first = await level(loaded, 0, 0, [])
    told = [
        Block(2, 0, NOTICE, 0, 0, 1, b""),
        *[block._replace(level=2, target=loaded.plan.task_ids["draws"][0]) for block in first if block.level == 1],
    ]
    async with asyncio.timeout(10):
        blocks = await level(loaded, 2, 0, told)
    [status] = statuses(blocks)
    assert not status.has_failed


@pytest.mark.asyncio
async def test_blocks_for_later_levels_pass_through() -> None:
    loaded = program()
    first = await level(loaded, 0, 0, [])
    through = Block(2, 1, 9, 1, 9, 1, b"payload")
    blocks = await level(loaded, 1, 0, [through, *of(first, 1, 0)])
    assert through in blocks


@pytest.mark.guarantee("CL-2")
@pytest.mark.asyncio
async def test_blocks_of_two_tries_of_one_partition_are_not_mixed() -> None:
    loaded = program()
    first, again = await level(loaded, 0, 0, []), await level(loaded, 0, 0, [], tried=2)
    mixed = [*of(first, 1, 0)[:-1], of(again, 1, 0)[-1]] if len(of(first, 1, 0)) > 1 else [*of(first, 1, 0), *of(again, 1, 0)]
    [status] = statuses(await level(loaded, 1, 0, mixed))
    assert status.failure is not None
    assert "computed it twice" in (status.failure.error or "")

    [one] = statuses(await level(loaded, 1, 0, of(first, 1, 0)))
    [other] = statuses(await level(loaded, 1, 1, of(again, 1, 1)))
    source = loaded.plan.task_ids["numbers"][0]
    assert (one.read_from, other.read_from) == ({source: 1}, {source: 2}), "the job runner compares them"


@pytest.mark.guarantee("CL-2")
def test_blocks_are_bounded_in_rows_and_in_bytes() -> None:
    sent: list[tuple[int, int]] = []
    packer = Packer(lambda source, target, runs, count: sent.append((count, sum(len(rows) for _, rows in runs))))
    origin = Source("words", "default", 3, Fields("attempt", "word"))
    packer.add(7, [(origin, [("x" * 100_000,)] * 100)])
    packer.add(7, [(origin, [("x",)] * (3 * BLOCK_ROWS))])
    packer.flush()
    assert sum(count for count, _ in sent) == 100 + 3 * BLOCK_ROWS
    assert all(count == rows for count, rows in sent)
    assert sent[0][0] * 100_000 <= 2 * BLOCK_BYTES
    assert max(count for count, _ in sent) <= 2 * BLOCK_ROWS


class Big(BasicBolt):
    output_fields = ("number", "data")

    def execute(self, tup: Tuple) -> tuple[int, bytes]:
        return (tup["number"], bytes(100_000))


@pytest.mark.guarantee("CL-2")
@pytest.mark.asyncio
async def test_spark_gets_the_output_of_a_level_in_bounded_pieces() -> None:
    builder = TransactionalTopologyBuilder("big", "numbers", MemoryTransactionalSpout([(n,) for n in range(300)], "number", take=300))
    builder.set_bolt("big", Big).shuffle_grouping("numbers")
    builder.set_bolt("draws", Draws).fields_grouping("big", "number")
    builder.set_committer("ends", Draws).global_grouping("draws")
    loaded = loaded_of(builder)

    def work() -> list[int]:
        return [len(block.payload) for block in run_level(loaded, attempt(300), 0, 0, 1, [])]

    sizes = await asyncio.to_thread(work)
    assert sum(sizes) > 30_000_000
    assert max(sizes) < 2 * BLOCK_BYTES
