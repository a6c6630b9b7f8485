"""A start after an interrupted run: committed deltas count, in the layout that wrote them. Others are dropped."""

import copy
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from engine.errors import StateError
from engine.state import Codec, LayeredState, StatePlace, StateProvider, codec_named, fold_committed, provider_of
from engine.state.codec import CodecName
from tests.state.slow_store import SlowLookupStore, SlowProvider

KEY_GROUPS = 16


def place(index: int, tasks: int, *, keyed: bool = True) -> StatePlace:
    return StatePlace("count", index, tasks, keyed, KEY_GROUPS)


async def staged(store: SlowLookupStore, txid: int, round_: int, codec: Codec, **changes: Any) -> None:
    """Stage a delta of a task that was killed after it; None deletes."""
    state: LayeredState[str, Any] = LayeredState(store, codec, place(0, 1))
    state.committed_txid = txid - 1
    for key, value in changes.items():
        if value is None:
            state.delete(key)
        else:
            state.put(key, value)
    state.freeze(txid, round_)
    await state.write_frozen()


async def restored_state(
    store: SlowLookupStore, committed_txid: int, counted: set[tuple[int, int]], codec: CodecName = "msgpack"
) -> dict[Any, Any]:
    """Two kinds of start: one folds first, in the other the task loads its own deltas."""
    taken_up = await taken_up_by_its_task(copy.deepcopy(store), committed_txid, counted, codec)
    assert await folded(store, committed_txid, counted, codec) == taken_up
    return taken_up


async def folded(
    store: SlowLookupStore, committed_txid: int, counted: set[tuple[int, int]], codec: CodecName = "msgpack"
) -> dict[Any, Any]:
    """Return the state of a start that folds first. The fold runs twice, as after a crash."""
    for _ in range(2):
        await fold_committed(SlowProvider(store), codec_named(codec), place(0, 1), lambda *name: name in counted, committed_txid)
    assert not store.staged
    state: LayeredState[Any, Any] = LayeredState(store, codec_named(codec), place(0, 1))
    await state.load(committed_txid)
    return dict(state.items())


async def taken_up_by_its_task(
    store: SlowLookupStore, committed_txid: int, counted: set[tuple[int, int]], codec: CodecName
) -> dict[Any, Any]:
    states: list[LayeredState[Any, Any]] = [LayeredState(store, codec_named(codec), place(0, 1)) for _ in range(2)]
    for state in states:  # the first dies before its fold
        await state.load(committed_txid, lambda *name: name in counted)
    before = dict(states[1].items())
    await states[1].close()
    assert not store.staged
    assert dict(states[1].items()) == before
    await states[0].close(fold=False)
    return before


@pytest.mark.guarantee("CP-7")
@pytest.mark.parametrize("codec", ["msgpack", "pickle"])
async def test_committed_deltas_are_folded_and_others_dropped(codec: CodecName) -> None:
    store, writer = SlowLookupStore(), codec_named(codec)
    await staged(store, 0, 2, writer, a=1, gone=1, back=1)
    await staged(store, 1, 4, writer, a="undone by a rollback", b="undone")
    await staged(store, 1, 7, writer, a=2, gone=None, back=None, list=[1])
    await staged(store, 2, 9, writer, back=3)
    await staged(store, 3, 12, writer, a="prepared, never committed", back=None)
    assert await restored_state(store, 2, {(0, 2), (1, 7), (2, 9)}, codec) == {"a": 2, "list": [1], "back": 3}


@pytest.mark.guarantee("CP-7")
async def test_without_a_committed_checkpoint_the_state_is_empty() -> None:
    store = SlowLookupStore()
    await staged(store, 0, 1, codec_named("msgpack"), a=1)
    assert await restored_state(store, -1, set()) == {}


async def test_a_store_gets_each_key_once() -> None:
    store, given = SlowLookupStore(), []
    for txid in range(4):
        await staged(store, txid, txid, codec_named("msgpack"), a=txid if txid % 2 else None, b=txid)
    fold = store.fold

    async def noted(rows: Any, upto_txid: int) -> None:
        async def through() -> Any:
            async for chunk in rows:
                given.extend(chunk)
                yield chunk

        await fold(through(), upto_txid)

    store.fold = noted  # type: ignore[method-assign]
    assert await folded(store, 3, {(txid, txid) for txid in range(4)}) == {"a": 3, "b": 3}
    assert len(given) == len({row.key for row in given}) == 2


@pytest.mark.guarantee("CP-7")
async def test_an_interrupted_start_is_repeated() -> None:
    for failing_step in range(12):
        store = SlowLookupStore()
        await staged(store, 0, 1, codec_named("msgpack"), a=1, b=1, c=1, d=1)
        await staged(store, 1, 2, codec_named("msgpack"), a=2, b=None)
        step, left = store._step, iter(range(failing_step))

        async def breaks(step: Any = step, left: Any = left) -> None:
            if next(left, None) is None:
                raise ConnectionResetError
            await step()

        store._step = breaks  # type: ignore[method-assign]
        with suppress(ConnectionResetError):
            await restored_state(store, 1, {(0, 1), (1, 2)})
        store._step = step  # type: ignore[method-assign]
        assert await restored_state(store, 1, {(0, 1), (1, 2)}) == {"a": 2, "c": 1, "d": 1}


@pytest.mark.parametrize(
    "blob", [b"", b"\xc1", b"\x01", b"\x91\x01", b"\x92\x91\xa1a\x90", b"\x92\x91\x90\x91\x01", b"\x92\x01\x02"], ids=repr
)
async def test_the_error_for_an_unreadable_delta_names_it(blob: bytes) -> None:
    store = SlowLookupStore()
    store.staged[1, 5] = (blob,)
    with pytest.raises(StateError, match=r"the delta that 'count' \(task index 0\) stored for txid 1, round 5, cannot be read"):
        await restored_state(store, 1, {(1, 5)})
    assert store.staged, "nothing was dropped"


async def started(provider: StateProvider, before: int, tasks: int, committed_txid: int) -> list[LayeredState[Any, Any]]:
    """Return the states of all tasks after a start: committed deltas are applied in the layout that wrote them."""
    codec = codec_named("msgpack")
    for index in range(before):
        await fold_committed(provider, codec, place(index, before), lambda *_: True, committed_txid)
    states: list[LayeredState[Any, Any]] = []
    for index in range(tasks):
        own = place(index, tasks)
        states.append(LayeredState(await provider.store("count", index, own.slots), codec, own))
        await states[-1].load(committed_txid)
    return states


@pytest.mark.guarantee("CP-9")
@pytest.mark.parametrize("folds", [False, True], ids=["killed", "closed"])
async def test_every_key_is_found_once_at_any_parallelism(tmp_path: Path, folds: bool) -> None:
    expected: dict[Any, Any] = {f"key {number}": 0 for number in range(400)} | {number: [0] for number in range(100)}
    before, txid = 2, -1
    for tasks in (2, 3, 8, 1, 16):
        provider = provider_of(f"sqlite:///{tmp_path}/state.db")
        await provider.open("words")
        states = await started(provider, before, tasks, txid)
        items = [item for state in states for item in state.items()]
        if txid >= 0:
            assert len(items) == len(expected)
            assert dict(items) == expected
        for _ in range(2):
            txid += 1
            for key in list(expected):
                if crc32(f"{key} {txid}".encode()) % 50 == 0:
                    del expected[key]
                    owner(states, key).delete(key)
                else:
                    expected[key] = [tasks, txid]
                    owner(states, key).put(key, expected[key])
            for state in states:
                await state.prepare_commit(txid)
                await state.commit(txid)
        for state in states:
            await state.close(fold=folds)
        await provider.close()
        before = tasks


def owner(states: list[LayeredState[Any, Any]], key: Any) -> LayeredState[Any, Any]:
    [found] = [state for state in states if state.place.slot_of(key) in state.place.slots]
    return found


@pytest.mark.guarantee("CP-9")
async def test_without_a_fields_grouping_each_task_finds_its_own(tmp_path: Path) -> None:
    codec = codec_named("msgpack")
    for txid in range(2):
        provider = provider_of(f"sqlite:///{tmp_path}/state.db")
        await provider.open("words")
        for index in range(3):
            own = place(index, 3, keyed=False)
            state: LayeredState[Any, Any] = LayeredState(await provider.store("count", index, own.slots), codec, own)
            await state.load(txid - 1, lambda *_: True)
            assert dict(state.items()) == ({"same key": f"of {index}"} if txid else {})
            state.put("same key", f"of {index}")
            await state.prepare_commit(txid)
            await state.commit(txid)
        await provider.close()
