"""`LayeredState`: the state of a task over the store of any provider, in layers (docs/decisions/0002).

Layers, newest first, with canonical keys:

- `_changes` since the last PREPARE
- `_frozen`: prepared and not committed
- `_committed`: not yet in the rows of the store, usually one layer
- `_folding`: being written to the rows
- `_rows`: all rows of a resident store, or a bounded cache of a lookup store

A layer moves on in one step without an await, so that a cancelled task never leaves a key between two layers. The slow work after it
(`_compact`, `fold`) copies a newer layer over an older one, and can be repeated.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, Generic, TypeVar, cast

from engine.cancellation import aio_task_error
from engine.errors import StateError
from engine.kernel import Layers, LayerWalk
from engine.safe_text import safe_repr, safe_str
from engine.state.api import KeyValueState, LookupStore, ResidentStore, Row, StatePlace, TaskStore, slot_text
from engine.state.codec import DELETED, PLAIN, Codec, Encoded, MessagePack, Unencodable, canonical, not_stored
from engine.state.delta import ATOMS, Layer, encode_blobs, merge_deltas, row_value, slices

K = TypeVar("K")
V = TypeVar("V")

FOLD_KEYS: Final = 200_000
FOLD_TXIDS: Final = 30
"""Numbers of waiting keys and txids at which a fold begins. If the next fold is due before the last one ends, `commit` waits."""
MOST_TAKEN_UP: Final = 2 * FOLD_TXIDS
"""Maximum number of txids in deltas that a start loads without a fold. A checkpoint record lists only a bounded number."""
KEYS_PER_TURN: Final = 1000
ROWS_PER_TURN: Final = 500
"""Keys moved, or rows made, in one turn of the event loop."""
VALUES_PER_TURN: Final = 100
"""Values of classes of users that are decoded in one turn of the event loop."""
_MISSING: Final = object()
_LOST_CLASS: Final = (
    "If its class was renamed or moved, keep the old name in the old module as an alias, such as Order = Purchase. "
    "Otherwise delete the state of this component: python -m engine state delete, with --component."
)
_LOST_VALUE: Final = "Another codec wrote it, or the store is damaged. Inspect it with: python -m engine state show."
_ENGINE_CALLS: Final = "Only the engine calls prepare_commit(), commit() and rollback() of a state. Remove such calls from the bolt."


@dataclass(slots=True, eq=False)
class Frozen:
    """The layer of a PREPARE."""

    layer: Layer
    txid: int
    round: int
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the writer of the delta, so that an abandoned call and its retry never write concurrently."""
    written: bool = False


class LayeredState(Layers, KeyValueState[K, V], Generic[K, V]):
    """The state of one task, through all its instances. Only the loop's thread uses it.

    The compiled base `Layers` has `get`, `put`, and the layers that they read.
    """

    def __init__(
        self,
        store: TaskStore,
        codec: Codec,
        place: StatePlace,
        *,
        key_of: Callable[[K], object] | None = None,
        cache_keys: int = 100_000,
        opens_values: bool = True,
    ) -> None:
        """key_of: returns the grouping value of a key. None: the key is its own grouping value.

        opens_values: False if the bolt lives in another process, which decodes the values, because only it may know their classes.
        """
        super().__init__(DELETED)
        self.place: Final = place
        self._store = store
        self._lookup = store if isinstance(store, LookupStore) else None
        """Store of rows that are in no layer, None if all rows are in memory."""
        self._codec = codec
        self._key_codec = MessagePack()
        self._key_of = key_of if place.keyed else None
        self._slots = place.slots
        self._cache_keys = cache_keys
        self._opens_values = opens_values
        self._holds_all = False
        """True if all rows of a lookup store are also in layers. Then a key in no layer needs no read."""
        self._frozen: Frozen | None = None
        self._committed: list[Layer] = []
        self._folding: Layer = {}
        self._rows: Layer = {}
        self._older = (self._rows,)
        self._folding_upto = -1
        self._txids_to_fold = 0
        self._compacting = asyncio.Lock()
        self._fold_lock = asyncio.Lock()
        self._fold: asyncio.Task[None] | None = None
        self.committed_txid = -1
        self.staged_bytes = 0
        """Bytes of the last delta."""

    # Calls of a bolt

    def _get_slow_path(self, key: Any, default: object) -> Any:
        try:
            value = self._changes.get(key, _MISSING)
        except TypeError as error:
            raise self._invalid_key(key, error) from error
        value = self._older_value(key) if value is _MISSING else self._fresh_copy(value)
        return default if value is DELETED else value

    def _fresh_copy(self, value: Any) -> Any:
        """Return a value of `_changes`. A mutable value is a fresh copy."""
        return self._codec.decode(value) if type(value) is Encoded else value

    def _put_slow_path(self, key: Any, value: Any) -> None:
        try:
            known = key in self._changes
        except TypeError as error:
            raise self._invalid_key(key, error) from error
        key = key if known else self._owned_key(key)
        if type(value) not in ATOMS:  # encoded now, so that `put` raises for a value that cannot be stored
            value = self._encoded(key, value)
        self._note_change(key)
        self._changes[key] = value

    def delete(self, key: K) -> None:
        self.put(key, DELETED)

    def __contains__(self, key: object) -> bool:
        return self.get(key, DELETED) is not DELETED

    def items(self) -> Iterator[tuple[K, V]]:
        keys = dict.fromkeys(chain(self._changes, *self._older[:-1]))
        for key in keys:
            value = self.get(key, DELETED)
            if value is not DELETED:
                yield key, value
        for key, value in self._resident_items(keys) if self._lookup is None else self._scanned_items(self._lookup, keys):
            if value is not DELETED:
                yield key, value

    def _resident_items(self, known: Layer) -> Iterator[tuple[Any, Any]]:
        for key in list(self._rows):
            if key not in known:
                yield key, self.get(key, DELETED)

    def _scanned_items(self, store: LookupStore, known: Layer) -> Iterator[tuple[Any, Any]]:
        for row in store.scan():
            key = self._decoded_key(row.key, row.slot)
            if key not in known:
                value = self._changes.get(key, _MISSING)
                value = self._layered_value(key) if value is _MISSING else self._fresh_copy(value)
                yield key, self._decoded(key, cast(bytes, row.value)) if value is _MISSING else value

    # Reading

    def _older_value(self, key: Any) -> Any:
        """Return the value of a key without changes since the last PREPARE, or DELETED."""
        if type(key) not in PLAIN:
            key = self._canonical(key)
            value = self._changes.get(key, _MISSING)
            if value is not _MISSING:
                return self._fresh_copy(value)
        value = self._layered_value(key)
        if value is not _MISSING:
            return value
        return DELETED if self._lookup is None or self._holds_all else self._read(self._lookup, key)

    def _layered_value(self, key: Any) -> Any:
        """Return the value in the newest older layer that has the key, else `_MISSING`. A mutable value is a fresh copy."""
        for layer in self._older:
            value = layer.get(key, _MISSING)
            if value is not _MISSING:
                if type(value) not in ATOMS:
                    value = layer[key] = self._encoded(key, value)
                return self._codec.decode(value) if type(value) is Encoded else value
        return _MISSING

    def _read(self, store: LookupStore, key: Any) -> Any:
        """Read a row after a cache miss. Keys of other tasks are never found."""
        slot = self._slot_of(key)
        if slot not in self._slots:
            return DELETED
        stored = store.read(slot, self._key_codec.encode(key))
        value = DELETED if stored is None else self._decoded(key, stored)
        if len(self._rows) >= self._cache_keys:
            for oldest in list(islice(self._rows, max(1, self._cache_keys // 10))):
                del self._rows[oldest]
        self._rows[key] = value if type(value) in ATOMS else Encoded(cast(bytes, stored))
        return value

    def _decoded_key(self, stored: bytes, slot: int) -> Any:
        try:
            return self._key_codec.decode(stored)
        except ValueError as error:
            where = slot_text(slot, keyed=self.place.keyed)
            raise self._undecodable(f"the key of a stored row of {self.place.component_id!r}, {where},", error, _LOST_VALUE) from None

    def _decoded(self, key: Any, stored: bytes) -> Any:
        try:
            return self._codec.decode(stored)
        except ValueError as error:
            row = f"a stored row of {self.place.component_id!r}, key {safe_repr(key)},"
            raise self._undecodable(row, error, _LOST_CLASS if self._codec.name == "pickle" else _LOST_VALUE) from None

    def _undecodable(self, what: str, error: ValueError, hint: str) -> StateError:
        as_of = f" (read as of txid {self.committed_txid})" if self.committed_txid >= 0 else ""
        return StateError(f"{what} cannot be decoded{as_of}: {safe_str(error)}", hint=hint)

    def _encoded(self, key: Any, value: Any) -> Encoded:
        try:
            return Encoded(self._codec.encode(value))
        except Unencodable as error:
            raise not_stored(f"{self.place.component_id!r}: the value of key {safe_repr(key)}", self._codec, error) from None

    # Keys

    def _invalid_key(self, key: object, error: Exception) -> StateError:
        return StateError(f"{self.place.component_id!r}: {safe_repr(key)} cannot be a key: {safe_str(error)}")

    def _canonical(self, key: Any) -> Any:
        try:
            return canonical(key)
        except TypeError as error:
            raise self._invalid_key(key, error) from error

    def _slot_of(self, key: Any) -> int:
        try:
            return self.place.slot_of(key if self._key_of is None else self._key_of(key))
        except TypeError as error:
            raise self._invalid_key(key, error) from error

    def _owned_key(self, key: Any) -> Any:
        """Return the canonical key. Raises StateError for an invalid key, or a key of another task. Keys in a layer are already checked."""
        key = self._canonical(key)
        for layer in self._older:
            if key in layer:
                return key
        slot = self._slot_of(key)
        if slot not in self._slots:
            raise StateError(
                f"{self.place.component_id!r}: the key {safe_repr(key)} belongs to key group {slot}, which is not one of this task "
                f"({self._slots.start} to {self._slots.stop - 1})",
                hint="Use the grouped field's value as the key. If it is only part of the key, return it from key_of.",
            )
        return key

    # The checkpoint

    def freeze(self, txid: int, round_: int = 0) -> int:
        """Freeze the changes as the layer of txid, and return their number. Swaps layers and copies nothing."""
        if txid <= self.committed_txid:
            raise StateError(f"{self.place}: prepare of txid {txid}, but {self.committed_txid} is committed", hint=_ENGINE_CALLS)
        if self._frozen is not None:
            raise StateError(
                f"{self.place}: prepare of txid {txid}, but {self._frozen.txid} is prepared and neither committed nor rolled back",
                hint=_ENGINE_CALLS,
            )
        self._frozen, self._changes = Frozen(self._changes, txid, round_), {}
        self._note_layers()
        return len(self._frozen.layer)

    async def write_frozen(self) -> None:
        """Stage the frozen layer durably. No effect if it is staged, or was rolled back."""
        frozen = self._frozen
        if frozen is None:
            return
        async with frozen.lock:
            if frozen.written:
                return
            self.staged_bytes = 0
            if frozen.layer:
                await self._store.stage(frozen.txid, frozen.round, self._blobs(frozen.layer))
            frozen.written = True

    async def prepare_commit(self, txid: int) -> None:
        self.freeze(txid)
        await self.write_frozen()

    async def commit(self, txid: int) -> None:
        if txid != self.committed_txid:
            frozen = self._frozen
            if frozen is None or frozen.txid != txid or not frozen.written:
                raise StateError(f"{self.place}: commit of txid {txid}, which was never prepared", hint=_ENGINE_CALLS)
            self.committed_txid = txid
            self._frozen = None
            if frozen.layer:
                self._committed.append(frozen.layer)
            self._note_layers()
            self._txids_to_fold += 1
        await self._compact()
        await self._fold_when_due()

    async def rollback(self) -> None:
        self.drop_changes()
        self._frozen = None
        self._note_layers()

    @property
    def prepared_txid(self) -> int | None:
        """The txid of the frozen changes, which wait for a commit or a rollback. None: there are none."""
        return None if self._frozen is None else self._frozen.txid

    @property
    def has_changes(self) -> bool:
        """True while there are uncommitted changes."""
        return bool(self._changes or (self._frozen and self._frozen.layer))

    # A copy in another process

    @property
    def uses_key_of(self) -> bool:
        """True if `key_of` of the bolt chooses the slots."""
        return self._key_of is not None

    def stored_items(self) -> Iterator[tuple[Any, Any]]:
        """Yield each key with an atom or with the bytes of its value, for `take_rows` in another process. Decodes no value."""
        keys = dict.fromkeys(chain(self._changes, *self._older))
        for key in keys:
            value = next(layer[key] for layer in (self._changes, *self._older) if key in layer)
            if value is not DELETED:
                yield key, value if type(value) in ATOMS else self._encoded(key, value)
        for row in () if self._lookup is None else self._lookup.scan():
            key = self._decoded_key(row.key, row.slot)
            if key not in keys:
                yield key, Encoded(cast(bytes, row.value))

    def take_rows(self, rows: dict[Any, Any]) -> None:
        """Add committed rows to the state of a store without rows. Raises StateError for a value that cannot be decoded."""
        for key, value in rows.items():
            self._rows[key] = self._atom(key, value) if type(value) is Encoded else value

    def _atom(self, key: Any, stored: bytes) -> Any:
        """Return a stored value if it is an atom, else its bytes. Raises StateError for a value that cannot be decoded."""
        value = self._decoded(key, stored)
        return value if type(value) in ATOMS else Encoded(stored)

    @property
    def frozen_changes(self) -> Layer:
        """The changes of the last PREPARE, for `take_changes` in another process."""
        return {} if self._frozen is None else self._frozen.layer

    def take_changes(self, changes: Layer) -> None:
        """Use the changes of another process as the changes since the last PREPARE. Raises an error of `key_of`."""
        for key in islice(changes, 1):
            self._slot_of(key)
        self._changes = changes

    def drop_changes(self) -> None:
        """Drop all changes since the last PREPARE, also of a running call."""
        self.end_call()
        self._changes = {}

    def _note_layers(self) -> None:
        layers = (self._frozen.layer if self._frozen else {}, *reversed(self._committed), self._folding)
        self._older = (*(layer for layer in layers if layer), self._rows)

    async def _fold_when_due(self) -> None:
        """Begin a fold in the background. If the last one still runs and the next is due, wait. Raises errors of the last fold."""
        due = self._txids_to_fold >= FOLD_TXIDS or sum(map(len, self._committed)) >= FOLD_KEYS
        fold = self._fold
        if fold is not None and (due or fold.done()):
            await asyncio.wait([fold])
            self._fold = None
            fold.result()
        if self._fold is not None:
            return
        if due and self._folding:  # the last fold failed, and the next one is due
            await self.fold()
        if due or self._folding:
            self._begin_fold()

    def _begin_fold(self) -> None:
        self._fold = asyncio.get_running_loop().create_task(self.fold(), name=f"fold of {self.place}")
        self._fold.add_done_callback(aio_task_error)  # the next commit raises its error, or else the next start folds

    # Store

    async def load(self, committed_txid: int = -1, is_committed: Callable[[int, int], bool] = lambda txid, round_: False) -> None:
        """Load the rows of a resident store, and the deltas of an interrupted run with the same layout. Called first. May be repeated.

        is_committed: tells whether a txid and round is committed. Committed deltas become a layer, which is folded while the task runs.
        """
        self.committed_txid = committed_txid
        if isinstance(self._store, ResidentStore):
            await self._load_rows(self._store)
        staged = await self._store.deltas()
        if self._lookup is not None:  # after the deltas, because a fold writes its rows before it forgets them
            self._holds_all = next(iter(self._lookup.scan()), None) is None
        if any(delta.txid > committed_txid for delta in staged):
            await self._store.drop(committed_txid)
        if any(delta.txid <= committed_txid for delta in staged):
            counted = [delta for delta in staged if delta.txid <= committed_txid and is_committed(delta.txid, delta.round)]
            layer, _ = await merge_deltas(counted, self._codec, self.place)
            self._committed = [layer] if layer else []
            self._note_layers()
            if len({delta.txid for delta in counted}) > MOST_TAKEN_UP:
                await self.fold()
            else:
                self._begin_fold()

    async def _load_rows(self, store: ResidentStore) -> None:
        async for rows in store.load():
            for first in range(0, len(rows), ROWS_PER_TURN):
                for slot, stored_key, stored in rows[first : first + ROWS_PER_TURN]:
                    key = self._decoded_key(stored_key, slot)
                    self._rows[key] = self._atom(key, cast(bytes, stored)) if self._opens_values else Encoded(cast(bytes, stored))
                await asyncio.sleep(0)

    async def check_values(self) -> None:
        """Decode each stored value once, so that a start finds a value whose class is gone (CP-11). Raises StateError for the first one.

        Only a pickle can lose its class. A MessagePack whose checksum fits can be decoded, and `load` has decoded the rows of a resident
        store. In another process `take_rows` decodes them.
        """
        if self._codec.name != "pickle" or not self._opens_values:
            return
        stored = self.stored_items()
        while some := list(islice(stored, VALUES_PER_TURN)):
            for key, value in some:
                if type(value) is Encoded:
                    self._decoded(key, value)
            await asyncio.sleep(0)

    async def fold(self) -> None:
        """Write the committed layers to the rows of the store. May be repeated after an error of the store."""
        async with self._fold_lock:
            if not self._folding:
                await self._compact()
                self._folding = self._committed.pop() if self._committed else {}
                self._folding_upto, self._txids_to_fold = self.committed_txid, 0
                self._note_layers()
            await self._store.fold(self._rows_of(self._folding), self._folding_upto)
            await self._move_folded()

    async def close(self, *, fold: bool = True) -> None:
        """End the background fold. fold: also fold all committed layers, so that the next start has nothing to fold."""
        running, self._fold = self._fold, None
        if running is not None:
            if not fold:
                running.cancel()
            await asyncio.wait([running])
        while fold and (self._folding or self._committed):
            await self.fold()

    async def _compact(self) -> None:
        """Merge the committed layers into one, in slices. Lookups find the newer layer first meanwhile."""
        async with self._compacting:
            while len(self._committed) > 1:
                older, newer = self._committed[:2]
                walk = LayerWalk(newer)
                for _ in range(0, len(newer), KEYS_PER_TURN):
                    walk.move_onto(older, KEYS_PER_TURN)
                    await asyncio.sleep(0)
                del self._committed[1]
                self._note_layers()

    async def _move_folded(self) -> None:
        """Move the folded layer to the rows in memory, in slices. The rows of a lookup store never get more than `cache_keys` so."""
        folded, rows, most = self._folding, self._rows, self._cache_keys
        while folded:
            for _ in range(min(len(folded), KEYS_PER_TURN)):
                key, value = folded.popitem()
                if value is DELETED and (self._lookup is None or self._holds_all):
                    rows.pop(key, None)
                elif self._lookup is None or key in rows or (self._holds_all and len(rows) < most):
                    rows[key] = value
                else:
                    self._holds_all = False
            await asyncio.sleep(0)
        self._note_layers()

    async def _blobs(self, layer: Layer) -> AsyncIterator[bytes]:
        """Yield the blobs of a layer, with turns of the event loop in between."""
        try:
            for blob in encode_blobs(layer, self._codec, self._encoded, self._slot_of if self._key_of else None):
                self.staged_bytes += len(blob)
                yield blob
                await asyncio.sleep(0)
        except Unencodable as error:
            raise not_stored(f"{self.place.component_id!r}: a value", self._codec, error) from None

    async def _rows_of(self, layer: Layer) -> AsyncIterator[list[Row]]:
        for keys, values in slices(layer, ROWS_PER_TURN):
            entries = zip(keys, values, strict=True)
            yield [Row(self._slot_of(key), self._key_codec.encode(key), row_value(value, self._codec)) for key, value in entries]
            await asyncio.sleep(0)
            if self._frozen is not None:
                async with self._frozen.lock:  # a delta that is being written has priority, because the commit waits for it
                    pass
