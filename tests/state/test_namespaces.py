"""Namespaces of a state: names, drops within calls, ownership, and what a store has to read for them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StateError
from engine.state import KeyValueState, LayeredState, StatePlace, codec_named, fold_committed, provider_of
from engine.state.namespaces import end_of, name_of, prefix_of, stored_prefix
from tests.state.slow_store import AnySlowStore, SlowLookupStore, SlowProvider, SlowResidentStore
from tests.state.states import checkpoint, restarted, state_on
from tests.state.test_layered import own_and_foreign
from tests.state.test_many_keys import DictState

MANY = 5000
NAMES = [0, 1, -1, 255, 2**63 - 1, -(2**63), "a", "ab", "b", "1", "\x00", "ü", "\ud800", "x" * 300]


@pytest.mark.guarantee("CP-12")
@pytest.mark.parametrize("name", [True, 1.0, None, "", b"a", ("a", 1), 2**63, -(2**63) - 1, [1]])
def test_other_names_are_refused(store: AnySlowStore, name: Any) -> None:
    with pytest.raises(StateError, match="cannot be the name of a namespace"):
        state_on(store).namespace(name)


@pytest.mark.guarantee("CP-12")
def test_prefixes_keep_names_apart() -> None:
    prefixes = [prefix_of(name) for name in NAMES]
    assert [name_of(prefix) for prefix in prefixes] == NAMES
    for prefix in prefixes:
        assert [other for other in prefixes if other.startswith(prefix)] == [prefix]
        assert stored_prefix(prefix + b"\xff") == prefix < prefix + b"\xff" * 50 < end_of(prefix)
    for bytes_ in (b"\xc1", b"\xc1i1234567", b"\xc1i12345678", b"\xc1s\x00\x00\x00\x00a", b"\xc1s\x00\x00\x00\x05a", b"\xc1x12345678901"):
        with pytest.raises(ValueError, match="not a key of a namespace"):
            stored_prefix(bytes_)


@pytest.mark.guarantee("CP-12")
async def test_a_namespace_in_use_is_one_object(store: AnySlowStore) -> None:
    state = state_on(store)
    await state.load()
    kept = state.namespace(1)
    assert state.namespace(1) is kept
    assert state.namespaces() == []
    for txid in range(3):
        kept.put("key", txid)
        assert state.namespace(1) is kept
        await checkpoint(state, 2 * txid)
        kept.drop()
        await checkpoint(state, 2 * txid + 1)
        await state.fold()
        assert state.namespaces() == []
        assert state.namespace(1) is kept
    assert not state._namespaces


@pytest.mark.guarantee("CP-12")
def test_a_state_of_a_user_has_no_namespaces() -> None:
    state: KeyValueState[Any, Any] = DictState()
    assert state.namespaces() == []
    with pytest.raises(StateError, match="DictState has no namespaces"):
        state.namespace(1)


@pytest.mark.guarantee("CP-13", "SV-2")
@pytest.mark.parametrize("prepares", [False, True])
async def test_the_drop_of_a_call_that_raises_is_undone(store: AnySlowStore, prepares: bool) -> None:
    """Large dicts that a drop leaves behind are freed later, but not if the drop is undone."""
    state = state_on(store)
    await state.load()
    state.namespace("a").add_many(range(MANY))
    if prepares:
        await state.prepare_commit(0)
        state.namespace("a").add_many(range(MANY))
    expected = dict(state.namespace("a").items())
    state.guard_call()
    state.namespace("a").put(1, "changed")
    state.namespace("a").drop()
    state.namespace("a").put(2, "new")
    state.namespace("a").drop()
    state.namespace("a").put(3, "newer")
    state.put(1, "plain")
    assert dict(state.namespace("a").items()) == {3: "newer"}
    state.undo_call()
    assert dict(state.namespace("a").items()) == expected
    assert dict(state.items()) == {}
    if prepares:
        await state.commit(0)
    await checkpoint(state, 1)
    await state.fold()
    assert dict(state.namespace("a").items()) == expected


@pytest.mark.guarantee("CP-13")
async def test_layers_that_move_on_during_a_call_are_seen_after_its_undo(store: AnySlowStore) -> None:
    state = state_on(store)
    await state.load()
    state.namespace("a").put("key", 1)
    await state.prepare_commit(0)
    state.guard_call()
    state.namespace("a").drop()
    await state.commit(0)
    await state.fold()
    assert state.namespace("a").get("key") is None
    state.undo_call()
    assert dict(state.namespace("a").items()) == {"key": 1}


@pytest.mark.guarantee("CP-12", "CP-9")
def test_keys_of_other_tasks_are_refused(store: AnySlowStore) -> None:
    place = StatePlace("count", 1, 3, True, 8)
    own, foreign = own_and_foreign(place)
    namespace = state_on(store, place).namespace("a")
    namespace.put(own, 1)
    for use in (lambda: namespace.put(foreign, 1), lambda: namespace.add_many([own, foreign])):
        with pytest.raises(StateError, match="which is not one of this task"):
            use()
    with pytest.raises(StateError, match="cannot be a key"):
        namespace.put([1], 1)
    with pytest.raises(StateError, match="the value of key"):
        namespace.put(own, object())


@pytest.mark.guarantee("CP-12", "CP-9")
@pytest.mark.parametrize("kind", [SlowLookupStore, SlowResidentStore])
async def test_key_of_chooses_the_slots_of_staged_keys(kind: type[AnySlowStore]) -> None:
    store, place = kind(), StatePlace("count", 0, 1, True, 8)
    state = state_on(store, place, key_of=lambda key: key[0])
    for first in range(20):
        state.namespace("a").put((first, "x"), first)
        state.namespace("b").put((first, "x"), first)
    await checkpoint(state, 0)
    state.namespace("b").drop()
    await checkpoint(state, 1)
    await fold_committed(SlowProvider(store), codec_named("msgpack"), place, lambda *_: True, 1)
    assert {stored_prefix(key) for _, key in store.rows} == {prefix_of("a")}
    assert sorted(slot for slot, _ in store.rows) == sorted(place.slot_of(first) for first in range(20))
    state = await restarted(store, 1, place, key_of=lambda key: key[0])
    assert state.namespace("a").get((7, "x")) == 7


@pytest.mark.guarantee("CP-7", "CP-12")
async def test_new_namespaces_of_a_lookup_store_are_not_read() -> None:
    store = SlowLookupStore()
    state = await restarted(store, -1)
    state.namespace("old").put("key", 1)
    await checkpoint(state, 0)
    await state.close()
    state = await restarted(store, 0)
    state.namespace("new").add_many(range(100))
    assert store.reads == 0
    assert state.namespace("old").get("key") == 1
    assert store.reads == 1
    state.namespace("old").drop()
    state.namespace("old").add_many(range(100))
    assert store.reads == 1


@pytest.mark.guarantee("CP-7", "CP-12")
async def test_a_checkpoint_does_not_touch_unchanged_namespaces(store: AnySlowStore) -> None:
    state = state_on(store)
    await state.load()
    for name in range(100):
        state.namespace(name).put("key", name)
    await checkpoint(state, 0)
    await state.fold()
    before = [state.namespace(name)._older for name in range(100)]
    state.namespace(3).put("key", 0)
    await checkpoint(state, 1)
    changed = [name for name, older in enumerate(before) if state.namespace(name)._older is not older]
    assert changed == [3]


@pytest.mark.guarantee("CP-14")
async def test_memory_of_a_dropped_namespace_is_freed_with_the_commit() -> None:
    provider = provider_of("memory://")
    place = StatePlace("count", 0, 1, True, 8)
    state: LayeredState[Any, Any] = LayeredState(await provider.store("count", 0, place.slots), codec_named("msgpack"), place)
    namespace = state.namespace("a")
    namespace.add_many(range(MANY))
    await checkpoint(state, 0)
    await state.fold()
    rows = namespace._rows
    assert len(rows) == MANY
    namespace.drop()
    await checkpoint(state, 1)
    assert not rows, "the dropped rows are still in memory"


@pytest.mark.guarantee("CP-11", "CP-12")
async def test_a_damaged_prefix_is_an_error_of_the_start(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    place = StatePlace("count", 0, 1, True, 8)

    async def begin(txid: int) -> None:
        provider = provider_of(url)
        await provider.open("counts")
        try:
            state: LayeredState[Any, Any] = LayeredState(await provider.store("count", 0, place.slots), codec_named("msgpack"), place)
            await state.load(txid)
            state.namespace("a").put("key", 1)
            await checkpoint(state, txid + 1)
            await state.close()
        finally:
            await provider.close()

    await begin(-1)
    with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
        file.execute("UPDATE rows SET key = x'c17801'")
    with pytest.raises(StateError, match="the key of a stored row of 'count' cannot be decoded"):
        await begin(0)


@pytest.mark.guarantee("CP-12", "SV-2")
@pytest.mark.parametrize("place", [StatePlace("count", 0, 1, True, 8), StatePlace("count", 1, 3, False, 8)])
async def test_first_values_of_keys_are_undone_and_stored_like_later_ones(store: AnySlowStore, place: StatePlace) -> None:
    """Some of the keys are put in C, others not."""
    keys = ["a", "ü", b"a", -1, 2**63 - 1, -(2**63), None, ("a", 1), ""]
    state = state_on(store, place)
    await state.load()
    namespace = state.namespace("a")
    state.guard_call()
    namespace.add_many(keys)
    namespace.put("b", 1)
    namespace.delete("c")
    state.undo_call()
    assert dict(namespace.items()) == {} == dict(state.items())
    namespace.add_many([*keys, *keys])
    state.add_many(keys)
    await checkpoint(state, 0)
    namespace.add_many([*keys, "new"])
    assert dict(namespace.items()) == {**dict.fromkeys(keys, 3), "new": 1}
    await checkpoint(state, 1)
    await state.fold()
    found = await restarted(store, 1, place)
    found.namespace("a").add_many(["newer", "a"])
    assert dict(found.namespace("a").items()) == {**dict.fromkeys(keys, 3), "new": 1, "newer": 1, "a": 4}
    assert dict(found.items()) == dict.fromkeys(keys, 1)
