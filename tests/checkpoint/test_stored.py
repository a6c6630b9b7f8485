"""Tools read the state that the next start restores: the last committed checkpoint, after any crash and during a run."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import Config, StateError
from engine.checkpoint.deletion import delete_state
from engine.checkpoint.record_entries import LEDGER, StoredEntries, deletion_entry
from engine.checkpoint.stored import CommittedState
from engine.state import StatePlace, provider_of
from tests.checkpoint.killed_bolts import Death
from tests.checkpoint.killing import counting_topology
from tests.checkpoint.stored_states import WORDS, Writer, read_at_start, read_with_tools, write_words

WORD_PLACES = [StatePlace(component_id, index, 2, component_id == "count", 8) for component_id in ("count", "seen") for index in range(2)]


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder}/state.db"


@pytest.mark.guarantee("CP-1", "CP-2")
async def test_a_read_during_a_run_gives_a_consistent_cut(tmp_path: Path) -> None:
    config = Config(state_provider=url_of(tmp_path), state_checkpoint_interval_ms=100)
    cuts = set[int]()
    async with engine.run(counting_topology(tmp_path, 1000, Death(None, 0)), config) as run:
        ended = asyncio.ensure_future(run.completed())
        while not ended.done():
            found = await read_with_tools(url_of(tmp_path), "killed")
            first, second = ({key: value for (owner, _, key), value in found.items() if owner == name} for name in ("first", "second"))
            assert first == second, "an inconsistent cut"
            cuts.add(len(first))
        await ended
    assert len(cuts) > 3


@pytest.mark.guarantee("CP-7", "CP-9")
@pytest.mark.parametrize("codec", ["msgpack", "pickle"])
@pytest.mark.parametrize("folds", [False, True])
async def test_tools_read_deleted_keys_unkeyed_tasks_and_uncommitted_deltas_like_a_start(folds: bool, codec: Any, tmp_path: Path) -> None:
    await write_words(url_of(tmp_path), codec=codec, folds=folds)
    looked = await read_with_tools(url_of(tmp_path), "counts")
    assert {key: value for (owner, _, key), value in looked.items() if owner == "count"} == WORDS
    assert {place: value for place, value in looked.items() if place[0] == "seen"} == {
        ("seen", 0, "k"): "first",
        ("seen", 1, "k"): "second",
        ("seen", 1, (1, "x")): [1],
    }
    assert looked == await read_at_start(url_of(tmp_path), "counts", WORD_PLACES, codec)


@pytest.mark.parametrize("phase", ["committing", "committed"])
async def test_an_interrupted_commit_counts(phase: str, tmp_path: Path) -> None:
    provider, place = provider_of(url_of(tmp_path)), StatePlace("count", 0, 1, True, 8)
    await provider.open("counts")
    writer = Writer(provider, "counts", [place])
    await writer.begin()
    await writer.prepare({place: {"a": 1}})
    await writer.commit(phase)
    await provider.close()
    assert await read_with_tools(url_of(tmp_path), "counts") == {("count", place.slot_of("a"), "a"): 1}


async def test_keys_are_read_from_the_group_of_their_key_of(tmp_path: Path) -> None:
    provider, places = provider_of(url_of(tmp_path)), [StatePlace("count", index, 2, True, 8) for index in range(2)]
    await provider.open("counts")
    writer = Writer(provider, "counts", places)
    await writer.begin(count=lambda key: key[0])
    keys = [(user, item) for user in ("x", "y", "z") for item in range(3)]
    await writer.prepare({place: {key: 1 for key in keys if place.slot_of(key[0]) in place.slots} for place in places})
    await writer.commit()
    await writer.fold()
    await writer.prepare({place: {key: 2 for key in keys[::2] if place.slot_of(key[0]) in place.slots} for place in places})
    await writer.commit()
    await provider.close()
    looked = await read_with_tools(url_of(tmp_path), "counts")
    assert looked == {("count", places[0].slot_of(key[0]), key): 2 if key in keys[::2] else 1 for key in keys}


async def test_pickled_deltas_are_decoded_only_on_request(tmp_path: Path) -> None:
    await write_words(url_of(tmp_path), codec="pickle")
    async with provider_of(url_of(tmp_path)).inventory().look("counts") as stored:
        state = await CommittedState.of(stored, "counts")
        assert (await state.sizes("count")).keys is None
        assert (await state.sizes("count")).rows == 3
        with pytest.raises(StateError, match="pickled deltas") as told:
            [rows async for rows in state.rows("count")]
        assert "--unpickle" in str(told.value)


async def test_uncommitted_pickled_deltas_do_not_hide_committed_rows(tmp_path: Path) -> None:
    provider, place = provider_of(url_of(tmp_path)), StatePlace("count", 0, 1, True, 8)
    await provider.open("counts")
    writer = Writer(provider, "counts", [place], "pickle")
    await writer.begin()
    await writer.prepare({place: {"a": 1}})
    await writer.commit()
    await writer.fold()
    await writer.prepare({place: {"a": 2, "b": 2}})
    await provider.close()
    async with provider_of(url_of(tmp_path)).inventory().look("counts") as stored:
        state = await CommittedState.of(stored, "counts")
        sizes = await state.sizes("count")
        assert (sizes.keys, sizes.deltas) == (1, 1)
        assert [len(rows) async for rows in state.rows("count")] == [1]


@pytest.mark.parametrize(
    "entries",
    [
        {"record": ["committed"]},
        {"record": 7},
        {"record": ["lost", 1, 1, 1, []]},
        {"codec": "m"},
        {"codec": [1]},
        {"layout:count": 3},
        {"codec": ["msgpack", 99]},
        {"codec": ["cbor", 1]},
    ],
)
def test_a_ledger_with_foreign_entries_is_refused(entries: dict[str, object]) -> None:
    stored = StoredEntries(entries, "counts")
    with pytest.raises(StateError) as told:
        _ = stored.record, stored.codec, stored.layouts
    assert told.value.hint


class TestDeletion:
    """Deletion of a component's state; after an interrupted one, a start is refused."""

    async def test_a_deleted_component_starts_empty(self, tmp_path: Path) -> None:
        url = url_of(tmp_path)
        await write_words(url)
        _ = [rows async for rows in delete_state(provider_of(url), "counts", "count")]
        found = await read_with_tools(url, "counts")
        assert {owner for owner, _, _ in found} == {"seen"}
        assert found == await read_at_start(url, "counts", WORD_PLACES)

    async def test_a_deleted_component_may_get_another_layout(self, tmp_path: Path) -> None:
        url, others = url_of(tmp_path), [StatePlace("count", index, 3, False, 8) for index in range(3)]
        await write_words(url)
        with pytest.raises(StateError):
            await read_at_start(url, "counts", others)
        _ = [rows async for rows in delete_state(provider_of(url), "counts", "count")]
        assert await read_at_start(url, "counts", others) == {}

    @pytest.mark.parametrize("component_id", [None, "count"])
    @pytest.mark.parametrize("interrupted_after", [0, 1, 2])
    async def test_after_an_interrupted_deletion_a_start_is_refused_until_the_deletion_is_repeated(
        self, component_id: str | None, interrupted_after: int, tmp_path: Path
    ) -> None:
        url = url_of(tmp_path)
        await write_words(url)
        await self._interrupted(url, component_id, interrupted_after)

        with pytest.raises(StateError, match="being deleted"):
            await read_at_start(url, "counts", WORD_PLACES)
        _ = [rows async for rows in delete_state(provider_of(url), "counts", component_id)]
        assert not [place for place in await read_at_start(url, "counts", WORD_PLACES) if component_id in (None, place[0])]

    async def _interrupted(self, url: str, component_id: str | None, steps: int) -> None:
        """Let the process die before the first step, or after some."""
        provider = provider_of(url)
        await provider.open("counts")
        ledger = provider.ledger(LEDGER)
        await ledger.claim()
        await ledger.write(deletion_entry(["$all" if component_id is None else component_id]))
        removal = provider.inventory().remove(component_id)
        for _ in range(steps):
            await anext(removal)
        await provider.close()

    async def test_the_state_of_a_running_topology_cannot_be_deleted(self, tmp_path: Path) -> None:
        url = url_of(tmp_path)
        await write_words(url)
        provider = provider_of(url)
        await provider.open("counts")
        with pytest.raises(StateError, match="runs already"):
            _ = [rows async for rows in delete_state(provider_of(url), "counts")]
        await provider.close()
        assert len(await read_with_tools(url, "counts")) == 6


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("record", ["committed", "1", 2, 1, []]),
        ("record", ["committed", 1, None, None, []]),
        ("record", ["committed", 1, 2, 1, [[None, 1]]]),
        ("record", ["elsewhere", 1, 2, 1, []]),
        ("layout:count", None),
        ("layout:count", [True, 0, 128]),
        ("layout:count", [True, 2, "128"]),
    ],
)
def test_a_damaged_entry_is_reported(name: str, entry: object) -> None:
    entries = StoredEntries({name: entry}, "counts")
    with pytest.raises(StateError, match=f"the entry '{name}' of topology 'counts' cannot be read"):
        _ = entries.record, entries.layouts
