"""Children with bolts of transactions are killed again and again: each number is counted exactly once (PR-2, TX-8)."""

import asyncio
import contextlib
import os
import random
import secrets
import signal
from pathlib import Path

import pytest

from engine import Config, Run, Topology, run
from engine.transactional import TransactionalTopologyBuilder
from engine.transactional.values import ReduceInto, SqliteValues
from tests.processes import batch_bolts
from tests.processes.children import children_of
from tests.transactional.batch_topologies import Batches

KILLS = 6
BATCHES = [list(range(count % 60)) for count in range(400)]


def summing(name: str, sums: SqliteValues, draws: random.Random) -> Topology:
    """Return a topology in which all bolts but one are in children. Two of them are of a drawn kind."""
    config = Config(max_task_restarts=1000, executor_receive_buffer_size=draws.choice([10, 100, 32_768]), message_timeout_secs=20)
    builder = TransactionalTopologyBuilder(name, "numbers", Batches(BATCHES), config=config, max_spout_pending=draws.choice([1, 3, 5]))
    plain = draws.choice([batch_bolts.PlusOne, batch_bolts.SlowPlusOne, batch_bolts.PlusOneInThreads])
    batched = draws.choice([batch_bolts.Doubles, batch_bolts.Waiting, batch_bolts.InBursts])
    builder.set_bolt("plain", plain, 2, processes=True).shuffle_grouping("numbers")
    builder.set_bolt("batched", batched, 2, processes=draws.random() < 0.7).fields_grouping("plain", "number")
    reduce = ReduceInto(sums, key="number", value="number")
    builder.set_bolt("sums", reduce, 2, processes=True).fields_grouping("batched", "number")
    return builder.build()


def expected() -> dict[int, int]:
    """Return the sums of the doubles of the numbers after them. Each task also emits the negative counts of its batches."""
    doubles = [2 * (number + 1) for batch in BATCHES for number in batch]
    return {number: number * doubles.count(number) for number in set(doubles)}


async def kill_children(name: str, running: Run, draws: random.Random) -> int:
    """Kill a child of the run of this name after every 300 tuples of the sums. Return the number of kills after which the run went on."""
    kills = seen = 0
    while True:
        await asyncio.sleep(draws.uniform(0.001, 0.05))
        summed = running.snapshot().components["sums"].executed
        pids = sorted(child.pid for child in children_of(name))
        if summed > seen + 300 and pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(draws.choice(pids), signal.SIGKILL)
            kills, seen = kills + 1, summed
        if kills == KILLS:
            return kills


@pytest.mark.deep
@pytest.mark.timeout(120)
@pytest.mark.guarantee("PR-2", "TX-3", "TX-8")
async def test_killed_children_count_each_number_once(tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    draws = random.Random(seed)
    name = f"kills-{secrets.token_hex(4)}"
    sums = SqliteValues(tmp_path / "sums.db", "sums")
    async with asyncio.timeout(100), run(summing(name, sums, draws)) as running:
        kills = await kill_children(name, running, draws)
        await running.completed()
    async with sums.reader() as reader:
        stored = {key: value async for key, value in reader.items() if key > 0}
    assert stored == expected()
    assert kills == KILLS
