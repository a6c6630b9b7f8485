"""Folds of `LayeredState`: their start, failures and interruptions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.errors import StateUnavailable
from engine.state import LayeredState, layered
from tests.state.slow_store import AnySlowStore
from tests.state.states import checkpoint, counts, restarted, state_on


async def test_a_fold_begins_after_enough_txids_and_deltas_never_outgrow_the_record(store: AnySlowStore) -> None:
    from engine.checkpoint.machine import MOST_COUNTED

    state, most = state_on(store), 0
    for txid in range(200):
        state.put(txid, txid)
        await checkpoint(state, txid)
        most = max(most, len(store.staged))
    assert most < MOST_COUNTED, "deltas that the record drops must be folded"
    await state.close()
    assert not store.staged
    assert dict(state.items()) == {txid: txid for txid in range(200)}


async def test_deltas_of_runs_that_die_before_a_fold_stay_within_the_record(store: AnySlowStore) -> None:
    from engine.checkpoint.machine import MOST_COUNTED

    async def never(rows: Any, upto_txid: int) -> None:
        await asyncio.Event().wait()

    fold, txid = store.fold, -1
    for _ in range(10):
        store.fold = fold  # type: ignore[method-assign]
        state = await restarted(store, txid)
        store.fold = never  # type: ignore[method-assign]
        assert dict(state.items()) == {number: number for number in range(txid + 1)}
        committing = asyncio.ensure_future(_commit_from(state, txid + 1))
        while not committing.done() and await still_moves(state):
            pass
        txid = state.committed_txid
        committing.cancel()
        await state.close(fold=False)
        assert len(store.staged) < MOST_COUNTED


async def _commit_from(state: LayeredState[Any, Any], txid: int) -> None:
    while True:
        state.put(txid, txid)
        await checkpoint(state, txid)
        txid += 1


async def still_moves(state: LayeredState[Any, Any]) -> bool:
    """Whether a state commits within many turns."""
    before = state.committed_txid
    for _ in range(200):
        await asyncio.sleep(0)
    return state.committed_txid > before


@pytest.fixture
def small_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layered, "FOLD_KEYS", 20)
    monkeypatch.setattr(layered, "FOLD_CHANGES", 60)


async def txids_until_a_fold(state: LayeredState[Any, Any], change: Callable[[int], None]) -> int:
    """Return the number of txids after which a fold has begun."""
    for txid in range(layered.FOLD_TXIDS):
        change(txid)
        await checkpoint(state, txid)
        if state._fold is not None:
            return txid + 1
    raise AssertionError("no fold has begun")


@pytest.mark.usefixtures("small_folds")
@pytest.mark.parametrize(("keys", "txids"), [(19, 3), (20, 2), (5, 5), (70, 1)])
async def test_keys_wait_for_a_fold_until_a_later_txid_has_left_them_alone(store: AnySlowStore, keys: int, txids: int) -> None:
    state = state_on(store)
    assert await txids_until_a_fold(state, lambda txid: state.put_many((txid * keys + number, 1) for number in range(keys))) == txids


@pytest.mark.usefixtures("small_folds")
@pytest.mark.parametrize(("keys", "txids"), [(25, 3), (29, 3), (10, 6), (4, 15)])
async def test_keys_that_each_txid_changes_wait_until_there_are_many_changes(store: AnySlowStore, keys: int, txids: int) -> None:
    state = state_on(store)
    assert await txids_until_a_fold(state, lambda txid: state.put_many((number, txid) for number in range(keys))) == txids


@pytest.mark.usefixtures("small_folds")
async def test_a_pane_that_is_dropped_soon_needs_no_fold_of_its_own(store: AnySlowStore) -> None:
    state = state_on(store)

    def next_pane(txid: int) -> None:
        if txid:
            state.namespace(txid - 1).drop()
        state.namespace(txid).put_many((number, 1) for number in range(9))

    assert await txids_until_a_fold(state, next_pane) == 7  # nine keys and a drop each, 60 changes with the seventh
    await state.close()
    assert {name: len(dict(state.namespace(name).items())) for name in state.namespaces()} == {6: 9}


@pytest.mark.guarantee("CP-6")
async def test_a_commit_that_comes_while_a_fold_frees_layers_is_newer_than_what_is_folded(store: AnySlowStore) -> None:
    state = state_on(store)
    for txid in range(layered.FOLD_TXIDS):
        state.put("key", txid)
        if txid == layered.FOLD_TXIDS - 1:
            await state.prepare_commit(txid)
            state.namespace(2).put_many((number, 1) for number in range(100_000))
            await state.commit(txid)  # the fold begins
        else:
            await checkpoint(state, txid)
    state.namespace(2).drop()  # as a window closes: its entries are freed in slices
    state.put("key", "new")
    await checkpoint(state, layered.FOLD_TXIDS)
    assert state.get("key") == "new"
    await state.close()
    assert await counts(restarted(store, layered.FOLD_TXIDS)) == {"key": "new"}


async def test_a_failed_fold_is_reported_and_repeated(store: AnySlowStore) -> None:
    state = state_on(store)
    for txid in range(layered.FOLD_TXIDS):
        state.put(txid, txid)
        await checkpoint(state, txid)
    store.failures = 1
    await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    state.put("next", 1)
    await state.prepare_commit(layered.FOLD_TXIDS)
    with pytest.raises(StateUnavailable):
        await state.commit(layered.FOLD_TXIDS)
    await state.commit(layered.FOLD_TXIDS)
    await state.close()
    assert (await restarted(store, layered.FOLD_TXIDS)).get("next") == 1
    assert len(store.rows) == layered.FOLD_TXIDS + 1


async def test_commits_wait_for_a_store_that_does_not_fold(store: AnySlowStore) -> None:
    state = state_on(store)

    async def away(rows: Any, upto_txid: int) -> None:
        raise StateUnavailable("the rows cannot be written")

    store.fold = away  # type: ignore[method-assign]
    held_back = None
    for txid in range(10 * layered.FOLD_TXIDS):
        state.put(txid, txid)
        await state.prepare_commit(txid)
        tries = [await unavailable_error(state.commit(txid)) for _ in range(3)]
        if None not in tries:
            held_back = txid
            break
    assert held_back is not None
    assert held_back < 3 * layered.FOLD_TXIDS
    assert dict(state.items()) == {number: number for number in range(held_back + 1)}


async def unavailable_error(work: Awaitable[None]) -> StateUnavailable | None:
    try:
        await work
    except StateUnavailable as error:
        return error
    return None


async def test_close_without_a_fold_leaves_no_task_behind(store: AnySlowStore) -> None:
    state = state_on(store)
    for txid in range(layered.FOLD_TXIDS):
        state.put(txid, txid)
        await checkpoint(state, txid)
    await state.close(fold=False)
    assert len(asyncio.all_tasks()) == 1
    assert dict(state.items()) == {txid: txid for txid in range(layered.FOLD_TXIDS)}
    assert await counts(restarted(store, layered.FOLD_TXIDS)) == dict(state.items())
