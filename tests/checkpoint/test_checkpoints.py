"""`Checkpoints` by itself, without a run."""

import asyncio

import pytest

from engine import Config
from engine.checkpoint import Checkpoints
from engine.clock import Clock
from engine.state import StatePlace, TaskStore
from tests.state.slow_store import SlowLookupStore, SlowProvider


class SlowToOpen(SlowProvider):
    """Takes a turn of the loop for each store."""

    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore:
        await asyncio.sleep(0)
        return await super().store(component_id, task_index, slots)


@pytest.mark.guarantee("CP-4")
async def test_a_task_has_one_state_whoever_asks_while_it_is_loaded() -> None:
    """An instance that dies while it is loaded, and the one after it."""
    place = StatePlace("count", 0, 1, True, 8)
    checkpoints = Checkpoints("words", SlowToOpen(SlowLookupStore()), Config(), Clock(), [place])
    first, second = await asyncio.gather(checkpoints.state_of(place, None), checkpoints.state_of(place, None))
    assert first is second is checkpoints.state_if_loaded(place)
    await checkpoints.close(fold=True)
