"""Deltas are the changes of one task in one txid, as encoded blobs.

A blob has a list of keys, one of values, and one of slots if the bolt has its own `key_of`. One call of the codec encodes a whole blob.
A blob of namespaces has None, and a list of parts: a name, whether the namespace was dropped before, and the same three lists.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import aclosing
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from engine.errors import StateError
from engine.state.api import LookupStore, Row, StagedDelta, StatePlace, TaskStore
from engine.state.changes import Changes, Layer, NamespaceChanges, slices
from engine.state.checksums import StoreSource
from engine.state.codec import DELETED, PLAIN, Codec, Deleted, Encoded, MessagePack, Unencodable, canonical
from engine.state.namespaces import Name, checked_name, prefix_of, stored_prefix

Seal: TypeAlias = Callable[[Any, Any], Encoded]
"""Encodes the value of a key."""

KEYS_PER_BLOB: Final = 1000
SEALED_PER_BLOB: Final = 400
BYTES_PER_BLOB: Final = 256 * 1024
"""Limits of a blob: keys, values that are encoded one by one, and bytes. A blob is encoded in one turn of the event loop."""
ROWS_PER_CHUNK: Final = 1000
ATOMS: Final = frozenset({type(None), bool, int, float, str, bytes, Encoded, Deleted})
"""Immutable types, whose values are stored and returned without a copy."""
_SMALL: Final = frozenset({type(None), bool, int, float, Deleted})


class DeltaPart(NamedTuple):
    """A part of a blob: changes of one namespace, or of the plain state (None)."""

    name: Name | None
    drops: bool
    keys: list[Any]
    values: list[Any]
    slots: list[int]
    """Empty unless the bolt has its own `key_of`."""


def encode_blobs(changes: Changes, codec: Codec, seal: Seal, slot_of: Callable[[Any], int] | None) -> Iterator[bytes]:
    """Encode changes that get no new keys. Values of types outside ATOMS are first encoded in place."""
    for keys, values in _layer_parts(changes.layer, seal):
        body = [keys, values] if slot_of is None else [keys, values, [slot_of(key) for key in keys]]
        yield _encoded(body, codec, [(keys, values)], seal)
    for group in _namespace_groups(changes.namespaces, seal):
        slots_of: Callable[[list[Any]], list[int]] = lambda keys: [] if slot_of is None else [slot_of(key) for key in keys]  # noqa: E731
        parts = [[name, drops, keys, values, slots_of(keys)] for name, drops, keys, values in group]
        yield _encoded([None, parts], codec, [(keys, values) for *_, keys, values in group], seal)


def _encoded(body: list[Any], codec: Codec, entries: list[tuple[list[Any], list[Any]]], seal: Seal) -> bytes:
    try:
        return codec.encode(body)
    except Unencodable:
        for keys, values in entries:
            for key, value in zip(keys, values, strict=True):  # the error of a single value names its key
                seal(key, value)
        raise


def _namespace_groups(
    namespaces: dict[Name, NamespaceChanges], seal: Seal
) -> Iterator[list[tuple[Name, bool, list[Any], list[Any]]]]:
    """Yield lists of parts, so that many small namespaces share a blob."""
    group = list[tuple[Name, bool, list[Any], list[Any]]]()
    count = weight = 0
    for name, changes in namespaces.items():
        drops = changes.drops
        for keys, values in _layer_parts(changes.layer, seal) if changes.layer else [([], [])]:
            group.append((name, drops, keys, values))
            drops = False
            count += len(keys) + 1
            weight += sum(len(value) for value in values if isinstance(value, str | bytes))
            if count >= KEYS_PER_BLOB or weight > BYTES_PER_BLOB:
                yield group
                group, count, weight = [], 0, 0
    if group:
        yield group


def _layer_parts(layer: Layer, seal: Seal) -> Iterator[tuple[list[Any], list[Any]]]:
    for keys, values in slices(layer, KEYS_PER_BLOB):
        yield from _light_parts(layer, keys, values, seal)


def _light_parts(layer: Layer, keys: list[Any], old_values: list[Any], seal: Seal) -> Iterator[tuple[list[Any], list[Any]]]:
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


async def merge_deltas(deltas: Iterable[StagedDelta], codec: Codec, owner: object) -> tuple[Changes, dict[Any, int]]:
    """Return the last change of each key, and the stored slots of keys, which are the same in all namespaces. owner: for errors."""
    changes = Changes()
    slot_by_key: dict[Any, int] = {}
    for delta in sorted(deltas, key=lambda delta: (delta.txid, delta.round)):
        for blob in delta.blobs:
            try:
                for name, drops, keys, values, slots in decode_blob(blob, codec):
                    changes.add((name, drops, dict(zip(keys, values, strict=True))))
                    slot_by_key.update(zip(keys, slots, strict=False))
            except (TypeError, ValueError, StateError) as error:
                raise StateError(
                    f"the delta that {owner} stored for txid {delta.txid}, round {delta.round}, cannot be read: {error}",
                    hint="It was written with another codec, or the store is damaged.",
                ) from None
            await asyncio.sleep(0)
    return changes, slot_by_key


def decode_blob(blob: bytes, codec: Codec) -> list[DeltaPart]:
    """Decode a blob to parts with canonical keys. Raises ValueError, TypeError or StateError for other bytes."""
    first, *rest = codec.decode(blob)
    if first is not None:
        return [_checked_part(None, False, first, *rest)]
    [parts] = rest
    return [_checked_part(checked_name(name), drops, *lists) for name, drops, *lists in parts]


def _checked_part(name: Name | None, drops: object, keys: list[Any], values: list[Any], slots: list[int] | None = None) -> DeltaPart:
    slots = slots or []
    if type(drops) is not bool or len(keys) != len(values) or len(slots) not in (0, len(keys)):
        raise ValueError("this is not a delta: its lists differ in length")
    if slots and set(map(type, slots)) != {int}:
        raise ValueError("this is not a delta: its slots are not numbers")
    if not PLAIN.issuperset(map(type, keys)):
        keys = [canonical(key) for key in keys]
    return DeltaPart(name, drops, keys, values, slots)


def row_value(value: Any, codec: Codec) -> bytes | None:
    """Return the bytes of a layer's value for a row, None if it is deleted."""
    if value is DELETED:
        return None
    return bytes(value) if type(value) is Encoded else codec.encode(value)


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
        changes, slots = await merged_committed(staged, codec, place, is_committed, committed_txid)
        slot_of = SlotOf(place, slots)
        prefixes = {prefix_of(name) for name in changes.dropped()}
        if prefixes and store.drops_prefixes:
            await store.drop_prefixes(list(prefixes))
            prefixes = set()
        async with aclosing(changed_rows(changes, codec, slot_of)) as changed, aclosing(_with_deletions(store, prefixes, changed)) as rows:
            await store.fold(rows, committed_txid)
    if any(delta.txid > committed_txid for delta in staged):
        await store.drop(committed_txid)


class SlotOf:
    """Returns the slot of a key: the stored one, which a `key_of` has chosen, else that of the key itself."""

    def __init__(self, place: StatePlace, slots: dict[Any, int]) -> None:
        self._place = place
        self._slots = slots

    def __call__(self, key: Any) -> int:
        return self._slots[key] if key in self._slots else self._place.slot_of(key)


async def merged_committed(
    staged: Iterable[StagedDelta], codec: Codec, place: StatePlace, is_committed: Callable[[int, int], bool], committed_txid: int
) -> tuple[Changes, dict[Any, int]]:
    """Return the changes of the committed deltas of one task, and the stored slots of keys. Raises StateError for unreadable deltas."""
    counted = [delta for delta in staged if delta.txid <= committed_txid and is_committed(delta.txid, delta.round)]
    return await merge_deltas(counted, codec, place)


async def committed_rows(
    staged: Iterable[StagedDelta], codec: Codec, place: StatePlace, is_committed: Callable[[int, int], bool], committed_txid: int
) -> AsyncIterator[list[Row]]:
    """Yield the rows of the committed deltas of one task, each key once, also deleted keys. Raises StateError for unreadable deltas.

    Of a dropped namespace, only the keys that were put later are among them. `merged_committed` also returns the drops.
    """
    changes, slots = await merged_committed(staged, codec, place, is_committed, committed_txid)
    async with aclosing(changed_rows(changes, codec, SlotOf(place, slots))) as changed:
        async for rows in changed:
            yield rows


async def changed_rows(
    changes: Changes, codec: Codec, slot_of: Callable[[Any], int], size: int = ROWS_PER_CHUNK
) -> AsyncGenerator[list[Row], None]:
    """Yield a row for each changed key, also for deleted keys, but none for the other keys of a dropped namespace."""
    key_codec, rows = MessagePack(), list[Row]()
    for name, _, layer in changes.parts():
        prefix = prefix_of(name)
        for keys, values in slices(layer, size):
            entries = zip(keys, values, strict=True)
            rows += [Row(slot_of(key), prefix + key_codec.encode(key), row_value(value, codec)) for key, value in entries]
            if len(rows) >= size:
                yield rows
                await asyncio.sleep(0)
                rows = []
    if rows:
        yield rows
        await asyncio.sleep(0)


async def _with_deletions(store: TaskStore, prefixes: Collection[bytes], rows: AsyncIterable[list[Row]]) -> AsyncGenerator[list[Row], None]:
    """Yield deletions of all stored rows with the prefixes, then the rows, each key once."""
    if prefixes:
        changed = [row async for chunk in rows for row in chunk]
        known = {row[:2] for row in changed}
        async with aclosing(deletions(store, prefixes)) as deleted:
            async for some in deleted:
                yield [row for row in some if row[:2] not in known]
        yield changed
        return
    async for chunk in rows:
        yield chunk


async def deletions(store: TaskStore, prefixes: Collection[bytes]) -> AsyncGenerator[list[Row], None]:
    """Yield a deletion for each stored row whose key has one of the prefixes, for a store that cannot delete them all at once."""
    async with aclosing(_stored_rows(store)) as chunks:
        async for stored in chunks:
            yield [Row(slot, key, None) for slot, key, _ in stored if stored_prefix(key) in prefixes]
            await asyncio.sleep(0)


async def _stored_rows(store: TaskStore) -> AsyncGenerator[list[Row], None]:
    if isinstance(store, LookupStore):
        scanned = store.scan()
        while rows := list(islice(scanned, ROWS_PER_CHUNK)):
            yield rows
    else:
        async for rows in store.load():
            yield rows
