"""`LayeredState`, one behaviour in each test; `test_layered_model.py` mixes them."""

import asyncio
import re
from typing import Any, NamedTuple

import pytest

from engine.errors import StateError, StateUnavailable
from engine.kernel import key_group
from engine.state import StatePlace, codec_named, delta, fold_committed, layered
from engine.state.codec import CodecName, Encoded
from tests.state.slow_store import AnySlowStore, SlowLookupStore, SlowProvider, SlowResidentStore
from tests.state.states import checkpoint, counts, restarted, state_on

# Keys


@pytest.mark.parametrize("key", [[1], {}, float("nan"), object()], ids=["list", "dict", "nan", "object"])
def test_an_invalid_key_is_refused(store: AnySlowStore, key: Any) -> None:
    state = state_on(store)
    for use in (lambda: state.put(key, 1), lambda: state.delete(key), lambda: state.get(key), lambda: key in state):
        with pytest.raises(StateError, match=r"'count': .* cannot be a key"):
            use()


@pytest.mark.guarantee("CP-6")
async def test_equal_keys_share_one_value(store: AnySlowStore) -> None:
    state = state_on(store)
    state.put(1, "int")
    await checkpoint(state, 0)
    state.put(True, "bool")
    state.put(("a", 2.0), "tuple")
    await checkpoint(state, 1)
    await state.fold()
    state.put(1.0, "float")
    assert dict(state.items()) == {1: "float", ("a", 2): "tuple"}
    await checkpoint(state, 2)
    state = await restarted(store, 2)
    assert dict(state.items()) == {1: "float", ("a", 2): "tuple"}
    assert state.get(("a", 2)) == "tuple"


def own_and_foreign(place: StatePlace) -> tuple[str, str]:
    keys = [f"key {number}" for number in range(200)]
    return next(key for key in keys if place.slot_of(key) in place.slots), next(
        key for key in keys if place.slot_of(key) not in place.slots
    )


@pytest.mark.guarantee("CP-9")
def test_a_key_of_another_task_is_refused_by_name(store: AnySlowStore) -> None:
    place = StatePlace("count", 1, 3, True, 8)
    own, foreign = own_and_foreign(place)
    state = state_on(store, place)
    state.put(own, 1)
    group = key_group(foreign, 8)
    with pytest.raises(
        StateError, match=re.escape(f"'count': the key {foreign!r} belongs to key group {group}, which is not one of this task (3 to 5)")
    ):
        state.put(foreign, 1)
    with pytest.raises(StateError):
        state.delete(foreign)
    assert dict(state.items()) == {own: 1}


@pytest.mark.guarantee("CP-9")
async def test_a_key_of_another_task_is_never_found(store: AnySlowStore) -> None:
    place, whole = StatePlace("count", 1, 3, True, 8), StatePlace("count", 0, 1, True, 8)
    own, foreign = own_and_foreign(place)
    everything = state_on(store, whole)
    everything.put(foreign, "theirs")
    await checkpoint(everything, 0)
    await everything.close()
    if isinstance(store, SlowLookupStore):
        assert state_on(store, place).get(foreign) is None
        assert state_on(store, whole).get(foreign) == "theirs"
    assert own not in state_on(store, place)


class Seen(NamedTuple):
    word: str
    day: int


@pytest.mark.guarantee("CP-9")
async def test_key_of_also_decides_the_group_of_rows_that_a_start_folds(store: AnySlowStore) -> None:
    place = StatePlace("count", 1, 3, True, 8)
    own, foreign = own_and_foreign(place)
    state = state_on(store, place, key_of=lambda key: key[0])
    for day in range(20):
        state.put(Seen(own, day), day)
    with pytest.raises(StateError, match="not one of this task"):
        state.put(Seen(foreign, 1), 1)
    await checkpoint(state, 0)
    await fold_committed(SlowProvider(store), codec_named("msgpack"), place, lambda *_: True, 0)
    state = await restarted(store, 0, place, key_of=lambda key: key[0])
    assert {slot for slot, _ in store.rows} == {key_group(own, 8)}
    assert [state.get((own, day)) for day in range(20)] == list(range(20))


@pytest.mark.parametrize("codec", ["msgpack", "pickle"])
async def test_a_key_has_one_row_with_any_codec_of_values(store: AnySlowStore, codec: CodecName) -> None:
    state = state_on(store, codec=codec)
    word = "word"
    for txid, key in enumerate([(word, word), (word, "".join(["wo", "rd"])), ("wor" + chr(100), word)]):
        state.put(key, txid)
        await checkpoint(state, txid)
        await state.fold()
    assert len(store.rows) == 1
    assert dict(state.items()) == {("word", "word"): 2}


# Values


@pytest.mark.guarantee("CP-6")
@pytest.mark.parametrize("stage", ["frozen", "written", "committed", "folded", "restarted"])
async def test_a_list_that_is_changed_in_place_changes_nothing_committed(store: AnySlowStore, stage: str) -> None:
    state = state_on(store)
    state.put("list", [1])
    state.freeze(0)
    if stage != "frozen":
        await state.write_frozen()
    if stage in ("committed", "folded", "restarted"):
        await state.commit(0)
    if stage == "folded":
        await state.fold()
    if stage == "restarted":
        state = await restarted(store, 0)
    got = state.get("list")
    got.append(2)
    assert state.get("list") == [1]
    state.put("list", got)
    assert state.get("list") == [1, 2]
    if stage in ("frozen", "written"):
        state.drop_changes()
    else:
        await state.rollback()
    assert state.get("list") == [1]


async def test_a_value_that_cannot_be_stored_is_named_with_its_key(store: AnySlowStore) -> None:
    state = state_on(store)
    state.put("good", 1)
    with pytest.raises(StateError, match="'count': the value of key 'bad' cannot be stored: a value of type object") as raised:
        state.put("bad", object())
    assert 'state_codec="pickle"' in str(raised.value.hint)
    await checkpoint(state, 0)
    assert dict(state.items()) == {"good": 1}


async def test_large_values_make_more_blobs(store: AnySlowStore) -> None:
    state = state_on(store)
    for number in range(50):
        state.put(number, [b"x" * 20_000])
    await state.prepare_commit(0)
    blobs = store.staged[0, 0]
    assert len(blobs) >= 3
    assert max(map(len, blobs)) < delta.BYTES_PER_BLOB + 50_000
    assert state.staged_bytes == sum(map(len, blobs))


async def test_the_error_for_an_unreadable_row_names_the_component(store: AnySlowStore) -> None:
    store.rows[0, b"\xa1a"] = b"\xc1"
    state = state_on(store)

    async def read() -> None:
        await state.load(3)
        state.get("a")

    with pytest.raises(StateError, match=r"a stored row of 'count', key 'a', cannot be decoded \(read as of txid 3\)"):
        await read()


class Order(NamedTuple):
    """A class that is renamed before the next start."""

    number: int


@pytest.mark.guarantee("CP-11")
@pytest.mark.parametrize("where", ["row", "delta"])
async def test_a_start_names_the_value_whose_class_is_gone(store: AnySlowStore, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_on(store, codec="pickle")
    state.put("plain", 1)
    state.put("order", Order(7))
    await checkpoint(state, 0)
    if where == "row":
        await state.fold()
    monkeypatch.delitem(globals(), "Order")

    async def start() -> None:
        await (await restarted(store, 0, codec="pickle")).check_values()

    text = "a stored row of 'count', key 'order', cannot be decoded (read as of txid 0): a value of tests.state.test_layered.Order cannot"
    with pytest.raises(StateError, match=re.escape(text)):
        await start()


async def test_a_state_whose_values_another_process_decodes_gives_them_as_they_are(store: AnySlowStore) -> None:
    state = state_on(store, codec="pickle")
    state.put("row", Order(1))
    state.put("deleted", Order(0))
    await checkpoint(state, 0)
    await state.fold()
    state.delete("deleted")
    state.put("delta", Order(2))
    state.put("plain", 3)
    await checkpoint(state, 1)
    copy = state_on(store, codec="pickle", opens_values=False)
    await copy.load(1, lambda *_: True)
    found = {key: value for _, _, items in copy.stored_parts() for key, value in items}
    assert {type(value) for value in found.values()} <= {Encoded, int}
    other = state_on(SlowResidentStore(), codec="pickle")
    other.take_rows([(None, False, found)])
    assert dict(other.items()) == {"row": Order(1), "delta": Order(2), "plain": 3}


# Checkpoints


@pytest.mark.guarantee("CP-6")
async def test_steps_of_a_checkpoint_in_a_wrong_order_are_refused(store: AnySlowStore) -> None:
    state = state_on(store)
    with pytest.raises(StateError, match="commit of txid 0, which was never prepared"):
        await state.commit(0)
    state.freeze(0)
    with pytest.raises(StateError, match="prepare of txid 1, but 0 is prepared and neither"):
        state.freeze(1)
    with pytest.raises(StateError, match="never prepared"):
        await state.commit(0)  # nothing is durable yet
    await state.write_frozen()
    await state.commit(0)
    await state.commit(0)
    with pytest.raises(StateError, match="prepare of txid 0, but 0 is committed"):
        state.freeze(0)


@pytest.mark.guarantee("CP-7")
@pytest.mark.parametrize("turns", range(12))
async def test_a_cancelled_commit_is_still_committed(store: AnySlowStore, turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision to commit is saved before a task knows it. If the task dies in between, its layer must survive."""
    monkeypatch.setattr(layered, "KEYS_PER_TURN", 1)
    state = state_on(store)
    for txid in range(2):
        for number in range(5):
            state.put(number, txid)
        await state.prepare_commit(txid)
        committing = asyncio.create_task(state.commit(txid))
        for _ in range(turns + 1):
            await asyncio.sleep(0)
        committing.cancel()
        await asyncio.wait([committing])
    state.put(0, "lost")
    await state.rollback()
    assert dict(state.items()) == dict.fromkeys(range(5), 1)
    await checkpoint(state, 2)
    await state.close()
    assert await counts(restarted(store, 2)) == dict.fromkeys(range(5), 1)


@pytest.mark.guarantee("CP-7")
async def test_only_changed_keys_are_written(store: AnySlowStore) -> None:
    state = state_on(store)
    for number in range(100):
        state.put(number, number)
    await checkpoint(state, 0)
    state.put(5, 6)
    state.delete(7)
    await state.prepare_commit(1)
    [blob] = store.staged[1, 0]
    assert delta.decode_blob(blob, codec_named("msgpack")) == [(None, False, [5, 7], [6, delta.DELETED], [])]


async def test_an_abandoned_write_stages_nothing_in_a_later_round(store: AnySlowStore) -> None:
    state = state_on(store)
    state.put("a", 1)
    state.freeze(0, 1)
    store.failures = 1
    with pytest.raises(StateUnavailable):
        await state.write_frozen()
    await state.rollback()
    await state.write_frozen()
    assert not store.staged
    state.put("a", 2)
    state.freeze(0, 3)
    await asyncio.gather(state.write_frozen(), state.write_frozen())
    assert list(store.staged) == [(0, 3)]
    assert store.most_writing == 1


@pytest.mark.guarantee("CP-7")
async def test_the_loop_is_not_blocked_while_a_delta_is_written(store: AnySlowStore) -> None:
    state = state_on(store)
    for number in range(100):
        state.put(number, 1)
    state.freeze(0)
    writing = asyncio.create_task(state.write_frozen())
    await asyncio.sleep(0)
    for number in range(100):
        state.put(number, state.get(number) + 1)
    await writing
    await state.commit(0)
    assert await counts(restarted(store, 0)) == dict.fromkeys(range(100), 1)
    assert dict(state.items()) == dict.fromkeys(range(100), 2)


@pytest.mark.guarantee("CP-7")
async def test_a_fold_that_begins_during_a_commit_loses_nothing(store: AnySlowStore) -> None:
    state = state_on(store)
    state.put("first", 0)
    await checkpoint(state, 0)
    for number in range(3 * layered.KEYS_PER_TURN):
        state.put(number, 1)
    await state.prepare_commit(1)
    await asyncio.gather(state.commit(1), state.fold())
    expected = {"first": 0} | dict.fromkeys(range(3 * layered.KEYS_PER_TURN), 1)
    assert dict(state.items()) == expected
    await state.close()
    assert await counts(restarted(store, 1)) == expected


async def test_a_cache_is_bounded_and_repeated_reads_ask_the_store_once() -> None:
    store = SlowLookupStore()
    state = state_on(store, cache_keys=100)
    for number in range(1000):
        state.put(number, [number])
    await checkpoint(state, 0)
    await state.close()
    state = await restarted(store, 0, cache_keys=100)
    store.reads = 0
    assert [state.get(1)[0] for _ in range(10)] == [1] * 10
    assert [state.get("not there") for _ in range(10)] == [None] * 10
    assert store.reads == 2
    assert all(state.get(number) == [number] for number in range(1000))
    assert len(state._rows) <= 100


async def test_new_keys_of_an_empty_store_are_never_read() -> None:
    store = SlowLookupStore()
    state = await restarted(store, -1, cache_keys=100)
    for key in range(101):
        state.put(key, state.get(key, 0) + 1)
    state.delete(0)
    await checkpoint(state, 0)
    await state.fold()
    assert [state.get(key) for key in range(102)] == [None, *[1] * 100, None]
    assert store.reads == 0
    state.put(101, 1)
    await checkpoint(state, 1)
    await state.fold()
    assert len(state._rows) == 100
    assert [state.get(key) for key in range(103)] == [None, *[1] * 101, None]
    assert store.reads >= 1, "the store has more keys than the cache, so an unknown key may be stored"


async def test_keys_of_a_store_with_rows_are_read() -> None:
    store = SlowLookupStore()
    state = await restarted(store, -1)
    state.put("stored", 1)
    await checkpoint(state, 0)
    await state.close()
    state = await restarted(store, 0)
    assert (state.get("stored"), state.get("new")) == (1, None)
    assert store.reads == 2
