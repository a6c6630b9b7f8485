"""A custom state provider on LMDB, for a state larger than memory, with a folder for each topology. Needs `pip install lmdb`.

    python examples/word_count.py --state "lmdb_state:provider?counts"

engine/state/api.py is the contract of a provider. tests/examples/test_lmdb_state.py runs the engine's suite for providers on this one.
"""

import asyncio
import fcntl
from collections.abc import AsyncIterable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias, TypeVar

import lmdb
from msgpack import packb, unpackb  # type: ignore[import-untyped]

from engine import StateError, StateProvider
from engine.errors import StateUnavailable
from engine.state import LookupStore, Row, StagedDelta, ValueLedger

T = TypeVar("T")
Transaction: TypeAlias = "lmdb.Transaction[bytes]"
MOST_BYTES, LAST_TXID = 2**36, 2**63


def provider(folder: str) -> "LmdbProvider":
    """Make the provider of `state_provider="lmdb_state:provider?folder"`."""
    return LmdbProvider(Path(folder))


class LmdbProvider(StateProvider):
    def __init__(self, folder: Path) -> None:
        self.folder, self.ledgers, self.opened = folder, dict[str, LmdbLedger](), ExitStack()

    async def open(self, topology_name: str) -> None:
        folder = self.folder / digest(topology_name.encode()).hex()
        try:
            with ExitStack() as opening:
                folder.mkdir(parents=True, exist_ok=True)
                lock = opening.enter_context((folder / "owner").open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.env = opening.enter_context(lmdb.open(str(folder), map_size=MOST_BYTES))
                self.writer = opening.enter_context(ThreadPoolExecutor(1))
                self.opened = opening.pop_all()
        except BlockingIOError:
            raise StateError(f"topology {topology_name!r} runs already on the state in {str(folder)!r}", hint="Stop that one.") from None
        except (OSError, lmdb.Error) as error:
            raise StateError(f"the state in {str(folder)!r} cannot be opened: {error}", hint="Check the path and its rights.") from error

    async def close(self) -> None:
        self.opened.close()  # in the reverse order: the writer, the file, the lock

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in one transaction, in another thread. Returns its result after the transaction is durable."""

        def run() -> T:
            with self.env.begin(write=True) as txn:
                return work(txn)

        try:
            return await asyncio.get_running_loop().run_in_executor(self.writer, run)
        except lmdb.Error as error:
            raise StateUnavailable(f"the state in {str(self.folder)!r} cannot be written now: {error}") from error

    def ledger(self, name: str) -> "LmdbLedger":
        return self.ledgers.setdefault(name, LmdbLedger(self, name))

    async def store(self, component_id: str, task_index: int, slots: range) -> LookupStore:
        return LmdbStore(self, digest(component_id.encode()), task_index, slots)


class LmdbLedger(ValueLedger):
    def __init__(self, provider: LmdbProvider, name: str) -> None:
        super().__init__()
        self.provider, self.key = provider, b"ledger" + digest(name.encode())

    async def change(self, change: Callable[[bytes | None], bytes]) -> None:
        await self.provider.write(lambda txn: txn.put(self.key, change(txn.get(self.key))))


class LmdbStore(LookupStore):
    """Rows and deltas of one task. A row has the key (component, slot, digest of its key), a delta (component, task, txid, round)."""

    def __init__(self, provider: LmdbProvider, component: bytes, task_index: int, slots: range) -> None:
        self.provider, self.slots, self.folded_upto = provider, slots, -1
        self.rows, self.deltas_of_task = b"row" + component, b"delta" + component + number(task_index)

    def row(self, slot: int, key: bytes | None = None) -> bytes:
        return self.rows + number(slot) + (b"" if key is None else digest(key))

    def delta(self, txid: int, round_: int = 0) -> bytes:
        return self.deltas_of_task + number(txid) + number(round_)

    def read(self, slot: int, key: bytes) -> bytes | None:
        with self.provider.env.begin() as txn:
            stored = txn.get(self.row(slot, key))
        return None if stored is None else unpackb(stored)[2]

    def scan(self) -> Iterator[Row]:
        with self.provider.env.begin() as txn:
            for _, stored in between(txn, self.row(self.slots.start), self.row(self.slots.stop)):
                yield Row(*unpackb(stored))

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        stored = packb((txid, round_, [blob async for blob in blobs]))
        await self.provider.write(lambda txn: txid > self.folded_upto and txn.put(self.delta(txid, round_), stored))

    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        collected = [row async for chunk in rows for row in chunk]

        def fold(txn: Transaction) -> None:
            for row in collected:
                if row.value is None:
                    txn.delete(self.row(row.slot, row.key))
                else:
                    txn.put(self.row(row.slot, row.key), packb(row))
            self.forget(txn, 0, upto_txid + 1)
            self.folded_upto = max(self.folded_upto, upto_txid)

        await self.provider.write(fold)

    async def deltas(self) -> list[StagedDelta]:
        def read(txn: Transaction) -> list[StagedDelta]:
            found = (unpackb(stored) for _, stored in between(txn, self.delta(0), self.delta(LAST_TXID)))
            return [StagedDelta(txid, round_, tuple(blobs)) for txid, round_, blobs in found]

        return await self.provider.write(read)

    async def drop(self, after_txid: int) -> None:
        await self.provider.write(lambda txn: self.forget(txn, after_txid + 1, LAST_TXID))

    def forget(self, txn: Transaction, first: int, end: int) -> None:
        for key in [key for key, _ in between(txn, self.delta(first), self.delta(end))]:
            txn.delete(key)


def between(txn: Transaction, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    cursor = txn.cursor()
    found = cursor.set_range(first)
    while found and cursor.key() < end:
        yield cursor.item()
        found = cursor.next()


def digest(text: bytes) -> bytes:
    """Return a short digest of any text, because a key of LMDB has at most 511 bytes."""
    return blake2b(text, digest_size=24).digest()


def number(value: int) -> bytes:
    """Encode a number so that the bytes sort like the numbers."""
    return value.to_bytes(8, "big")
