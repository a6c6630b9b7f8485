"""What open windows cost in memory, over the state that the engine has."""

import asyncio
import gc
import tracemalloc
from datetime import timedelta
from typing import Any

import pytest

from engine.state.memory import MemoryStore
from engine.streams.aggregates import Count
from engine.streams.times import INFINITY
from engine.streams.windows import Updates, open_keeper, session, tumbling
from tests.state.states import checkpoint, state_on

KEYS = 20_000


async def bytes_per_key(spec: Any, updates: Updates | None) -> tuple[float, float]:
    """Return the bytes of one open key with its name, after checkpoints, and at the peak of the close."""
    state = state_on(MemoryStore())
    keeper = open_keeper(state, spec, Count(), updates=updates)
    gc.collect()
    tracemalloc.start()
    try:
        for first in range(0, KEYS, 1000):
            numbers = range(first, first + 1000)
            times = [1_700_000_000_000_000 + number for number in numbers]
            keeper.add_rows([f"user-{number:012}" for number in numbers], times, [None] * 1000)
        for txid in (1, 2):
            await checkpoint(state, txid)
        await state.close()
        gc.collect()
        open_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assert sum(len(part) for part in keeper.close(INFINITY)) == KEYS
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return open_bytes / KEYS, peak_bytes / KEYS


@pytest.mark.guarantee("WI-6")
@pytest.mark.parametrize(
    ("spec", "most"), [(tumbling(timedelta(days=1)), 200), (session(gap=timedelta(minutes=30)), 250)], ids=["pane", "session"]
)
def test_an_open_key_costs_few_bytes_and_its_close_copies_little(spec: Any, most: int) -> None:
    opened, peak = asyncio.run(bytes_per_key(spec, None))
    assert opened <= most
    assert peak <= opened + 120  # the keys to close, and the deletions until the next checkpoint


@pytest.mark.guarantee("WI-6")
def test_a_session_that_may_still_change_costs_little_more() -> None:
    opened, _ = asyncio.run(bytes_per_key(session(gap=timedelta(minutes=30)), Updates(allowed_us=60_000_000)))
    assert opened <= 260
