"""A bolt behind a spout and other bolts aligns the barriers of all, and still handles newer ones (CP-1, CP-2)."""

import asyncio
from collections.abc import Iterator

import pytest

from engine import Config, KeyValueState, TopologyBuilder, Tuple, bolt, stateful_bolt
from engine.testing import Feeder, KillTask, run_topology


@bolt("word")
def first(tup: Tuple) -> Iterator[tuple[str]]:
    yield (f"{tup['word']} first",)


@stateful_bolt("word")
async def second(tup: Tuple, state: KeyValueState[str, int]) -> tuple[str]:
    await asyncio.sleep(0.4)
    return (f"{tup['word']} second",)


@stateful_bolt()
def count(tup: Tuple, state: KeyValueState[str, int]) -> None:
    state.put(tup["word"], state.get(tup["word"], 0) + 1)


@pytest.mark.guarantee("CP-2", "CP-3")
@pytest.mark.parametrize("at_secs", [0.1 * step for step in range(1, 20)])
def test_a_barrier_that_waits_for_a_task_that_died_is_ended_by_the_next_round(at_secs: float) -> None:
    feeder, builder = Feeder("word", max_retries=20), TopologyBuilder("joins")
    builder.set_spout("words", feeder, max_spout_pending=2)
    builder.set_bolt("first", first).shuffle_grouping("words")
    builder.set_bolt("second", second).shuffle_grouping("first")
    builder.set_bolt("count", count).fields_grouping("words", "word").fields_grouping("first", "word").fields_grouping("second", "word")
    feeder.feed_all((f"word {number}",) for number in range(6))
    feeder.close()
    config = Config(state_checkpoint_interval_ms=100)
    finished = run_topology(builder.build(), config, faults=[KillTask("second", at_secs=at_secs)], limit_secs=300)
    assert finished.state == "complete"
    assert sorted(set(feeder.acked)) == list(range(1, 7))  # what is repeated after a recovery is acked again (EO-1)
