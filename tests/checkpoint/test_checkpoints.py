"""`Checkpoints` alone, without a run."""

import asyncio
from pathlib import Path

import pytest

from engine import Config
from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.layout import Layout
from engine.clock import Clock
from engine.state import StatePlace, TaskStore
from tests.checkpoint.stored_states import read_at_start, write_words
from tests.state.slow_store import SlowLookupStore, SlowProvider


class SlowToOpen(SlowProvider):
    """Takes a turn of the loop to open each store."""

    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore:
        await asyncio.sleep(0)
        return await super().store(component_id, task_index, slots)


@pytest.mark.guarantee("CP-4")
async def test_two_requests_for_the_state_of_a_task_that_is_loading_get_the_same_state() -> None:
    """An instance dies while it is loaded, and the next one asks too."""
    place = StatePlace("count", 0, 1, True, 8)
    checkpoints = Checkpoints("words", SlowToOpen(SlowLookupStore()), Config(), Clock(), Layout([place], {}))
    first, second = await asyncio.gather(checkpoints.state_of(place, None), checkpoints.state_of(place, None))
    assert first is second
    await checkpoints.close(fold=True)


async def test_the_state_of_a_renamed_bolt_is_reported_as_unused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    await write_words(url)
    seen = [StatePlace("seen", index, 2, False, 8) for index in range(2)]
    renamed = [StatePlace("counts", index, 2, True, 8) for index in range(2)]
    assert await read_at_start(url, "counts", seen) != {}
    assert caplog.messages == [], "a removed bolt alone is not reported"
    assert {owner for owner, _, _ in await read_at_start(url, "counts", [*seen, *renamed])} == {"seen"}
    [message] = caplog.messages
    assert "nothing is stored for 'counts', which begins with an empty state" in message
    assert "State is stored for 'count'" in message
    assert "python -m engine state list" in message
