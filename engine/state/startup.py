"""What an interrupted run left staged: what counts is folded in, the rest is dropped, before any task runs (CP-7)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from engine.errors import StateError
from engine.state.api import Row, StagedDelta, StateProvider
from engine.state.codec import Codec, MessagePack
from engine.state.delta import Change, changes_in, slices, stored_value
from engine.state.keys import canonical
from engine.state.place import StatePlace

ROWS_PER_CHUNK = 1000


async def fold_what_counts(
    provider: StateProvider, codec: Codec, place: StatePlace, counts: Callable[[int, int], bool], committed_txid: int
) -> None:
    """Fold the committed deltas of one task, in the layout that wrote them; drop what was never committed. May be repeated."""
    store = await provider.store(place.component_id, place.task_index, place.slots)
    staged = await store.deltas()
    if any(delta.txid <= committed_txid for delta in staged):
        changes = await _merged(
            [delta for delta in staged if delta.txid <= committed_txid and counts(delta.txid, delta.round)], codec, place
        )
        await store.fold(_rows(changes, codec, place), committed_txid)
    if any(delta.txid > committed_txid for delta in staged):
        await store.drop(committed_txid)


async def _merged(deltas: Sequence[StagedDelta], codec: Codec, place: StatePlace) -> dict[object, Change]:
    """The last change of each key: a store is given each key once."""
    merged: dict[object, Change] = {}
    for delta in sorted(deltas, key=lambda delta: (delta.txid, delta.round)):
        for blob in delta.blobs:
            try:
                merged.update([(change.key, change) for change in changes_in(blob, codec)])
            except (TypeError, ValueError) as error:
                raise StateError(
                    f"what {place} stored for txid {delta.txid}, round {delta.round}, cannot be read: {error}",
                    hint="It was written with another codec, or the store is damaged.",
                ) from None
            await asyncio.sleep(0)
    return merged


async def _rows(changes: dict[object, Change], codec: Codec, place: StatePlace) -> AsyncIterator[list[Row]]:
    key_codec = MessagePack()
    for keys in slices(changes, ROWS_PER_CHUNK):
        yield [_row(changes[key], codec, key_codec, place) for key in keys]
        await asyncio.sleep(0)


def _row(change: Change, codec: Codec, key_codec: Codec, place: StatePlace) -> Row:
    slot = place.slot_of(change.key) if change.slot is None else change.slot
    return Row(slot, key_codec.encode(canonical(change.key)), stored_value(change.value, codec))
