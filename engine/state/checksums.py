"""Checksums of stored blocks, and of the rows and deltas of any provider's stores (docs/decisions/0002, "Checksums").

A checksum is a CRC-32 over the place of a block and its bytes. So a block in a wrong place also counts as damaged. The place of a row is
its topology, component, slot and key. The place of a blob is its topology, component, task, txid, round, number, and whether it is the
last.

A block with a checksum begins with a byte that begins neither a MessagePack nor a pickle. Blocks without one are read only in a store that
an older version has written.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from typing import Final, Protocol
from zlib import crc32

from engine.errors import StateDamaged, StateError
from engine.state.api import LookupStore, ResidentStore, Row, StagedDelta, TaskStore, row_of, slot_text

MARK: Final = b"\xc1"
"""MessagePack never uses this byte, and a pickle begins with 0x80."""
RESIDUE: Final = 0x2144DF1C
"""CRC-32 of any bytes that end with their own CRC-32, from any start value."""
_SUM_BYTES: Final = 4


class DamagedBlock(ValueError):
    """A stored block differs from the written one. The text has the reason."""


def place_sum(*place: object) -> int:
    """Return the checksum of the place of a block, which is the start value of the checksum over its bytes."""
    return crc32(repr(place).encode())


def add_checksum(block: bytes, start: int) -> bytes:
    """Return a block between its mark and its checksum. start: the sum of its place.

    >>> strip_checksum(add_checksum(b"abc", place_sum("count", 7)), place_sum("count", 7))
    b'abc'
    """
    marked = MARK + block
    return marked + crc32(marked, start).to_bytes(_SUM_BYTES, "little")


def strip_checksum(stored: object, start: int, *, bare: bool = False) -> bytes:
    """Return a block without its checksum. bare: also accept a block of a version without checksums. Raises DamagedBlock."""
    if type(stored) is not bytes:
        raise DamagedBlock(f"it is of type {type(stored).__name__}, not bytes")
    if stored[:1] != MARK:
        if bare:
            return stored
        raise DamagedBlock("it has no checksum")
    if crc32(stored, start) != RESIDUE:
        raise DamagedBlock("its checksum does not match")
    return stored[1:-_SUM_BYTES]


ROWS_PER_TURN: Final = 500
HINT: Final = "Restore the store from a backup, or delete the state of this component: python -m engine state delete, with --component."


BARE, MIXED, FORMAT = 1, 2, 3
"""Formats of a topology on a server, stored beside it. BARE: no checksums. MIXED: only newer data has them. FORMAT: all data has them."""


def parse_format(stored: bytes, where: str, *, hint: str) -> int:
    """Return the stored format of a topology on a server. Raises StateError if it is newer, or if another program wrote it.

    where: server and place, for errors. hint: for the data of another program.
    """
    if not stored.isdigit():
        raise StateError(f"{where} was not written by the engine: {stored[:40]!r}", hint=hint)
    if int(stored) > FORMAT:
        raise StateError(
            f"{where} was written by a newer version of the engine (format {int(stored)}; this one knows {FORMAT})",
            hint="Install that version. Nothing was changed.",
        )
    return int(stored)


class StoreSource(Protocol):
    """A provider, or `SealedStores`."""

    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore: ...


class ComponentSeal:
    """Checksums of the rows and deltas of one component. Raises StateDamaged with the component, key group or task, and txid."""

    def __init__(
        self,
        topology_name: str,
        component_id: str,
        *,
        keyed: bool,
        txid: Callable[[], int],
        bare: bool,
        on_blob: Callable[[], None] = lambda: None,
    ) -> None:
        """txid: returns the last committed txid, for errors. bare: also read blocks without a checksum.

        on_blob: called for each blob of a delta that is written.
        """
        self._place = (topology_name, component_id)
        self._keyed = keyed
        self._txid = txid
        self._bare = bare
        self._on_blob = on_blob
        self._slot_sums = _SlotSums((topology_name, component_id))

    def _start(self, slot: int, key: object) -> int:
        """Return the sum of the place of a row.

        The sum includes the length of the key, so that no byte can move from the key to the value.
        """
        if type(key) is not bytes:
            raise DamagedBlock(f"its key is of type {type(key).__name__}, not bytes")
        return crc32(key, self._slot_sums[slot] + len(key))

    def seal_rows(self, rows: list[Row]) -> list[Row]:
        """Return rows with checksums."""
        return [
            # A deleted row has no value to seal.
            row if row.value is None else Row(row.slot, row.key, add_checksum(row.value, self._start(row.slot, row.key)))
            for row in rows
        ]

    def open_value(self, slot: int, key: bytes, stored: object) -> bytes:
        """Return the value of a stored row without its checksum."""
        try:
            return strip_checksum(stored, self._start(slot, key), bare=self._bare)
        except DamagedBlock as error:
            topology, component = self._place
            raise StateDamaged(
                f"topology {topology!r}: a stored row of {component!r}, {slot_text(slot, keyed=self._keyed)}, is damaged "
                f"(read as of txid {self._txid()}): {error}",
                hint=HINT,
            ) from None

    def check_rows(self, rows: Iterable[Row]) -> None:
        """Check rows like `open_value`, but faster."""
        sums = self._slot_sums
        for slot, key, stored in rows:
            if type(key) is not bytes or type(stored) is not bytes or crc32(stored, crc32(key, sums[slot] + len(key))) != RESIDUE:
                self.open_value(slot, key, stored)

    def open_rows(self, rows: list[Row]) -> list[Row]:
        """Return stored rows without their checksums."""
        return list(self.opened(rows))

    def opened(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield stored rows without their checksums. A million of them must not take long: a start reads them all."""
        sums = self._slot_sums
        for slot, key, stored in rows:
            if (
                type(key) is bytes
                and type(stored) is bytes
                and stored[:1] == MARK
                and crc32(stored, crc32(key, sums[slot] + len(key))) == RESIDUE
            ):
                yield row_of((slot, key, stored[1:-_SUM_BYTES]))
            else:
                yield Row(slot, key, self.open_value(slot, key, stored))

    async def seal_blobs(self, blobs: AsyncIterable[bytes], task_index: int, txid: int, round_: int) -> AsyncGenerator[bytes, None]:
        """Yield the blobs of a delta with checksums."""
        waiting: bytes | None = None
        number = 0
        async for blob in blobs:
            if waiting is not None:
                yield add_checksum(waiting, self._blob_start(task_index, txid, round_, number, is_last=False))
                self._on_blob()
                number += 1
            waiting = blob
        if waiting is not None:
            yield add_checksum(waiting, self._blob_start(task_index, txid, round_, number, is_last=True))

    def _blob_start(self, task_index: int, txid: int, round_: int, number: int, *, is_last: bool) -> int:
        return place_sum(*self._place, "delta", task_index, txid, round_, number, is_last)

    def open_delta(self, delta: StagedDelta, task_index: int) -> StagedDelta:
        """Return a stored delta without its checksums."""
        txid, round_, blobs = delta.txid, delta.round, delta.blobs
        last = len(blobs) - 1
        try:
            if not (blobs or self._bare):
                raise DamagedBlock("it has no blob")
            opened_blobs = [
                strip_checksum(blob, self._blob_start(task_index, txid, round_, number, is_last=number == last), bare=self._bare)
                for number, blob in enumerate(blobs)
            ]
        except DamagedBlock as error:
            topology, component = self._place
            raise StateDamaged(
                f"topology {topology!r}: the delta that {component!r}, task {task_index}, stored for txid {txid}, round {round_}, "
                f"is damaged: {error}",
                hint=HINT,
            ) from None
        return StagedDelta(txid, round_, tuple(opened_blobs))


class _SlotSums(dict[int, int]):
    """Sums of the places of slots, computed on first use."""

    def __init__(self, place: tuple[str, str]) -> None:
        super().__init__()
        self._place = place

    def __missing__(self, slot: int) -> int:
        self[slot] = total = place_sum(*self._place, "row", slot)
        return total


class _SealsDeltas:
    """Base of both kinds of stores with checksums, for deltas and folds."""

    def __init__(self, store: TaskStore, seal: ComponentSeal, task_index: int) -> None:
        self._store = store
        self._seal = seal
        self._task_index = task_index
        self.drops_prefixes = store.drops_prefixes

    async def drop_prefixes(self, prefixes: Sequence[bytes]) -> None:
        await self._store.drop_prefixes(prefixes)

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        async with aclosing(self._seal.seal_blobs(blobs, self._task_index, txid, round_)) as sealed:
            await self._store.stage(txid, round_, sealed)

    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        async with aclosing(self._sealed_rows(rows)) as sealed:
            await self._store.fold(sealed, upto_txid)

    async def _sealed_rows(self, rows: AsyncIterable[list[Row]]) -> AsyncGenerator[list[Row], None]:
        async for chunk in rows:
            yield self._seal.seal_rows(chunk)

    async def deltas(self) -> list[StagedDelta]:
        return [self._seal.open_delta(delta, self._task_index) for delta in await self._store.deltas()]

    async def drop(self, after_txid: int) -> None:
        await self._store.drop(after_txid)


class SealedLookup(_SealsDeltas, LookupStore):
    """A LookupStore with checksums."""

    def __init__(self, store: LookupStore, seal: ComponentSeal, task_index: int) -> None:
        super().__init__(store, seal, task_index)
        self._rows = store

    def read(self, slot: int, key: bytes) -> bytes | None:
        stored = self._rows.read(slot, key)
        return None if stored is None else self._seal.open_value(slot, key, stored)

    def scan(self) -> Iterator[Row]:
        return self._seal.opened(self._rows.scan())

    def scan_prefix(self, prefix: bytes) -> Iterator[Row]:
        return self._seal.opened(self._rows.scan_prefix(prefix))

    def prefixes(self) -> Iterator[bytes | None]:
        return self._rows.prefixes()

    async def check(self) -> None:
        """Read every row once. Only this check finds a row with a damaged key, because no task reads that key."""
        rows = self._rows.scan()
        while some := list(islice(rows, ROWS_PER_TURN)):
            self._seal.check_rows(some)
            await asyncio.sleep(0)


class SealedResident(_SealsDeltas, ResidentStore):
    """A ResidentStore with checksums."""

    def __init__(self, store: ResidentStore, seal: ComponentSeal, task_index: int) -> None:
        super().__init__(store, seal, task_index)
        self._rows = store

    async def load(self) -> AsyncIterator[list[Row]]:
        async for rows in self._rows.load():
            yield self._seal.open_rows(rows)

    async def check(self) -> None:
        """Do nothing, because `load` checks all rows."""


class SealedStores:
    """Stores of a provider for one topology, with checksums."""

    def __init__(
        self, provider: StoreSource, topology_name: str, keyed: Mapping[str, bool], *, txid: Callable[[], int], bare: bool
    ) -> None:
        """keyed: whether each component is keyed. txid and bare: as in `ComponentSeal`."""
        self._provider = provider
        self._topology_name = topology_name
        self._keyed = keyed
        self._txid = txid
        self._bare = bare
        self.blobs = 0
        """Blobs of deltas that the stores have taken. Grows while a long write goes on."""

    async def store(self, component_id: str, task_index: int, slots: range) -> SealedLookup | SealedResident:
        """Return the store of one task."""
        store = await self._provider.store(component_id, task_index, slots)
        keyed = self._keyed.get(component_id, True)
        seal = ComponentSeal(
            self._topology_name, component_id, keyed=keyed, txid=self._txid, bare=self._bare, on_blob=self._note_blob
        )
        if isinstance(store, LookupStore):
            return SealedLookup(store, seal, task_index)
        return SealedResident(store, seal, task_index)

    def _note_blob(self) -> None:
        self.blobs += 1
