"""Reads the committed state of a topology from a store, for tools.

The committed state is the rows, changed by the committed deltas that are not folded yet.

Runs do not use this module.
"""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Final, cast

from engine.checkpoint.machine import Record
from engine.checkpoint.record_entries import LEDGER, StoredEntries
from engine.errors import StateDamaged, StateError
from engine.state import Codec, ComponentSeal, Row, StatePlace, StoredTopology, TaskDelta, codec_named
from engine.state.changes import slices
from engine.state.checksums import HINT
from engine.state.delta import SlotOf, changed_rows, merged_committed
from engine.state.namespaces import DropMarks, Name, name_of, prefix_of, stored_prefix

KEYS_PER_CHUNK: Final = 1000


@dataclass(frozen=True, slots=True)
class StoredSizes:
    """Stored sizes of a component."""

    keys: int | None
    """Number of committed keys. None if some keys are in deltas that may not be decoded."""
    namespaces: dict[Name, int] | None
    """Number of keys in each namespace with keys, in the order of the names. `keys` includes them."""
    rows: int
    row_bytes: int
    deltas: int
    delta_bytes: int


@dataclass(slots=True)
class _Above:
    """Committed changes that are not folded into the rows."""

    rows: dict[tuple[int, bytes], bytes | None] = field(default_factory=dict)
    """Values by slot and key. None: deleted."""
    drops: DropMarks = field(default_factory=DropMarks)

    def __bool__(self) -> bool:
        return bool(self.rows or self.drops)


class CommittedState:
    """Committed state of one topology. The state of every component belongs to the same txid."""

    def __init__(self, stored: StoredTopology, topology_name: str, entries: StoredEntries, version: object, *, unpickles: bool) -> None:
        self._stored = stored
        self._topology_name = topology_name
        self._entries = entries
        self._version = version
        self._stored_components: list[str] = []
        self._unpickles = unpickles
        self._codec = entries.codec

    @classmethod
    async def of(cls, stored: StoredTopology, topology_name: str, *, unpickles: bool = False) -> "CommittedState":
        """Read the record. unpickles: also decode pickled values, which runs code that the writer of the values chose."""
        # Read the version first and the components last. Then a committed delta is still stored, or was folded after the first read.
        version = await stored.version()
        entries = StoredEntries(await stored.entries(LEDGER), topology_name)
        state = cls(stored, topology_name, entries, version, unpickles=unpickles)
        state._stored_components = await stored.components()
        return state

    @property
    def entries(self) -> StoredEntries:
        """Decoded entries of the ledger."""
        return self._entries

    @property
    def record(self) -> Record:
        """The stored record."""
        return self._entries.record

    @property
    def txid(self) -> int:
        """Last committed txid, as a new run would read it. -1: none."""
        return self.record.decided_txid

    @property
    def codec(self) -> Codec:
        """Codec of the values."""
        return self._codec or codec_named("msgpack")

    @property
    def decodes(self) -> bool:
        """True if values may be decoded."""
        return self.codec.name != "pickle" or self._unpickles

    @property
    def components(self) -> list[str]:
        """Component ids with a layout or stored data. Committers have no state: what they have staged belongs to their targets (EO-9)."""
        layouts, committers = self._entries.layouts.keys(), self._entries.outputs.keys() | self._entries.stagers.keys()
        return sorted({*self._stored_components, *layouts} - (committers - layouts))

    def layout(self, component_id: str) -> StatePlace | None:
        """Return the layout of a component, as the place of its first task."""
        return self._entries.layouts.get(component_id)

    def is_keyed(self, component_id: str) -> bool:
        """Tell whether the slots of a component are key groups, not tasks. True if its layout is unknown."""
        layout = self.layout(component_id)
        return layout is None or layout.keyed

    async def sizes(self, component_id: str) -> StoredSizes:
        """Return the stored sizes of a component."""
        rows, row_bytes = await self._stored.row_sizes(component_id)
        deltas = await self._deltas(component_id)
        size = sum(len(blob) for each in deltas for blob in each.delta.blobs)
        counting = self._counting(deltas)
        if counting and not self.decodes:
            return StoredSizes(None, None, rows, row_bytes, len(deltas), size)
        above = await self._above(component_id, counting)
        dropped, namespaces = await self._namespace_sizes(component_id, above)
        keys = rows - dropped + await self._keys_above_rows(component_id, above.rows)
        return StoredSizes(keys, namespaces, rows, row_bytes, len(deltas), size)

    async def _namespace_sizes(self, component_id: str, above: "_Above") -> tuple[int, dict[Name, int]]:
        """Return the number of stored rows that belong to dropped namespaces, and the keys of each namespace."""
        dropped, counts, seal = 0, Counter[bytes](), self._seal(component_id)
        try:
            async for rows in self._stored.namespace_rows(component_id):
                seal.check_rows(rows)  # a damaged key would count in another namespace
                older = [row[:2] for row in rows if row[:2] not in above.rows]
                kept = [place for place in older if not above.drops.mask(*place)]
                dropped += len(older) - len(kept)
                counts.update(stored_prefix(key) for _, key in kept)
            counts.update(stored_prefix(key) for (_, key), value in above.rows.items() if value is not None)
            return dropped, {cast(Name, name_of(prefix)): counts[prefix] for prefix in sorted(counts) if prefix}
        except ValueError as error:
            raise StateDamaged(f"the key of a stored row of {component_id!r} is damaged: {error}", hint=HINT) from None

    async def _keys_above_rows(self, component_id: str, above: dict[tuple[int, bytes], bytes | None]) -> int:
        """Return the number of keys that the committed changes add to the rows."""
        if above:  # a row with a damaged key would not be found, and its key would count twice
            seal = self._seal(component_id)
            async for rows in self._stored.rows(component_id):
                seal.check_rows(rows)
        there = await self._stored.present(component_id, list(above)) if above else 0
        return sum(value is not None for value in above.values()) - there

    async def rows(self, component_id: str) -> AsyncIterator[list[Row]]:
        """Yield all committed rows, each once, in chunks. The deltas are held in memory.

        Raises StateError if deltas may not be decoded.
        """
        above = await self._above(component_id, self._counting(await self._deltas(component_id)))
        for places, values in slices(above.rows, KEYS_PER_CHUNK):
            yield [Row(slot, key, value) for (slot, key), value in zip(places, values, strict=True) if value is not None]
        seal = self._seal(component_id)
        async for stored in self._stored.rows(component_id):
            rows = seal.open_rows(stored)
            yield [row for row in rows if row[:2] not in above.rows and not above.drops.mask(*row[:2])] if above else rows

    async def _deltas(self, component_id: str) -> list[TaskDelta]:
        seal = self._seal(component_id)
        return [TaskDelta(index, seal.open_delta(delta, index)) for index, delta in await self._stored.deltas(component_id)]

    def _seal(self, component_id: str) -> ComponentSeal:
        return ComponentSeal(
            self._topology_name,
            component_id,
            keyed=self.is_keyed(component_id),
            txid=lambda: self.txid,
            bare=self._entries.has_bare_blocks,
        )

    def _counting(self, deltas: list[TaskDelta]) -> list[TaskDelta]:
        """Return the committed deltas. All other deltas were rolled back, or are in progress."""
        return [each for each in deltas if each.delta.txid <= self.txid and self.record.is_committed(each.delta.txid, each.delta.round)]

    async def _above(self, component_id: str, deltas: list[TaskDelta]) -> "_Above":
        """Return the committed changes that are not folded."""
        above = _Above()
        if not deltas:
            return above
        if not self.decodes:
            raise StateError(
                f"{component_id!r} has committed changes in {len(deltas)} pickled deltas, and decoding a pickle runs its code",
                hint="If you trust everyone who can write to the store: --unpickle.",
            )
        layout = self.layout(component_id)
        if layout is None:
            raise StateError(f"{component_id!r} has staged deltas and no layout", hint="The store is damaged. Restore it from a copy.")
        for task_index in sorted({each.task_index for each in deltas}):
            place = replace(layout, task_index=task_index)
            staged = [each.delta for each in deltas if each.task_index == task_index]
            changes, slots = await merged_committed(staged, self.codec, place, self.record.is_committed, self.txid)
            above.drops.add(map(prefix_of, changes.dropped()), place.slots)
            async for rows in changed_rows(changes, self.codec, SlotOf(place, slots)):
                above.rows.update({row[:2]: row.value for row in rows})
        return above

    async def has_moved(self) -> bool:
        """Tell whether rows may have changed since `of`. Some of the read rows may then have a later txid."""
        return await self._stored.version() != self._version
