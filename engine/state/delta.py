"""A delta as blobs: lists of keys, of values and, where a bolt has its own `key_of`, of slots, encoded by one call each."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from engine.errors import StateError
from engine.state.api import Row, StagedDelta, StatePlace
from engine.state.checksums import GivesStores
from engine.state.codec import DELETED, PLAIN, Codec, Deleted, Encoded, MessagePack, Unencodable, canonical

Layer = dict[Any, Any]
"""Canonical key: its value, the value `Encoded`, or DELETED."""

KEYS_PER_BLOB: Final = 1000
SEALED_PER_BLOB: Final = 400
BYTES_PER_BLOB: Final = 256 * 1024
"""A blob ends at so many keys, so many values that are sealed one by one, or soon behind so many bytes: one turn of the loop makes it."""
ATOMS: Final = frozenset({type(None), bool, int, float, str, bytes, Encoded, Deleted})
"""Types whose values nobody can change: handed out and kept as they are."""
_SMALL: Final = frozenset({type(None), bool, int, float, Deleted})


def slices(layer: Layer, size: int) -> Iterator[list[Any]]:
    """The keys of a layer that gets no more keys, size at a time; values may be replaced meanwhile."""
    keys = iter(layer)
    while chunk := list(islice(keys, size)):
        yield chunk


def blobs_of(layer: Layer, codec: Codec, seal: Callable[[Any, Any], Encoded], slot_of: Callable[[Any], int] | None) -> Iterator[bytes]:
    """Encode a layer that gets no more keys; values of other types than ATOMS are sealed in it first."""
    for keys in slices(layer, KEYS_PER_BLOB):
        for part in _light_parts(layer, keys, seal):
            values = [layer[key] for key in part]
            changes = [part, values] if slot_of is None else [part, values, [slot_of(key) for key in part]]
            try:
                yield codec.encode(changes)
            except Unencodable:
                for key, value in zip(part, values, strict=True):  # by itself it says which it is
                    seal(key, value)
                raise


def _light_parts(layer: Layer, keys: list[Any], seal: Callable[[Any, Any], Encoded]) -> Iterator[list[Any]]:
    """Cut keys where their values get heavy."""
    if _SMALL.issuperset([type(layer[key]) for key in keys]):
        yield keys
        return
    part: list[Any] = []
    weight = sealed = 0
    for key in keys:
        value = layer[key]
        if type(value) not in ATOMS:
            value = layer[key] = seal(key, value)
            sealed += 1
        part.append(key)
        weight += len(value) if isinstance(value, str | bytes) else 0
        if weight > BYTES_PER_BLOB or sealed == SEALED_PER_BLOB:
            yield part
            part, weight, sealed = [], 0, 0
    if part:
        yield part


async def merged(deltas: Iterable[StagedDelta], codec: Codec, owner: object) -> tuple[Layer, dict[Any, int]]:
    """Make one layer of deltas, the last change of each key; and the slots of its keys, where they were stored. Owner: for errors."""
    layer: Layer = {}
    slot_by_key: dict[Any, int] = {}
    for delta in sorted(deltas, key=lambda delta: (delta.txid, delta.round)):
        for blob in delta.blobs:
            try:
                keys, values, slots = changes_in(blob, codec)
                layer.update(zip(keys, values, strict=True))
                slot_by_key.update(zip(keys, slots, strict=False))
            except (TypeError, ValueError) as error:
                raise StateError(
                    f"what {owner} stored for txid {delta.txid}, round {delta.round}, cannot be read: {error}",
                    hint="It was written with another codec, or the store is damaged.",
                ) from None
            await asyncio.sleep(0)
    return layer, slot_by_key


def changes_in(blob: bytes, codec: Codec) -> tuple[list[Any], list[Any], list[int]]:
    """Decode a blob to canonical keys, their values, and their slots or nothing; raise ValueError or TypeError where it is none."""
    keys, values, *rest = codec.decode(blob)
    slots = rest[0] if rest else []
    if len(keys) != len(values) or len(slots) not in (0, len(keys)):
        raise ValueError("this is no delta: its parts do not fit together")
    if slots and set(map(type, slots)) != {int}:
        raise ValueError("this is no delta: its slots are no numbers")
    if not PLAIN.issuperset(map(type, keys)):
        keys = [canonical(key) for key in keys]
    return keys, values, slots


def stored_value(value: Any, codec: Codec) -> bytes | None:
    """The value of a row: what a layer has, as bytes; None where it is deleted."""
    if value is DELETED:
        return None
    return bytes(value) if type(value) is Encoded else codec.encode(value)


ROWS_PER_CHUNK = 1000


async def fold_committed(
    provider: GivesStores, codec: Codec, place: StatePlace, counts: Callable[[int, int], bool], committed_txid: int
) -> None:
    """Fold the committed deltas of one task, in the layout that wrote them; drop what was never committed. May be repeated."""
    store = await provider.store(place.component_id, place.task_index, place.slots)
    staged = await store.deltas()
    if any(delta.txid <= committed_txid for delta in staged):
        await store.fold(committed_rows(staged, codec, place, counts, committed_txid), committed_txid)
    if any(delta.txid > committed_txid for delta in staged):
        await store.drop(committed_txid)


async def committed_rows(
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
