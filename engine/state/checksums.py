"""Stores whose rows and deltas have checksums: around the stores of any provider, which see bytes alone (decision 2, "Checksums").

A row's checksum covers topology, component, slot, key and value; that of a delta's blob covers topology, component, task, txid, round and
its place in the delta, and the last blob says that it is the last.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, Protocol
from zlib import crc32

from engine.errors import StateDamaged
from engine.state.api import LookupStore, ResidentStore, Row, StagedDelta, TaskStore

MARK: Final = b"\xc1"
"""MessagePack never uses this byte; a pickle begins with 0x80."""
RESIDUE: Final = 0x2144DF1C
"""The CRC-32 of anything that ends with its own CRC-32, whatever it starts from."""
_SUM_BYTES: Final = 4


class DamagedBlock(ValueError):
    """A block is not what was written; the text says how that is known."""


def sum_of(*place: object) -> int:
    """Return the checksum of the place where a block belongs: the start of the checksum over its bytes."""
    return crc32(repr(place).encode())


def sealed(block: bytes, start: int) -> bytes:
    """Return a block with its mark before it and its checksum behind it, from the sum of its place.

    >>> opened(sealed(b"abc", sum_of("count", 7)), sum_of("count", 7))
    b'abc'
    """
    marked = MARK + block
    return marked + crc32(marked, start).to_bytes(_SUM_BYTES, "little")


def opened(stored: object, start: int, *, bare: bool = False) -> bytes:
    """Return a block without its checksum. `bare`: it may be of a version that wrote none. Raises DamagedBlock."""
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
HINT: Final = "Restore the store from a copy. Or begin this component anew: python -m engine state delete, with --component."


class GivesStores(Protocol):
    """What gives tasks their stores: a provider, or `SealedStores`."""

    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore: ...


class ComponentSeal:
    """The checksums of one component's rows and deltas. Raises StateDamaged, which names component, key group or task, and txid."""

    def __init__(self, topology_name: str, component_id: str, *, keyed: bool, txid: Callable[[], int], bare: bool) -> None:
        """Take the last committed txid, for errors; bare: blocks without a checksum are read, too."""
        self._place = (topology_name, component_id)
        self._slot_word = "key group" if keyed else "task"
        self._txid = txid
        self._bare = bare
        self._slot_sums = _SlotSums((topology_name, component_id))

    def _start(self, slot: int, key: object) -> int:
        """The sum of a row's place. The key's length is in it: a byte that moves from key to value must not go unseen."""
        if type(key) is not bytes:
            raise DamagedBlock(f"its key is of type {type(key).__name__}, not bytes")
        return crc32(key, self._slot_sums[slot] + len(key))

    def seal_rows(self, rows: list[Row]) -> list[Row]:
        """Return rows to be stored."""
        return [
            row if row.value is None else Row(row.slot, row.key, sealed(row.value, self._start(row.slot, row.key)))  # deleted: no row
            for row in rows
        ]

    def open_value(self, slot: int, key: bytes, stored: object) -> bytes:
        """Return the value of a stored row."""
        try:
            return opened(stored, self._start(slot, key), bare=self._bare)
        except DamagedBlock as error:
            topology, component = self._place
            raise StateDamaged(
                f"topology {topology!r}: a stored row of {component!r}, {self._slot_word} {slot}, is damaged "
                f"(read as of txid {self._txid()}): {error}",
                hint=HINT,
            ) from None

    def check_rows(self, rows: Iterable[Row]) -> None:
        """Look at rows as `open_value` does."""
        sums = self._slot_sums
        for slot, key, stored in rows:
            if type(key) is not bytes or type(stored) is not bytes or crc32(stored, crc32(key, sums[slot] + len(key))) != RESIDUE:
                self.open_value(slot, key, stored)

    def open_rows(self, rows: list[Row]) -> list[Row]:
        """Return stored rows without their checksums."""
        return [Row(slot, key, self.open_value(slot, key, stored)) for slot, key, stored in rows]

    async def seal_blobs(self, blobs: AsyncIterable[bytes], task_index: int, txid: int, round_: int) -> AsyncIterator[bytes]:
        """Yield the blobs of a delta to be stored."""
        waiting: bytes | None = None
        number = 0
        async for blob in blobs:
            if waiting is not None:
                yield sealed(waiting, self._blob_start(task_index, txid, round_, number, is_last=False))
                number += 1
            waiting = blob
        if waiting is not None:
            yield sealed(waiting, self._blob_start(task_index, txid, round_, number, is_last=True))

    def _blob_start(self, task_index: int, txid: int, round_: int, number: int, *, is_last: bool) -> int:
        return sum_of(*self._place, "delta", task_index, txid, round_, number, is_last)

    def open_delta(self, delta: StagedDelta, task_index: int) -> StagedDelta:
        """Return a stored delta without its checksums."""
        txid, round_, blobs = delta.txid, delta.round, delta.blobs
        last = len(blobs) - 1
        try:
            if not (blobs or self._bare):
                raise DamagedBlock("it has no blob")
            opened_blobs = [
                opened(blob, self._blob_start(task_index, txid, round_, number, is_last=number == last), bare=self._bare)
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
    """The sum of each slot's place, made when it is asked for."""

    def __init__(self, place: tuple[str, str]) -> None:
        super().__init__()
        self._place = place

    def __missing__(self, slot: int) -> int:
        self[slot] = total = sum_of(*self._place, "row", slot)
        return total


class _SealsDeltas:
    """The half that both kinds of stores have in common."""

    def __init__(self, store: TaskStore, seal: ComponentSeal, task_index: int) -> None:
        self._store = store
        self._seal = seal
        self._task_index = task_index

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        await self._store.stage(txid, round_, self._seal.seal_blobs(blobs, self._task_index, txid, round_))

    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        await self._store.fold(self._sealed_rows(rows), upto_txid)

    async def _sealed_rows(self, rows: AsyncIterable[list[Row]]) -> AsyncIterator[list[Row]]:
        async for chunk in rows:
            yield self._seal.seal_rows(chunk)

    async def deltas(self) -> list[StagedDelta]:
        return [self._seal.open_delta(delta, self._task_index) for delta in await self._store.deltas()]

    async def drop(self, after_txid: int) -> None:
        await self._store.drop(after_txid)


class SealedLookup(_SealsDeltas, LookupStore):
    """A store that is read row by row."""

    def __init__(self, store: LookupStore, seal: ComponentSeal, task_index: int) -> None:
        super().__init__(store, seal, task_index)
        self._rows = store

    def read(self, slot: int, key: bytes) -> bytes | None:
        stored = self._rows.read(slot, key)
        return None if stored is None else self._seal.open_value(slot, key, stored)

    def scan(self) -> Iterator[Row]:
        open_value = self._seal.open_value
        return (Row(slot, key, open_value(slot, key, stored)) for slot, key, stored in self._rows.scan())

    async def check(self) -> None:
        """Read every row once. A row whose key is damaged is found by this alone: nobody would ask for that key."""
        rows = self._rows.scan()
        while some := list(islice(rows, ROWS_PER_TURN)):
            self._seal.check_rows(some)
            await asyncio.sleep(0)


class SealedResident(_SealsDeltas, ResidentStore):
    """A store whose rows are loaded once."""

    def __init__(self, store: ResidentStore, seal: ComponentSeal, task_index: int) -> None:
        super().__init__(store, seal, task_index)
        self._rows = store

    async def load(self) -> AsyncIterator[list[Row]]:
        async for rows in self._rows.load():
            yield self._seal.open_rows(rows)

    async def check(self) -> None:
        """Its rows are checked while they are loaded."""


class SealedStores:
    """The stores of a provider for one topology, with checksums."""

    def __init__(
        self, provider: GivesStores, topology_name: str, keyed: Mapping[str, bool], *, txid: Callable[[], int], bare: bool
    ) -> None:
        """Take whether each component is keyed, and what `ComponentSeal` takes."""
        self._provider = provider
        self._topology_name = topology_name
        self._keyed = keyed
        self._txid = txid
        self._bare = bare

    async def store(self, component_id: str, task_index: int, slots: range) -> SealedLookup | SealedResident:
        """Return the store of one task."""
        store = await self._provider.store(component_id, task_index, slots)
        keyed = self._keyed.get(component_id, True)
        seal = ComponentSeal(self._topology_name, component_id, keyed=keyed, txid=self._txid, bare=self._bare)
        if isinstance(store, LookupStore):
            return SealedLookup(store, seal, task_index)
        return SealedResident(store, seal, task_index)
