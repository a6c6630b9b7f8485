"""A flow with state and a committer counts each row once, whatever dies on the way."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine import Config
from engine.streams import Flow
from engine.testing import Feeder, KillTask, run_topology
from engine.transactional.values import MemoryValues, ReduceInto

LINES = [f"w{number % 7} w{number % 3}" for number in range(400)]


async def items_of(values: MemoryValues) -> dict[Any, Any]:
    async with values.reader() as reader:
        return {key: value async for key, value in reader.items()}


@pytest.mark.guarantee("EO-1", "EO-9", "TF-1", "TF-3")
@pytest.mark.parametrize("seed", range(4))
def test_each_row_counts_once_whatever_dies(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    feeder = Feeder("line", max_retries=3)
    feeder.feed_all([(line,) for line in LINES])
    feeder.close()
    totals, newest = MemoryValues("totals"), dict[str, int]()
    flow = Flow("exact", Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=50, max_spout_pending=40))

    async def pause(line: str) -> str:
        await asyncio.sleep(0.002)
        return line

    words = flow.stream("lines", feeder, str).map_async(pause, concurrency=4, name="pause").flat_map(str.split, name="words")
    counts = words.key_by(lambda word: word).count(name="counts", parallelism=2)
    counts.sink("newest", lambda row: newest.update({row.value.key: row.value.value}))
    words.map(lambda word: (word, 1)).sink(
        "totals", ReduceInto(totals, key="word", value="n"), fields={"word": lambda pair: pair[0], "n": lambda pair: pair[1]}
    )
    topology = flow.topology()
    victims = [*topology.components]
    kills = [KillTask(random.choice(victims), at_secs=random.uniform(0.01, 0.3)) for _ in range(3)]
    finished = run_topology(topology, faults=kills, seed=seed)
    assert finished.strikes
    expected = Counter(word for line in LINES for word in line.split())
    assert asyncio.run(items_of(totals)) == expected
    assert newest == expected
