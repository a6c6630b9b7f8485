"""`LayeredState`: the state of a task over the store of any provider, in layers (docs/decisions/0002).

Layers, newest first, with canonical keys:

- `_changes` since the last PREPARE
- `_frozen`: prepared and not committed
- `_committed`: not yet in the rows of the store, usually one layer
- `_folding`: being written to the rows
- `_rows`: all rows of a resident store, or a bounded cache of a lookup store

A layer moves on in one step without an await, so that a cancelled task never leaves a key between two layers. The slow work after it
(`_compact`, `fold`) copies a newer layer over an older one, and can be repeated.

A namespace has `_changes` and `_rows` of its own. In between, `Changes` have the layers of the plain keys and of all namespaces. A dropped
namespace is a mark in them: what is older does not count.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, Generic, TypeVar, cast
from weakref import WeakValueDictionary

from engine.cancellation import aio_task_error
from engine.errors import StateError
from engine.kernel import LayerWalk, free_entries
from engine.state.api import ResidentStore, Row, StatePlace, TaskStore
from engine.state.changes import Changes, Layer, NamespaceChanges, Part, slices
from engine.state.codec import DELETED, Codec, Encoded, Unencodable, not_stored
from engine.state.delta import ATOMS, changed_rows, deletions, encode_blobs, merge_deltas
from engine.state.key_values import KeyValueState, StateNamespace
from engine.state.layered_keys import LayeredKeys, RowAccess
from engine.state.namespaces import Name, checked_name, name_of, prefix_of, stored_prefix

K = TypeVar("K")
V = TypeVar("V")

FOLD_KEYS: Final = 200_000
FOLD_CHANGES: Final = 10 * FOLD_KEYS
FOLD_TXIDS: Final = 30
"""A fold begins when so many keys wait which the last txid has not changed, or so many changes or txids. If the next one is due before the
last one ends, `commit` waits. Keys that each txid changes, or panes that are dropped soon, are not worth a fold of their own."""
MOST_TAKEN_UP: Final = 2 * FOLD_TXIDS
"""Maximum number of txids in deltas that a start loads without a fold. A checkpoint record lists only a bounded number."""
KEYS_PER_TURN: Final = 1000
ROWS_PER_TURN: Final = 500
"""Keys moved, or rows made, in one turn of the event loop."""
VALUES_PER_TURN: Final = 100
"""Values of classes of users that are decoded in one turn of the event loop."""
_ENGINE_CALLS: Final = "Only the engine calls prepare_commit(), commit() and rollback() of a state. Remove such calls from the bolt."


@dataclass(slots=True, eq=False)
class Frozen:
    """The changes of a PREPARE."""

    changes: Changes
    txid: int
    round: int
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the writer of the delta, so that an abandoned call and its retry never write concurrently."""
    written: bool = False


class LayeredNamespace(LayeredKeys, StateNamespace[Any, Any]):
    """A namespace of a `LayeredState`, which moves its layers on."""

    def __init__(self, root: "LayeredState[Any, Any]", name: Name, *, holds_all: bool) -> None:
        super().__init__(root._access, root, name, holds_all=holds_all)
        self._root: Final = root
        self._name: Final = name
        self._drops = False
        """True if the namespace was dropped since the last PREPARE."""

    @property
    def name(self) -> Name:
        return self._name

    def drop(self) -> None:
        if self._is_idle or (self._drops and not self._changes):
            return
        self._note_drop((self._changes, self._drops))
        self._root._set_aside(self._changes)
        self._changes, self._drops = {}, True
        self._older, self._is_masked = (), True

    def _undo_drop(self, before: tuple[Layer, bool]) -> None:
        """Undo a drop of a call that raises (SV-2). The layers below may have moved on meanwhile."""
        self._changes, self._drops = before
        self._root._take_back(self._changes)
        self._root._note_namespace_layers(self)

    def _make_room(self) -> None:
        self._root._make_room()

    def _take_changes(self) -> NamespaceChanges | None:
        """Return the changes since the last PREPARE, and begin anew. None: there are none."""
        self._is_changed = False
        if not (self._changes or self._drops):
            return None
        taken = NamespaceChanges(self._changes, self._drops)
        self._changes, self._drops = {}, False
        return taken

    def _release_rows(self) -> None:
        """Let go of the rows in memory, which do not count any more."""
        self._root._set_aside(self._rows)
        self._rows = {}

    @property
    def _is_idle(self) -> bool:
        """True if nothing is in memory, nor in the rows of the store."""
        nothing = not (self._is_changed or self._changes or self._drops or self._is_masked or self._rows or len(self._older) > 1)
        return nothing and (self._holds_all or self._access.lookup is None)


class LayeredState(LayeredKeys, KeyValueState[K, V], Generic[K, V]):
    """The state of one task, through all its instances. Only the loop's thread uses it."""

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
        super().__init__(RowAccess(store, codec, place, key_of, cache_keys), None, None, holds_all=False)
        self.place: Final = place
        self._store = store
        self.codec: Final = codec
        self._opens_values = opens_values
        self._namespaces: dict[Name, LayeredNamespace] = {}
        """The namespaces in use: with changes, layers or rows."""
        self._idle_namespaces: WeakValueDictionary[Name, LayeredNamespace] = WeakValueDictionary()
        """Empty namespaces that a bolt may still have."""
        self._changed_namespaces: list[LayeredNamespace] = []
        """Those with changes since the last PREPARE."""
        self._knows_namespaces = self._access.lookup is None
        """True if all namespaces with stored rows are in `_namespaces`."""
        self._replaced: list[Layer] = []
        """Layers that a call has dropped, and may still get back."""
        self._garbage: list[Layer] = []
        """Layers that are not needed any more. They are freed in slices."""
        self._frozen: Frozen | None = None
        self._committed: list[Changes] = []
        self._folding = Changes()
        self._folding_upto = -1
        self._txids_to_fold = self._changes_to_fold = self._changes_of_last = 0
        """Txids and changes that no fold has taken, and the changes of the last txid."""
        self._compacting = asyncio.Lock()
        self._fold_lock = asyncio.Lock()
        self._fold: asyncio.Task[None] | None = None
        self.committed_txid = -1
        self.staged_bytes = 0
        """Bytes of the last delta."""

    # Namespaces

    def namespace(self, name: Name) -> LayeredNamespace:
        found = self._namespaces.get(name) if type(name) in (int, str) else None
        if found is None:
            name = checked_name(name)
            found = self._idle_namespaces.get(name)
            if found is None:
                found = self._idle_namespaces[name] = LayeredNamespace(self, name, holds_all=self._knows_namespaces)
        return found

    def namespaces(self) -> list[Name]:
        return [name for name, namespace in self._namespaces.items() if namespace._has_keys()]

    def _note_namespace(self, namespace: LayeredNamespace) -> None:
        """Note the first change of a namespace since the last PREPARE."""
        namespace._is_changed = True
        self._use(namespace)
        self._changed_namespaces.append(namespace)

    def _use(self, namespace: LayeredNamespace) -> None:
        self._namespaces[namespace.name] = namespace

    def _retire(self, names: Iterable[Name]) -> None:
        """Forget namespaces that are empty, unless a bolt has them."""
        for name in names:
            namespace = self._namespaces.get(name)
            if namespace is not None and namespace._is_idle:
                self._idle_namespaces[name] = self._namespaces.pop(name)

    def _note_namespace_layers(self, namespace: LayeredNamespace) -> None:
        """Set the older layers of a namespace, down to the newest drop."""
        older, is_masked = list[Layer](), namespace._drops
        for changes in () if is_masked else self._older_changes():
            part = changes.namespaces.get(namespace.name)
            if part is not None:
                if part.layer:
                    older.append(part.layer)
                if part.drops:
                    is_masked = True
                    break
        namespace._is_masked = is_masked
        namespace._older = tuple(older) if is_masked else (*older, namespace._rows)

    def _set_aside(self, layer: Layer) -> None:
        """Keep a layer that is not needed any more, so that no call waits until it is freed."""
        if len(layer) > KEYS_PER_TURN:
            (self._replaced if self.guarding else self._garbage).append(layer)

    def _take_back(self, layer: Layer) -> None:
        """Keep a layer whose drop is undone."""
        self._replaced = [each for each in self._replaced if each is not layer]

    async def _collect(self) -> None:
        """Free layers that are not needed any more, in slices."""
        while self._garbage:
            layer = self._garbage.pop()
            while layer:
                free_entries(layer, KEYS_PER_TURN)
                await asyncio.sleep(0)

    def _make_room(self) -> None:
        """Forget a tenth of the cache, the oldest rows of the largest dicts, unless it has become smaller by drops."""
        access = self._access
        self._count_cached()
        most = max(1, access.cache_keys // 10) if access.cached >= access.cache_keys else 0
        for cache in sorted(self._caches(), key=lambda each: len(each._rows), reverse=True) if most else ():
            removed = cache._forget_oldest(most)
            most -= removed
            access.cached -= removed
            if not most:
                break

    def _count_cached(self) -> None:
        self._access.cached = sum(len(each._rows) for each in self._caches())

    def _caches(self) -> list[LayeredKeys]:
        return [self, *self._namespaces.values()]

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
        names = [each.name for each in self._changed_namespaces]
        self._frozen = Frozen(Changes(self._changes, self._take_namespace_changes()), txid, round_)
        self._changes = {}
        self._note_layers(names)
        self._retire(names)
        return len(self._frozen.changes)

    def _take_namespace_changes(self) -> dict[Name, NamespaceChanges]:
        """Return the changes of namespaces since the last PREPARE, and begin anew."""
        changed, self._changed_namespaces = self._changed_namespaces, []
        taken = {each.name: changes for each in changed if (changes := each._take_changes()) is not None}
        self._garbage += self._replaced
        self._replaced = []
        return taken

    async def write_frozen(self) -> None:
        """Stage the frozen layer durably. No effect if it is staged, or was rolled back."""
        frozen = self._frozen
        if frozen is None:
            return
        async with frozen.lock:
            if frozen.written:
                return
            self.staged_bytes = 0
            if frozen.changes:
                async with aclosing(self._blobs(frozen.changes)) as blobs:
                    await self._store.stage(frozen.txid, frozen.round, blobs)
            frozen.written = True

    async def prepare_commit(self, txid: int) -> None:
        self.freeze(txid)
        await self.write_frozen()

    async def commit(self, txid: int) -> None:
        if txid != self.committed_txid:
            frozen = self._frozen
            if frozen is None or frozen.txid != txid or not frozen.written:
                raise StateError(f"{self.place}: commit of txid {txid}, which was never prepared", hint=_ENGINE_CALLS)
            self.committed_txid = self._access.committed_txid = txid
            self._frozen = None
            if frozen.changes:
                self._committed.append(frozen.changes)
            self._release_dropped(frozen.changes)
            self._note_layers(frozen.changes.namespaces)
            self._txids_to_fold += 1
            self._changes_of_last = len(frozen.changes)
            self._changes_to_fold += self._changes_of_last
        await self._compact()
        await self._fold_when_due()

    def _release_dropped(self, changes: Changes) -> None:
        """Let go of the rows of namespaces whose drop is committed. A store that cannot drop them needs their keys until the fold."""
        if self._store.drops_prefixes or self._access.lookup is not None:
            for name in changes.dropped():
                self._namespaces[name]._release_rows()

    async def rollback(self) -> None:
        self.drop_changes()
        frozen, self._frozen = self._frozen, None
        names = () if frozen is None else tuple(frozen.changes.namespaces)
        self._note_layers(names)
        self._retire(names)

    @property
    def prepared_txid(self) -> int | None:
        """The txid of the frozen changes, which wait for a commit or a rollback. None: there are none."""
        return None if self._frozen is None else self._frozen.txid

    @property
    def has_changes(self) -> bool:
        """True while there are uncommitted changes."""
        return bool(self._changes or self._changed_namespaces or (self._frozen and self._frozen.changes))

    # A copy in another process

    @property
    def uses_key_of(self) -> bool:
        """True if `key_of` of the bolt chooses the slots."""
        return self._access.key_of is not None

    def stored_parts(self) -> Iterator[tuple[Name | None, bool, Iterator[tuple[Any, Any]]]]:
        """Yield the keys of the state and of its namespaces, for `take_rows` in another process. Decodes no value."""
        yield None, False, self._stored_items(self)
        for name, namespace in list(self._namespaces.items()):
            yield name, False, self._stored_items(namespace)

    def _stored_items(self, keys: LayeredKeys) -> Iterator[tuple[Any, Any]]:
        """Yield each key with an atom or with the bytes of its value."""
        layers = (keys._changes, *keys._older)
        known = dict.fromkeys(chain(*layers))
        for key in known:
            value = next(layer[key] for layer in layers if key in layer)
            if value is not DELETED:
                yield key, value if type(value) in ATOMS else self._access.encoded(key, value)
        lookup = self._access.lookup
        for key, stored in () if lookup is None else keys._scanned(lookup):
            if key not in known:
                yield key, Encoded(stored)

    def take_rows(self, parts: Iterable[Part]) -> None:
        """Add committed rows to the state of a store without rows. Raises StateError for a value that cannot be decoded."""
        for name, _, layer in parts:
            rows = self._rows_in(name)
            for key, value in layer.items():
                rows[key] = self._access.atom(key, value) if type(value) is Encoded else value

    def _rows_in(self, name: Name | None) -> Layer:
        """Return the rows in memory of a namespace, which is in use from now on, or those of the plain keys."""
        if name is None:
            return self._rows
        namespace = self.namespace(name)
        self._use(namespace)
        return namespace._rows

    @property
    def frozen_changes(self) -> Changes:
        """The changes of the last PREPARE, for `take_changes` in another process."""
        return Changes() if self._frozen is None else self._frozen.changes

    def take_changes(self, changes: Changes) -> None:
        """Use the changes of another process as the changes since the last PREPARE. Raises an error of `key_of`."""
        for key in islice(chain(changes.layer, *(each.layer for each in changes.namespaces.values())), 1):
            self._access.slot_of(key)
        self._changes = changes.layer
        for name, part in changes.namespaces.items():
            namespace = self.namespace(name)
            self._note_namespace(namespace)
            namespace._changes, namespace._drops = part.layer, part.drops

    def drop_changes(self) -> None:
        """Drop all changes since the last PREPARE, also of a running call."""
        self.end_call()
        self._changes = {}
        names = [each.name for each in self._changed_namespaces]
        self._take_namespace_changes()
        self._note_layers(names)
        self._retire(names)

    def _older_changes(self) -> Iterator[Changes]:
        """Yield the changes between `_changes` and `_rows`, newest first."""
        if self._frozen is not None:
            yield self._frozen.changes
        yield from reversed(self._committed)
        yield self._folding

    def _note_layers(self, names: Iterable[Name] = ()) -> None:
        """Set the older layers of the plain keys, and those of some namespaces."""
        self._older = (*(each.layer for each in self._older_changes() if each.layer), self._rows)
        for name in names:
            self._note_namespace_layers(self._namespaces[name])

    async def _fold_when_due(self) -> None:
        """Begin a fold in the background. If the last one still runs and the next is due, wait. Raises errors of the last fold."""
        due, fold = self._is_fold_due(), self._fold
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

    def _is_fold_due(self) -> bool:
        if self._txids_to_fold >= FOLD_TXIDS or self._changes_to_fold >= FOLD_CHANGES:
            return True
        return sum(map(len, self._committed)) - self._changes_of_last >= FOLD_KEYS

    def _begin_fold(self) -> None:
        self._fold = asyncio.get_running_loop().create_task(self.fold(), name=f"fold of {self.place}")
        self._fold.add_done_callback(aio_task_error)  # the next commit raises its error, or else the next start folds

    # Store

    async def load(self, committed_txid: int = -1, is_committed: Callable[[int, int], bool] = lambda txid, round_: False) -> None:
        """Load the rows of a resident store, and the deltas of an interrupted run with the same layout. Called first. May be repeated.

        is_committed: tells whether a txid and round is committed. Committed deltas become a layer, which is folded while the task runs.
        """
        self.committed_txid = self._access.committed_txid = committed_txid
        if isinstance(self._store, ResidentStore):
            await self._load_rows(self._store)
        staged = await self._store.deltas()
        await self._look_at_rows()  # after the deltas, because a fold writes its rows before it forgets them
        if any(delta.txid > committed_txid for delta in staged):
            await self._store.drop(committed_txid)
        if any(delta.txid <= committed_txid for delta in staged):
            counted = [delta for delta in staged if delta.txid <= committed_txid and is_committed(delta.txid, delta.round)]
            changes, _ = await merge_deltas(counted, self.codec, self.place)
            self._committed = [changes] if changes else []
            for name in changes.namespaces:
                self._use(self.namespace(name))
            self._note_layers(changes.namespaces)
            if len({delta.txid for delta in counted}) > MOST_TAKEN_UP:
                await self.fold()
            else:
                self._begin_fold()

    async def _look_at_rows(self) -> None:
        """Find out which keys a lookup store has: none, or some in the plain state and in these namespaces."""
        lookup = self._access.lookup
        if lookup is None:
            return
        self._holds_all = next(iter(lookup.scan()), None) is None
        found = iter(()) if self._holds_all else self._access.stored_names(lookup)
        while some := list(islice(found, ROWS_PER_TURN)):
            for name in {each for each in some if each is not None}:
                namespace = self.namespace(name)
                namespace._holds_all = False
                self._use(namespace)
            await asyncio.sleep(0)
        self._knows_namespaces = True

    async def _load_rows(self, store: ResidentStore) -> None:
        async for rows in store.load():
            for first in range(0, len(rows), ROWS_PER_TURN):
                for slot, stored_key, stored in rows[first : first + ROWS_PER_TURN]:
                    name, key = self._access.stored_key(stored_key, slot)
                    value = cast(bytes, stored)
                    into = self._rows if name is None else self._rows_in(name)
                    into[key] = self._access.atom(key, value) if self._opens_values else Encoded(value)
                await asyncio.sleep(0)

    async def check_values(self) -> None:
        """Decode each stored value once, so that a start finds a value whose class is gone (CP-11). Raises StateError for the first one.

        Only a pickle can lose its class. A MessagePack whose checksum fits can be decoded, and `load` has decoded the rows of a resident
        store. In another process `take_rows` decodes them.
        """
        if self.codec.name != "pickle" or not self._opens_values:
            return
        for _, _, stored in self.stored_parts():
            while some := list(islice(stored, VALUES_PER_TURN)):
                for key, value in some:
                    if type(value) is Encoded:
                        self._access.decoded(key, value)
                await asyncio.sleep(0)

    async def fold(self) -> None:
        """Write the committed layers to the rows of the store. May be repeated after an error of the store."""
        async with self._fold_lock:
            if not self._folding:
                await self._compact()
                while len(self._committed) > 1:  # a commit has come meanwhile, and what is folded must be older than what stays
                    await self._compact()
                self._folding = self._committed.pop() if self._committed else Changes()
                self._folding_upto, self._txids_to_fold, self._changes_to_fold = self.committed_txid, 0, 0
                self._note_layers(self._folding.namespaces)
            dropped = {prefix_of(name) for name in self._folding.dropped()}
            if dropped and self._store.drops_prefixes:
                await self._store.drop_prefixes(list(dropped))
            async with aclosing(self._rows_of(self._folding)) as rows:
                await self._store.fold(rows, self._folding_upto)
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
                await _move_onto(newer.layer, older.layer)
                for name, part in newer.namespaces.items():
                    below = older.namespaces.get(name)
                    if below is None or part.drops:
                        older.namespaces[name] = part
                        self._set_aside({} if below is None or below is part else below.layer)
                    elif below is not part:  # this call may be the repetition of a cancelled one
                        await _move_onto(part.layer, below.layer)
                del self._committed[1]
                self._note_layers(newer.namespaces)
            await self._collect()

    async def _move_folded(self) -> None:
        """Move the folded layers to the rows in memory, in slices. The rows of a lookup store never get more than `cache_keys` so."""
        folding = self._folding
        self._count_cached()
        await self._move_folded_layer(folding.layer, self)
        for name in list(folding.namespaces):
            part, namespace = folding.namespaces[name], self._namespaces[name]
            if part.drops:
                namespace._release_rows()
                namespace._holds_all, part.drops = True, False
                self._note_namespace_layers(namespace)
            await self._move_folded_layer(part.layer, namespace)
            del folding.namespaces[name]
            self._note_namespace_layers(namespace)
            self._retire([name])
        self._note_layers()
        await self._collect()

    async def _move_folded_layer(self, folded: Layer, keys: LayeredKeys) -> None:
        access, is_resident = self._access, self._access.lookup is None
        while folded:
            rows = keys._rows  # a new dict after the commit of a drop
            for _ in range(min(len(folded), KEYS_PER_TURN)):
                key, value = folded.popitem()
                if value is DELETED and (is_resident or keys._holds_all):
                    rows.pop(key, None)
                elif is_resident or key in rows:
                    rows[key] = value
                elif keys._holds_all and access.cached < access.cache_keys:
                    rows[key] = value
                    access.cached += 1
                else:
                    keys._holds_all = False
            await asyncio.sleep(0)

    async def _blobs(self, changes: Changes) -> AsyncGenerator[bytes, None]:
        """Yield the blobs of changes, with turns of the event loop in between."""
        access = self._access
        try:
            for blob in encode_blobs(changes, self.codec, access.encoded, access.slot_of if access.key_of else None):
                self.staged_bytes += len(blob)
                yield blob
                await asyncio.sleep(0)
        except Unencodable as error:
            raise not_stored(f"{self.place.component_id!r}: a value", self.codec, error) from None

    async def _rows_of(self, changes: Changes) -> AsyncGenerator[list[Row], None]:
        deleted = () if self._store.drops_prefixes else changes.dropped()
        for source in (self._deletions(changes, deleted), changed_rows(changes, self.codec, self._access.slot_of, ROWS_PER_TURN)):
            async with aclosing(source):
                async for rows in source:
                    if rows:
                        yield rows
                    await asyncio.sleep(0)
                    if self._frozen is not None:
                        async with self._frozen.lock:  # a delta that is being written has priority, because the commit waits for it
                            pass

    async def _deletions(self, changes: Changes, dropped: Iterable[Name]) -> AsyncGenerator[list[Row], None]:
        """Yield deletions of the stored keys of dropped namespaces, without those that have changed since."""
        layers = {prefix_of(name): changes.namespaces[name].layer for name in dropped}
        if layers and self._access.lookup is not None:
            async with aclosing(deletions(self._access.lookup, layers)) as found:
                async for rows in found:
                    yield [row for row in rows if self._access.stored_key(row.key, row.slot)[1] not in layers[stored_prefix(row.key)]]
            return
        encode, slot_of = self._access.key_codec.encode, self._access.slot_of
        for prefix, layer in layers.items():
            for keys, _ in slices(self._namespaces[cast(Name, name_of(prefix))]._rows, ROWS_PER_TURN):
                yield [Row(slot_of(key), prefix + encode(key), None) for key in keys if key not in layer]


async def _move_onto(newer: Layer, older: Layer) -> None:
    walk = LayerWalk(newer)
    for _ in range(0, len(newer), KEYS_PER_TURN):
        walk.move_onto(older, KEYS_PER_TURN)
        await asyncio.sleep(0)
