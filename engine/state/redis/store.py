"""Rows, deltas and ledgers in Redis. A task loads its rows once. The task writes deltas and folds in small steps."""

import hashlib
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

import msgpack  # type: ignore[import-untyped]

from engine.errors import StateDamaged, StateFenced
from engine.state.api import Ledger, ResidentStore, Row, StagedDelta
from engine.state.checksums import DamagedBlock, add_checksum, place_sum, strip_checksum
from engine.state.codec import MessagePack
from engine.state.ledgers import encode_entries
from engine.state.namespaces import stored_prefix
from engine.state.redis.scripts import DROP, DROP_PREFIXES, FOLD, SCAN, STAGE, WRITE_LEDGER, Arg
from engine.state.redis.topology import RedisTopology

ROWS_PER_STEP: Final = 500
BYTES_PER_STEP: Final = 256 * 1024
"""Largest size of a call or an answer, unless one value is larger."""
SLOTS_PER_CALL: Final = 250
DELTAS_PER_STEP: Final = 500
NAMESPACES_PER_STEP: Final = 500
"""Hashes of namespaces that one call removes."""
_WHOLE, _CONTINUED = b".", b"+"
"""First byte of a piece of a delta. The byte tells whether the blob ends with this piece or continues in the next one."""
RESTORE: Final = "Restore the server's data from a backup. To start empty, delete the keys of the topology."
_NUMBER: Final = re.compile(rb"(-?[0-9]{1,18})(?::([0-9a-f]{8}))?")
"""A number in the index of deltas, with its checksum."""


class RedisStore(ResidentStore):
    """One task's rows and deltas."""

    def __init__(self, topology: RedisTopology, component_id: str, task_index: int, slots: range) -> None:
        self._topology = topology
        self._component_id = component_id
        self._task = task_index
        self._slots = slots
        self._index = topology.names.deltas(component_id, task_index)
        self._staging = topology.lane(f"stage:{self._index}")
        self._folding = topology.lane(f"fold:{self._index}")
        self._fields = ROWS_PER_STEP // 4
        """Fields in the next scan."""

    drops_prefixes = True

    def _slot_key(self, slot: int, prefix: bytes = b"") -> str:
        return self._topology.names.slot(self._component_id, slot, prefix)

    def _set_key(self, slot: int) -> str:
        return self._topology.names.namespaces(self._component_id, slot)

    def _member(self, slot: int, prefix: bytes) -> bytes:
        """Return the member of the set of namespaces for a prefix. Only its checksum tells that it is damaged, and rows are missing."""
        return add_checksum(prefix, place_sum(self._set_key(slot)))

    def _delta_key(self, txid: int, round_: int) -> str:
        return self._topology.names.delta(self._component_id, self._task, txid, round_)

    async def load(self) -> AsyncIterator[list[Row]]:
        for first in range(self._slots.start, self._slots.stop, SLOTS_PER_CALL):
            slots = range(first, min(first + SLOTS_PER_CALL, self._slots.stop))
            lengths = await self._topology.link.hash_lengths([self._slot_key(slot) for slot in slots])
            members = await self._topology.link.set_members([self._set_key(slot) for slot in slots])
            for slot, length, packed in zip(slots, lengths, members, strict=True):
                for prefix in [b""] * (length > 0) + [self._prefix(slot, member) for member in packed]:
                    async for rows in self._scanned(slot, prefix):
                        yield rows

    async def _scanned(self, slot: int, prefix: bytes) -> AsyncIterator[list[Row]]:
        """Yield the rows of one hash."""
        cursor, seen = b"0", set[bytes]()
        while True:
            cursor, packed = await self._topology.link.run(SCAN, [self._slot_key(slot, prefix)], [cursor, self._fields])
            found = msgpack.unpackb(packed, raw=True)
            rows = [Row(slot, key, value) for key, value in zip(found[::2], found[1::2], strict=True) if key not in seen]
            if rows:
                yield rows
                self._fields = _fields_per_scan(rows)
            if cursor == b"0":
                return
            seen.update([row.key for row in rows])  # a scan may return a field twice

    def _prefix(self, slot: int, member: bytes) -> bytes:
        try:
            return strip_checksum(member, place_sum(self._set_key(slot)))
        except DamagedBlock as error:
            raise StateDamaged(
                f"{self._topology.link}: {self._set_key(slot)}, the namespaces of {self._component_id!r}, is damaged: {error}", hint=RESTORE
            ) from None

    async def drop_prefixes(self, prefixes: Sequence[bytes]) -> None:
        places = [(slot, prefix) for prefix in prefixes for slot in self._slots]
        for first in range(0, len(places), NAMESPACES_PER_STEP):
            some = places[first : first + NAMESPACES_PER_STEP]
            keys = [key for slot, prefix in some for key in (self._slot_key(slot, prefix), self._set_key(slot))]
            await self._topology.run_step(self._folding, DROP_PREFIXES, keys, [self._member(*place) for place in some])

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        first, pieces, size, count = "first", list[bytes](), 0, 0
        async for blob in blobs:
            for piece in _pieces(blob):
                if pieces and (size + len(piece) > BYTES_PER_STEP or len(pieces) == ROWS_PER_STEP):
                    await self._stage(txid, round_, first, "", pieces)
                    first, pieces, size = "", [], 0
                pieces.append(piece)
                size += len(piece)
                count += 1
        await self._stage(txid, round_, first, self._with_sum(f"{txid}:{round_}", count), pieces)

    async def _stage(self, txid: int, round_: int, first: str, last: str, pieces: list[bytes]) -> None:
        args: list[Arg] = [f"{txid}:{round_}", txid, first, last, *pieces]
        await self._topology.run_step(self._staging, STAGE, [self._index, self._delta_key(txid, round_)], args)

    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        waiting = _Waiting()
        async for chunk in rows:
            for row in chunk:
                if waiting.is_full_for(row):
                    await self._write(waiting)
                    waiting = _Waiting()
                waiting.add(row)
        if waiting.rows:
            await self._write(waiting)
        await self._drop([each for each in (await self._indexed())[0] if each[0] <= upto_txid], self._with_sum("folded", upto_txid))

    async def _write(self, waiting: "_Waiting") -> None:
        hashes, keys, packed = waiting.by_hash(), list[str](), []
        for (slot, prefix), rows in hashes.items():
            keys += [self._slot_key(slot, prefix), self._set_key(slot)] if prefix else [self._slot_key(slot)]
            packed.append((*_parted(rows), self._member(slot, prefix) if prefix else b""))
        await self._topology.run_step(self._folding, FOLD, keys, [msgpack.packb(packed, use_bin_type=False)])

    async def deltas(self) -> list[StagedDelta]:
        while True:
            index = await self._indexed()
            try:
                return await self._deltas_in(*index)
            except StateDamaged:
                if await self._indexed() == index:
                    raise
                # An abandoned drop ran meanwhile, or a drop of a process that has taken the topology over.

    async def _deltas_in(self, indexed: dict[tuple[int, int], int | None], folded: int) -> list[StagedDelta]:
        found = []
        for (txid, round_), count in indexed.items():
            if count is not None and txid > folded:
                found.append(StagedDelta(txid, round_, tuple([blob async for blob in self._blobs(txid, round_, count)])))
        return found

    async def _blobs(self, txid: int, round_: int, count: int) -> AsyncIterator[bytes]:
        key = self._delta_key(txid, round_)
        blob, known, per_call = list[bytes](), 0, 1
        while known < count:
            pieces: list[bytes] = await self._topology.link.command("LRANGE", key, known, min(known + per_call, count) - 1)
            if not pieces:
                raise StateDamaged(f"{self._topology.link}: {key} has {known} of its {count} pieces", hint=RESTORE)
            for piece in pieces:
                blob.append(piece[1:])
                if piece[:1] == _WHOLE:
                    yield b"".join(blob)
                    blob = []
            known += len(pieces)
            per_call = _per_call(sum(map(len, pieces)), len(pieces))
        if blob:
            raise StateDamaged(f"{self._topology.link}: {key} is damaged: the end of its last blob is missing", hint=RESTORE)

    async def drop(self, after_txid: int) -> None:
        await self._drop([each for each in (await self._indexed())[0] if each[0] > after_txid], "")

    async def _drop(self, deltas: list[tuple[int, int]], folded: str) -> None:
        for first in range(0, len(deltas) or 1, DELTAS_PER_STEP):
            some = deltas[first : first + DELTAS_PER_STEP]
            keys = [self._index, *(self._delta_key(*each) for each in some)]
            await self._topology.run_step(self._folding, DROP, keys, [folded, *(f"{txid}:{round_}" for txid, round_ in some)])

    async def _indexed(self) -> tuple[dict[tuple[int, int], int | None], int]:
        """Return the staged deltas in order, each with its number of pieces (None: incomplete), and the last folded txid."""
        found, folded = dict[tuple[int, int], int | None](), -1
        for name, count in (await self._topology.read_hash(self._index)).items():
            if name == b"folded":
                folded = self._number(name, count)
            elif not re.fullmatch(rb"[0-9]{1,18}:[0-9]{1,18}", name):
                raise self._damaged(name, count)
            else:
                txid, _, round_ = name.partition(b":")
                found[int(txid), int(round_)] = None if count == b"open" else self._number(name, count)
        return dict(sorted(found.items())), folded

    def _with_sum(self, name: str, number: int) -> str:
        return f"{number}:{place_sum(self._index, name, number):08x}"

    def _number(self, name: bytes, stored: bytes) -> int:
        """Return a number of the index. Raises StateDamaged."""
        found = _NUMBER.fullmatch(stored)
        if found is None or (found[2] is None and not self._topology.has_bare_blocks):
            raise self._damaged(name, stored)
        number = int(found[1])
        if found[2] is not None and stored.decode() != self._with_sum(name.decode(), number):
            raise self._damaged(name, stored)
        return number

    def _damaged(self, name: bytes, stored: bytes) -> StateDamaged:
        return StateDamaged(
            f"{self._topology.link}: {self._index}, the index of the deltas of {self._component_id!r}, task {self._task}, is damaged: "
            f"{name[:40]!r}: {stored[:40]!r}",
            hint=RESTORE,
        )


class _Waiting:
    """Rows for one step of a fold, the newest row of each key."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, bytes], bytes | None] = {}
        self._bytes = 0

    def is_full_for(self, row: Row) -> bool:
        return bool(self.rows) and (len(self.rows) >= ROWS_PER_STEP or self._bytes + _size(row) > BYTES_PER_STEP)

    def add(self, row: Row) -> None:
        self.rows[row.slot, row.key] = row.value
        self._bytes += _size(row)

    def by_hash(self) -> dict[tuple[int, bytes], dict[bytes, bytes | None]]:
        """Return the rows by slot and prefix of a namespace."""
        found: dict[tuple[int, bytes], dict[bytes, bytes | None]] = {}
        for (slot, key), value in self.rows.items():
            found.setdefault((slot, hash_prefix(key)), {})[key] = value
        return found


class RedisLedger(Ledger):
    """One ledger, stored as a hash and an epoch."""

    def __init__(self, topology: RedisTopology, name: str) -> None:
        self._topology = topology
        self._name = name
        self._key = topology.names.ledger(name)
        self._lane = topology.lane(f"ledger:{name}")
        self._codec = MessagePack()
        self._claimed: str | None = None
        """The stored epoch."""

    async def claim(self) -> int:
        self._claimed = await self._topology.claim(self._lane, self._name)
        return int(self._claimed.partition(":")[0])

    async def read(self) -> dict[str, object]:
        found = await self._topology.read_hash(self._key)
        bare = self._topology.has_bare_blocks
        entries: dict[str, object] = {}
        for name, value in found.items():
            try:
                entries[name.decode("utf-8", "surrogatepass")] = self._codec.decode(strip_checksum(value, self._place(name), bare=bare))
            except ValueError as error:
                raise StateDamaged(f"{self._topology.link}: {self._key}, entry {name!r}, is damaged: {error}", hint=RESTORE) from None
        return entries

    def _place(self, name: bytes) -> int:
        return place_sum(self._key, name)

    async def write(self, changes: Mapping[str, object]) -> None:
        if self._claimed is None:
            raise StateFenced(f"{self._topology.link}: the ledger {self._name!r} was not claimed", hint="Call claim() first.")
        entries, removed = encode_entries(changes, self._name, self._codec, lambda name: self._place(_field(name)))
        pairs = [part for name, value in entries.items() for part in (_field(name), value)]
        args: list[Arg] = [self._name, self._claimed, len(entries), *pairs, *map(_field, removed)]
        await self._topology.run_step(self._lane, WRITE_LEDGER, [self._topology.names.epochs, self._key], args)


def epoch_of(topology: RedisTopology, ledger: str, stored: bytes) -> int:
    """Return the number of a stored epoch. Raises StateDamaged. A script computes its checksum, which is therefore a SHA-1."""
    number, _, total = stored.partition(b":")
    expected = hashlib.sha1(b"%s:%s" % (_field(ledger), number), usedforsecurity=False).hexdigest()[:8].encode()
    if not number.isdigit() or (total != expected and (total or not topology.has_bare_blocks)):
        raise StateDamaged(f"{topology.link}: {topology.names.epochs}, entry {ledger!r}, is damaged: {stored[:40]!r}", hint=RESTORE)
    return int(number)


def hash_prefix(key: bytes) -> bytes:
    """Return the prefix of the namespace that has a hash of its own for a key, empty for all other keys."""
    try:
        return stored_prefix(key)
    except ValueError:
        return b""


def _pieces(blob: bytes) -> Iterator[bytes]:
    """Split a blob into pieces of bounded size, at least one."""
    for first in range(0, len(blob) or 1, BYTES_PER_STEP):
        after = first + BYTES_PER_STEP
        yield (_WHOLE if after >= len(blob) else _CONTINUED) + blob[first:after]


def _parted(rows: dict[bytes, bytes | None]) -> tuple[list[bytes], list[bytes]]:
    """Return keys and values of the rows to set, alternating, and the keys to delete."""
    sets = [part for key, value in rows.items() if value is not None for part in (key, value)]
    return sets, [key for key, value in rows.items() if value is None]


def _size(row: Row) -> int:
    return len(row.key) + len(row.value or b"")


def _fields_per_scan(rows: list[Row]) -> int:
    """Return the number of fields for the next scan, by the size of the last rows."""
    return _per_call(sum(map(_size, rows)), len(rows))


def _per_call(size: int, count: int) -> int:
    return max(1, min(ROWS_PER_STEP, BYTES_PER_STEP * count // max(1, size)))


def _field(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
