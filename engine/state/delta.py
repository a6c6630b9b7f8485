"""Deltas are the changes of one task in one txid, as encoded blobs.

A blob has a list of keys, one of values, and one of slots if the bolt has its own `key_of`. One call of the codec encodes a whole blob.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Final

from engine.errors import StateError
from engine.kernel import LayerWalk
from engine.state.api import Row, StagedDelta, StatePlace
from engine.state.checksums import StoreSource
from engine.state.codec import DELETED, PLAIN, Codec, Deleted, Encoded, MessagePack, Unencodable, canonical

Layer = dict[Any, Any]
"""Canonical keys, each with its value, an `Encoded` value, or DELETED."""

KEYS_PER_BLOB: Final = 1000
SEALED_PER_BLOB: Final = 400
BYTES_PER_BLOB: Final = 256 * 1024
"""Limits of a blob: keys, values that are encoded one by one, and bytes. A blob is encoded in one turn of the event loop."""
ATOMS: Final = frozenset({type(None), bool, int, float, str, bytes, Encoded, Deleted})
"""Immutable types, whose values are stored and returned without a copy."""
_SMALL: Final = frozenset({type(None), bool, int, float, Deleted})


def slices(layer: Layer, size: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield keys and values of a layer, in lists of up to size entries. The layer must get no new keys, but its values may be replaced."""
    walk = LayerWalk(layer)
    while (entries := walk.take(size))[0]:
        yield entries


def encode_blobs(layer: Layer, codec: Codec, seal: Callable[[Any, Any], Encoded], slot_of: Callable[[Any], int] | None) -> Iterator[bytes]:
    """Encode a layer that gets no new keys. Values of types outside ATOMS are first encoded in place."""
    for keys, old_values in slices(layer, KEYS_PER_BLOB):
        for part, values in _light_parts(layer, keys, old_values, seal):
            changes = [part, values] if slot_of is None else [part, values, [slot_of(key) for key in part]]
            try:
                yield codec.encode(changes)
            except Unencodable:
                for key, value in zip(part, values, strict=True):  # the error of a single value names its key
                    seal(key, value)
                raise


def _light_parts(
    layer: Layer, keys: list[Any], old_values: list[Any], seal: Callable[[Any, Any], Encoded]
) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield lists of keys and of their values, so that no part exceeds the limits of a blob."""
    if _SMALL.issuperset(map(type, old_values)):
        yield keys, old_values
        return
    part: list[Any] = []
    values: list[Any] = []
    weight = sealed = 0
    for key, value in zip(keys, old_values, strict=True):
        if type(value) not in ATOMS:
            value = layer[key] = seal(key, value)
            sealed += 1
        part.append(key)
        values.append(value)
        weight += len(value) if isinstance(value, str | bytes) else 0
        if weight > BYTES_PER_BLOB or sealed == SEALED_PER_BLOB:
            yield part, values
            part, values, weight, sealed = [], [], 0, 0
    if part:
        yield part, values


async def merge_deltas(deltas: Iterable[StagedDelta], codec: Codec, owner: object) -> tuple[Layer, dict[Any, int]]:
    """Return one layer with the last change of each key, and the stored slots of keys. owner: for errors."""
    layer: Layer = {}
    slot_by_key: dict[Any, int] = {}
    for delta in sorted(deltas, key=lambda delta: (delta.txid, delta.round)):
        for blob in delta.blobs:
            try:
                keys, values, slots = decode_blob(blob, codec)
                layer.update(zip(keys, values, strict=True))
                slot_by_key.update(zip(keys, slots, strict=False))
            except (TypeError, ValueError) as error:
                raise StateError(
                    f"the delta that {owner} stored for txid {delta.txid}, round {delta.round}, cannot be read: {error}",
                    hint="It was written with another codec, or the store is damaged.",
                ) from None
            await asyncio.sleep(0)
    return layer, slot_by_key


def decode_blob(blob: bytes, codec: Codec) -> tuple[list[Any], list[Any], list[int]]:
    """Decode a blob to canonical keys, values, and slots if stored. Raises ValueError or TypeError for other bytes."""
    keys, values, *rest = codec.decode(blob)
    slots = rest[0] if rest else []
    if len(keys) != len(values) or len(slots) not in (0, len(keys)):
        raise ValueError("this is not a delta: its lists differ in length")
    if slots and set(map(type, slots)) != {int}:
        raise ValueError("this is not a delta: its slots are not numbers")
    if not PLAIN.issuperset(map(type, keys)):
        keys = [canonical(key) for key in keys]
    return keys, values, slots


def row_value(value: Any, codec: Codec) -> bytes | None:
    """Return the bytes of a layer's value for a row, None if it is deleted."""
    if value is DELETED:
        return None
    return bytes(value) if type(value) is Encoded else codec.encode(value)


ROWS_PER_CHUNK = 1000


async def fold_committed(
    provider: StoreSource, codec: Codec, place: StatePlace, is_committed: Callable[[int, int], bool], committed_txid: int
) -> None:
    """Fold the committed deltas of one task, and drop the others. May be repeated.

    Needed when a component runs with another layout than the interrupted run. Otherwise `LayeredState.load` loads the deltas. place: the
    layout of the interrupted run.
    """
    store = await provider.store(place.component_id, place.task_index, place.slots)
    staged = await store.deltas()
    if any(delta.txid <= committed_txid for delta in staged):
        await store.fold(committed_rows(staged, codec, place, is_committed, committed_txid), committed_txid)
    if any(delta.txid > committed_txid for delta in staged):
        await store.drop(committed_txid)


async def committed_rows(
    staged: Iterable[StagedDelta], codec: Codec, place: StatePlace, is_committed: Callable[[int, int], bool], committed_txid: int
) -> AsyncIterator[list[Row]]:
    """Yield the rows of the committed deltas of one task, each key once, also deleted keys. Raises StateError for unreadable deltas."""
    counted = [delta for delta in staged if delta.txid <= committed_txid and is_committed(delta.txid, delta.round)]
    layer, slots = await merge_deltas(counted, codec, place)
    key_codec = MessagePack()
    for keys, values in slices(layer, ROWS_PER_CHUNK):
        slot_of = [slots[key] if key in slots else place.slot_of(key) for key in keys]
        yield [Row(slot, key_codec.encode(key), row_value(value, codec)) for slot, key, value in zip(slot_of, keys, values, strict=True)]
        await asyncio.sleep(0)
