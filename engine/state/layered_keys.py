"""`LayeredKeys`: the keys of a state or of a namespace, in layers. `LayeredState` moves the layers on (docs/decisions/0002)."""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, Final, cast

from engine.errors import StateError
from engine.kernel import Layers
from engine.safe_text import safe_repr, safe_str
from engine.state.api import LookupStore, StatePlace, TaskStore, slot_text
from engine.state.changes import Layer
from engine.state.codec import DELETED, PLAIN, Codec, Deleted, Encoded, MessagePack, Unencodable, canonical, not_stored
from engine.state.delta import ATOMS
from engine.state.namespaces import FIRST_BYTE, Name, name_of, prefix_of, stored_prefix

MISSING: Final = object()
_PLAIN_ATOMS: Final = ATOMS - {Encoded, Deleted}
_LOST_CLASS: Final = (
    "If its class was renamed or moved, keep the old name in the old module as an alias, such as Order = Purchase. "
    "Otherwise delete the state of this component: python -m engine state delete, with --component."
)
_LOST_VALUE: Final = "Another codec wrote it, or the store is damaged. Inspect it with: python -m engine state show."


class RowAccess:
    """How a task encodes, owns and reads its rows, and how many of them it has in memory. Shared by a state and its namespaces."""

    def __init__(self, store: TaskStore, codec: Codec, place: StatePlace, key_of: Callable[[Any], object] | None, cache_keys: int) -> None:
        self.place: Final = place
        self.lookup: Final = store if isinstance(store, LookupStore) else None
        """Store of rows that are in no layer, None if all rows are in memory."""
        self.codec: Final = codec
        self.key_codec: Final = MessagePack()
        self.key_of: Final = key_of if place.keyed else None
        self.slots: Final = place.slots
        keyed = (place.key_groups, self.slots.start, self.slots.stop) if place.keyed else (1, 0, 1)
        self.groups: Final = keyed if self.key_of is None else None
        """What `Layers` needs to know the keys of the task."""
        self.cache_keys: Final = cache_keys
        self.cached = 0
        """Upper bound of the number of rows of a lookup store in memory."""
        self.committed_txid = -1
        """For errors."""

    # Keys

    def invalid_key(self, key: object, error: Exception) -> StateError:
        return StateError(f"{self.place.component_id!r}: {safe_repr(key)} cannot be a key: {safe_str(error)}")

    def canonical(self, key: Any) -> Any:
        try:
            return canonical(key)
        except TypeError as error:
            raise self.invalid_key(key, error) from error

    def slot_of(self, key: Any) -> int:
        try:
            return self.place.slot_of(key if self.key_of is None else self.key_of(key))
        except TypeError as error:
            raise self.invalid_key(key, error) from error

    def foreign_key(self, key: Any) -> StateError:
        """Return the error for a key of another task."""
        return StateError(
            f"{self.place.component_id!r}: the key {safe_repr(key)} belongs to key group {self.slot_of(key)}, which is not one of this "
            f"task ({self.slots.start} to {self.slots.stop - 1})",
            hint="Use the grouped field's value as the key. If it is only part of the key, return it from key_of.",
        )

    # Rows

    def stored_key(self, stored: bytes, slot: int) -> tuple[Name | None, Any]:
        """Return the namespace of a stored key (None: the plain state), and the key."""
        try:
            prefix = stored_prefix(stored)
            return name_of(prefix), self.key_codec.decode(stored[len(prefix) :] if prefix else stored)
        except ValueError as error:
            raise self.undecodable_key(slot, error) from None

    def undecodable_key(self, slot: int, error: ValueError) -> StateError:
        where = slot_text(slot, keyed=self.place.keyed)
        return self._undecodable(f"the key of a stored row of {self.place.component_id!r}, {where},", error, _LOST_VALUE)

    def stored_names(self, lookup: LookupStore) -> Iterator[Name | None]:
        """Yield the names of the namespaces with stored rows, each at least once. Also yield None between bounded reads."""
        try:
            yield from (None if prefix is None else name_of(prefix) for prefix in lookup.prefixes())
        except ValueError as error:
            raise self._undecodable(f"the key of a stored row of {self.place.component_id!r}", error, _LOST_VALUE) from None

    def decoded(self, key: Any, stored: bytes) -> Any:
        try:
            return self.codec.decode(stored)
        except ValueError as error:
            row = f"a stored row of {self.place.component_id!r}, key {safe_repr(key)},"
            raise self._undecodable(row, error, _LOST_CLASS if self.codec.name == "pickle" else _LOST_VALUE) from None

    def atom(self, key: Any, stored: bytes) -> Any:
        """Return a stored value if it is an atom, else its bytes. Raises StateError for a value that cannot be decoded."""
        value = self.decoded(key, stored)
        return value if type(value) in ATOMS else Encoded(stored)

    def _undecodable(self, what: str, error: ValueError, hint: str) -> StateError:
        as_of = f" (read as of txid {self.committed_txid})" if self.committed_txid >= 0 else ""
        return StateError(f"{what} cannot be decoded{as_of}: {safe_str(error)}", hint=hint)

    def encoded(self, key: Any, value: Any) -> Encoded:
        try:
            return Encoded(self.codec.encode(value))
        except Unencodable as error:
            raise not_stored(f"{self.place.component_id!r}: the value of key {safe_repr(key)}", self.codec, error) from None

    def fresh_copy(self, value: Any) -> Any:
        """Return a value of a layer. A mutable value is a fresh copy."""
        return self.codec.decode(value) if type(value) is Encoded else value


class LayeredKeys(Layers):
    """Keys and values in layers, for a state or one of its namespaces. Only the loop's thread uses it.

    The compiled base `Layers` has `get`, `put`, and the layers that they read. `_holds_all`: all rows with this prefix are in layers, so a
    key in no layer needs no read. `_is_masked`: a layer drops the namespace, so that what is older does not count.
    """

    def __init__(self, access: RowAccess, root: "LayeredKeys | None", name: Name | None, *, holds_all: bool) -> None:
        super().__init__(DELETED, root, access.groups, holds_all or access.lookup is None)
        self._access: Final = access
        self._prefix: Final = prefix_of(name)
        self._rows: Layer = {}
        """All rows of a resident store, or a cache of those of a lookup store. The last one of the older layers, unless it is masked."""
        self._older = (self._rows,)

    # Calls of a bolt

    def _get_slow_path(self, key: Any, default: object) -> Any:
        try:
            value = self._changes.get(key, MISSING)
        except TypeError as error:
            raise self._access.invalid_key(key, error) from error
        value = self._older_value(key) if value is MISSING else self._access.fresh_copy(value)
        return default if value is DELETED else value

    def _put_slow_path(self, key: Any, value: Any) -> None:
        try:
            known = key in self._changes
        except TypeError as error:
            raise self._access.invalid_key(key, error) from error
        key = key if known else self._owned_key(key)
        if type(value) not in ATOMS:  # encoded now, so that `put` raises for a value that cannot be stored
            value = self._access.encoded(key, value)
        self._note_change(key)
        self._changes[key] = value

    def delete(self, key: Any) -> None:
        self.put(key, DELETED)

    def __contains__(self, key: object) -> bool:
        return self.get(key, DELETED) is not DELETED

    def items(self) -> Iterator[tuple[Any, Any]]:
        older = self._older if self._is_masked else self._older[:-1]
        keys = dict.fromkeys(chain(self._changes, *older))
        for key in keys:
            value = self.get(key, DELETED)
            if value is not DELETED:
                yield key, value
        lookup = None if self._holds_all else self._access.lookup
        for key, value in self._resident_items(keys) if lookup is None else self._scanned_items(lookup, keys):
            if value is not DELETED:
                yield key, value

    def _resident_items(self, known: Layer) -> Iterator[tuple[Any, Any]]:
        for key in () if self._is_masked else list(self._rows):
            if key not in known:
                yield key, self.get(key, DELETED)

    def slices(self, size: int) -> Iterator[tuple[list[Any], list[Any]]]:
        """Yield the keys and their values as two lists of at most `size`. Faster than `items`, because no key may be changed meanwhile."""
        lookup = None if self._holds_all or self._is_masked else self._access.lookup
        layers = [layer for layer in (self._changes, *(self._older if lookup is None else self._older[:-1])) if layer]
        newest: Layer = {}  # a copy if rows are read, because the layers move on meanwhile
        if len(layers) == 1 and lookup is None:
            newest = layers[0]
        else:
            for layer in reversed(layers):
                newest.update(layer)
        keys, values = list(newest), list(newest.values())
        for first in range(0, len(keys), size):
            yield self._present(keys[first : first + size], values[first : first + size])
        if lookup is not None:
            scanned = ((key, value) for key, value in self._scanned_items(lookup, newest) if value is not DELETED)
            while some := list(islice(scanned, size)):
                yield [key for key, _ in some], [value for _, value in some]

    def _present(self, keys: list[Any], values: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the keys that are not deleted, with values as `get` returns them."""
        if _PLAIN_ATOMS.issuperset(map(type, values)):
            return keys, values
        access = self._access
        present = [(key, value) for key, value in zip(keys, values, strict=True) if value is not DELETED]
        values = [access.fresh_copy(value if type(value) in ATOMS else access.encoded(key, value)) for key, value in present]
        return [key for key, _ in present], values

    def _scanned_items(self, store: LookupStore, known: Layer) -> Iterator[tuple[Any, Any]]:
        for key, stored in self._scanned(store):
            if self._is_masked:  # dropped meanwhile
                return
            if key not in known:
                value = self._changes.get(key, MISSING)
                value = self._layered_value(key) if value is MISSING else self._access.fresh_copy(value)
                yield key, self._access.decoded(key, stored) if value is MISSING else value

    def _scanned(self, store: LookupStore) -> Iterator[tuple[Any, bytes]]:
        """Yield the keys and values of the stored rows."""
        if self._is_masked:
            return
        decode, size = self._access.key_codec.decode, len(self._prefix)
        for slot, stored_key, stored in store.scan_prefix(self._prefix) if size else store.scan():
            if not size and stored_key[:1] == FIRST_BYTE:  # of a namespace
                self._access.stored_key(stored_key, slot)
                continue
            try:
                key = decode(stored_key[size:] if size else stored_key)
            except ValueError as error:
                raise self._access.undecodable_key(slot, error) from None
            yield key, cast(bytes, stored)

    def _has_keys(self) -> bool:
        """Tell whether there is a key. Takes longer than a moment only if many keys are deleted one by one."""
        layers = (self._changes, *self._older)
        for number, layer in enumerate(layers):
            for key, value in layer.items():
                if value is not DELETED and not any(key in newer for newer in layers[:number]):
                    return True
        lookup = None if self._holds_all else self._access.lookup
        return lookup is not None and any(not any(key in layer for layer in layers) for key, _ in self._scanned(lookup))

    # Reading

    def _older_value(self, key: Any) -> Any:
        """Return the value of a key without changes since the last PREPARE, or DELETED."""
        if type(key) not in PLAIN:
            key = self._access.canonical(key)
            value = self._changes.get(key, MISSING)
            if value is not MISSING:
                return self._access.fresh_copy(value)
        value = self._layered_value(key)
        if value is not MISSING:
            return value
        lookup = self._access.lookup
        return DELETED if lookup is None or self._holds_all or self._is_masked else self._read(lookup, key)

    def _layered_value(self, key: Any) -> Any:
        """Return the value in the newest older layer that has the key, else `MISSING`. A mutable value is a fresh copy."""
        for layer in self._older:
            value = layer.get(key, MISSING)
            if value is not MISSING:
                if type(value) not in ATOMS:
                    value = layer[key] = self._access.encoded(key, value)
                return self._access.fresh_copy(value)
        return MISSING

    def _read(self, store: LookupStore, key: Any) -> Any:
        """Read a row after a cache miss. Keys of other tasks are never found."""
        access = self._access
        slot = access.slot_of(key)
        if slot not in access.slots:
            return DELETED
        stored = store.read(slot, self._prefix + access.key_codec.encode(key))
        value = DELETED if stored is None else access.decoded(key, stored)
        if access.cached >= access.cache_keys:
            self._make_room()
        self._rows[key] = value if type(value) in ATOMS else Encoded(cast(bytes, stored))
        access.cached += 1
        return value

    def _make_room(self) -> None:
        """Forget a part of the cache of a lookup store."""
        raise NotImplementedError

    def _forget_oldest(self, most: int) -> int:
        """Remove up to `most` rows of a lookup store from memory, and return their number."""
        oldest = list(islice(self._rows, most))
        for key in oldest:
            del self._rows[key]
        self._holds_all = self._holds_all and not oldest
        return len(oldest)

    def _owned_key(self, key: Any) -> Any:
        """Return the canonical key. Raises StateError for an invalid key, or a key of another task. Keys in a layer are already checked."""
        access = self._access
        key = access.canonical(key)
        for layer in self._older:
            if key in layer:
                return key
        if access.slot_of(key) not in access.slots:
            raise access.foreign_key(key)
        return key
