"""`Checkpoints` alone, without a run."""

import asyncio
from pathlib import Path

import pytest

from engine import Config
from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.layout import Layout
from engine.checkpoint.machine import Event, Step
from engine.checkpoint.record_entries import LEDGER, StoredEntries
from engine.clock import Clock
from engine.state import StatePlace, TaskStore
from engine.state.providers import provider_of
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


@pytest.mark.guarantee("EO-9", "DL-5")
async def test_what_belongs_to_a_commit_is_written_by_the_recovery_if_the_write_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next process would not know who has staged the output, and letters of rows that are given up would be lost."""
    provider = provider_of("memory://")
    await provider.open("words")
    checkpoints = Checkpoints("words", provider, Config(), Clock(), Layout([], {"out": 3}))
    await checkpoints.open()
    monkeypatch.setattr(checkpoints.sources, "begin_commit", lambda *_: {"letter": 1})
    for event in (Event.BEGIN, Event.DONE, Event.DUE):
        checkpoints.machine.apply_event(event)
        await checkpoints.save()
    checkpoints.machine.apply_event(Event.DONE)
    assert checkpoints.machine.step is Step.COMMIT
    with monkeypatch.context() as context:
        context.setattr(checkpoints, "_write", interrupted)
        with pytest.raises(asyncio.CancelledError):
            await checkpoints.save()
    checkpoints.machine.apply_event(Event.FAILED)
    await checkpoints.save()
    entries = await provider.ledger(LEDGER).read()
    stored = StoredEntries(entries, "words")
    assert (stored.record.phase, stored.record.txid, stored.outputs, entries["letter"]) == ("committing", 0, {"out": 3}, 1)
    await checkpoints.close(fold=True)


async def interrupted(entries: object) -> None:
    raise asyncio.CancelledError


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
