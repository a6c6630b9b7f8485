"""What an interrupted run left staged, of a component that runs otherwise now: what counts is folded in, the rest is dropped (CP-7, CP-9).

Where nothing of a component has changed, its tasks take up what they staged themselves (`LayeredState.load`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from engine.state.api import Row, StateProvider
from engine.state.codec import Codec, MessagePack
from engine.state.delta import Layer, merged, slices, stored_value
from engine.state.place import StatePlace

ROWS_PER_CHUNK = 1000


async def fold_what_counts(
    provider: StateProvider, codec: Codec, place: StatePlace, counts: Callable[[int, int], bool], committed_txid: int
) -> None:
    """Fold the committed deltas of one task, in the layout that wrote them; drop what was never committed. May be repeated."""
    store = await provider.store(place.component_id, place.task_index, place.slots)
    staged = await store.deltas()
    if any(delta.txid <= committed_txid for delta in staged):
        counted = [delta for delta in staged if delta.txid <= committed_txid and counts(delta.txid, delta.round)]
        await store.fold(_rows(*await merged(counted, codec, place), codec, place), committed_txid)
    if any(delta.txid > committed_txid for delta in staged):
        await store.drop(committed_txid)


async def _rows(layer: Layer, slots: dict[object, int], codec: Codec, place: StatePlace) -> AsyncIterator[list[Row]]:
    key_codec = MessagePack()
    for keys in slices(layer, ROWS_PER_CHUNK):
        slot_of = [slots[key] if key in slots else place.slot_of(key) for key in keys]
        yield [Row(slot, key_codec.encode(key), stored_value(layer[key], codec)) for slot, key in zip(slot_of, keys, strict=True)]
        await asyncio.sleep(0)
