"""What an interrupted run left staged, of a component that runs otherwise now: what counts is folded in, the rest is dropped (CP-7, CP-9).

Where nothing of a component has changed, its tasks take up what they staged themselves (`LayeredState.load`). Tools ask `rows_that_count`
what a start would fold, and change nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

from engine.state.api import Row, StagedDelta
from engine.state.codec import Codec, MessagePack
from engine.state.delta import merged, slices, stored_value
from engine.state.place import StatePlace
from engine.state.sealing import GivesStores

ROWS_PER_CHUNK = 1000


async def fold_what_counts(
    provider: GivesStores, codec: Codec, place: StatePlace, counts: Callable[[int, int], bool], committed_txid: int
) -> None:
    """Fold the committed deltas of one task, in the layout that wrote them; drop what was never committed. May be repeated."""
    store = await provider.store(place.component_id, place.task_index, place.slots)
    staged = await store.deltas()
    if any(delta.txid <= committed_txid for delta in staged):
        await store.fold(rows_that_count(staged, codec, place, counts, committed_txid), committed_txid)
    if any(delta.txid > committed_txid for delta in staged):
        await store.drop(committed_txid)


async def rows_that_count(
    staged: Iterable[StagedDelta], codec: Codec, place: StatePlace, counts: Callable[[int, int], bool], committed_txid: int
) -> AsyncIterator[list[Row]]:
    """Yield what the committed deltas of one task come to, each key once, deleted ones too; raise StateError for what cannot be read."""
    counted = [delta for delta in staged if delta.txid <= committed_txid and counts(delta.txid, delta.round)]
    layer, slots = await merged(counted, codec, place)
    key_codec = MessagePack()
    for keys in slices(layer, ROWS_PER_CHUNK):
        slot_of = [slots[key] if key in slots else place.slot_of(key) for key in keys]
        yield [Row(slot, key_codec.encode(key), stored_value(layer[key], codec)) for slot, key in zip(slot_of, keys, strict=True)]
        await asyncio.sleep(0)
