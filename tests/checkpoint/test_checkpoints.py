"""`Checkpoints` by itself, without a run."""

import asyncio
from pathlib import Path

import pytest

from engine import Config
from engine.checkpoint import Checkpoints
from engine.clock import Clock
from engine.state import StatePlace, TaskStore
from tests.checkpoint.stored_states import found_by_a_start, write_words
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


async def test_a_bolt_that_was_renamed_is_told_of_the_state_that_nobody_takes_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    await write_words(url)
    seen = [StatePlace("seen", index, 2, False, 8) for index in range(2)]
    renamed = [StatePlace("counts", index, 2, True, 8) for index in range(2)]
    assert await found_by_a_start(url, "counts", seen) != {}
    assert caplog.messages == [], "a bolt that is gone is nobody's beginning"
    assert {owner for owner, _, _ in await found_by_a_start(url, "counts", [*seen, *renamed])} == {"seen"}
    [message] = caplog.messages
    assert "nothing is stored for 'counts', which begins with an empty state" in message
    assert "Something is stored for 'count'" in message
    assert "python -m engine state list" in message
