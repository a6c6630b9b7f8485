"""Stores values in Redis, in one hash `{prefix/name}:values` for each map.

`HGET` reads a cell such as "12:57", which has the txid and the value as JSON. A cell of an opaque map also has the previous value and the
attempt, each on a line of its own. Scripts write a batch in parts of up to KEYS_PER_PART keys. Each part is atomic, compares the fence, and
notes its keys. A larger batch is complete for readers after its last part. A replay of the txid first restores the noted keys.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from engine.errors import StateError
from engine.state.codec import MessagePack
from engine.state.redis.link import RedisLink, address_of
from engine.state.redis.names import values_root
from engine.state.redis.scripts import SCAN, Arg, Script
from engine.state.redis.topology import check_server
from engine.state.row_codecs import TextCodec
from engine.state.values import AttemptId, Changes, Fence, Found, Raw, ValuesMismatch, ValueStore, Writer, fence_of, nothing

KEYS_PER_PART: Final = 5000
CHARACTERS_PER_PART: Final = 1024 * 1024
"""Largest part, unless one value is larger. Redis serves no other client while a script runs."""
FIELDS_PER_SCAN: Final = 1000


# Scripts
#
# Each script is atomic. Keys and cells are passed as one MessagePack, because a thousand arguments cost the client ten times as much.
# Attempt ids are compared as text, because they exceed the exact range of Lua numbers.

CREATE: Final = Script("""
if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
if redis.call('HLEN', KEYS[2]) > 0 then return 0 end
redis.call('HSET', KEYS[1], 'kind', ARGV[1], 'topology', ARGV[2], 'component', '', 'txid', '0', 'attempt', '0')
return 1
""")
"""KEYS: the fence, the values. ARGV: kind, topology. Returns 0 if there are values without a fence."""

LOOK: Final = Script("""
local fence = redis.call('HMGET', KEYS[1], 'kind', 'topology', 'component', 'txid', 'attempt')
local keys, found = cmsgpack.unpack(ARGV[1]), {}
for first = 1, #keys, 4000 do
    local some = redis.call('HMGET', KEYS[2], unpack(keys, first, math.min(first + 3999, #keys)))
    for number = 1, #some do found[first + number - 1] = some[number] end
end
return {cmsgpack.pack(fence), redis.call('EXISTS', KEYS[3]), cmsgpack.pack(found)}
""")
"""KEYS: the fence, the values, keys to undo. ARGV: keys. Returns the fence, 1 if there are keys to undo, and the cells."""

WRITE: Final = Script("""
local now = redis.call('HMGET', KEYS[1], 'txid', 'attempt', 'component')
if not now[1] or redis.call('EXISTS', KEYS[4]) == 1 then return 0 end
if now[1] ~= ARGV[3] or now[2] ~= ARGV[4] or now[3] ~= ARGV[5] then
    if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end
    if now[1] ~= ARGV[3] then redis.call('UNLINK', KEYS[3]) end
    redis.call('HSET', KEYS[1], 'txid', ARGV[3], 'attempt', ARGV[4], 'component', ARGV[5])
end
if ARGV[7] ~= '' then redis.call('RPUSH', KEYS[3], ARGV[7]) end
local gone = cmsgpack.unpack(ARGV[8])
for first = 1, #gone, 4000 do
    redis.call('HDEL', KEYS[2], unpack(gone, first, math.min(first + 3999, #gone)))
end
local cells = cmsgpack.unpack(ARGV[6])
for first = 1, #cells, 4000 do
    redis.call('HSET', KEYS[2], unpack(cells, first, math.min(first + 3999, #cells)))
end
return 1
""")
"""KEYS: the fence, the values, the journal, keys to undo. ARGV: txid and attempt of the fence that was read, txid and attempt of the
writer, its component, keys and cells, keys for the journal, keys to delete. Returns 0 and writes nothing if the fence has changed."""

UNDO: Final = Script("""
local now = redis.call('HMGET', KEYS[1], 'txid', 'attempt')
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end
if ARGV[2] == ARGV[3] then return 1 end
redis.call('HSET', KEYS[1], 'attempt', ARGV[3], 'component', ARGV[4])
if redis.call('EXISTS', KEYS[3]) == 1 then
    while redis.call('RPOPLPUSH', KEYS[2], KEYS[3]) do end
elseif redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('RENAME', KEYS[2], KEYS[3])
end
return 1
""")
"""KEYS: the fence, the journal, keys to undo. ARGV: txid and attempt of the fence that was read, the new attempt, the component.

From now on the older attempt cannot write, and the new one cannot write before the undo is complete. If another task of the new attempt ran
this script before, the journal stays. The journal then has keys of the new attempt, which must not be undone.
"""

UNDO_PART: Final = Script("""
local now = redis.call('HMGET', KEYS[1], 'txid', 'attempt')
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end
local part = redis.call('LINDEX', KEYS[3], 0)
if not part then return 0 end
local before = string.format('%d', tonumber(ARGV[1]) - 1)
for _, key in ipairs(cmsgpack.unpack(part)) do
    local cell = redis.call('HGET', KEYS[2], key)
    if cell then
        local txid, previous = string.match(cell, '^(%d+):[^\\n]*\\n([^\\n]*)\\n')
        if txid == ARGV[1] then
            if previous == '' then
                redis.call('HDEL', KEYS[2], key)
            else
                redis.call('HSET', KEYS[2], key, before .. ':' .. previous .. '\\n' .. previous .. '\\n0')
            end
        end
    end
end
redis.call('LPOP', KEYS[3])
return redis.call('LLEN', KEYS[3])
""")
"""KEYS: the fence, the values, keys to undo. ARGV: the txid, the new attempt. Returns the number of parts that are left."""


FORGET: Final = Script("""
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'component', '', 'txid', '0', 'attempt', '0') end
redis.call('UNLINK', KEYS[3], KEYS[4])
return 1
""")
"""KEYS: the fence, the values, the journal, keys to undo. Returns 0 and changes nothing if there are values."""


class RedisValueStore(ValueStore):
    """One map."""

    def __init__(self, link: RedisLink, name: str) -> None:
        self._link = link
        root = values_root(link.address.prefix, name)
        self._fence, self._values = f"{root}:fence", f"{root}:values"
        self._journal, self._undo = f"{root}:journal", f"{root}:undo"
        self._codec = MessagePack()
        self.row_codec = TextCodec()

    async def fence(self) -> Fence | None:
        return (await self.look([]))[0]

    async def create(self, writer: Writer) -> None:
        if not await self._link.run(CREATE, [self._fence, self._values], [writer.kind, writer.topology]):
            raise ValuesMismatch(f"{writer.where}: {self._values} exists without its fence", hint="Give the map another name.")

    async def look(self, keys: Sequence[Raw]) -> Found:
        fence: Fence | None = None
        columns: tuple[list[Any], ...] = ([], [], [])
        for first in range(0, len(keys) or 1, KEYS_PER_PART):
            packed = self._codec.encode(list(keys[first : first + KEYS_PER_PART]))
            found = await self._link.run(LOOK, [self._fence, self._values, self._undo], [packed])
            if not first:
                fence = self._fence_of(found[0], is_undoing=bool(found[1]))
            if fence is None:
                return nothing(None, keys)
            for column, more in zip(columns, self._columns(self._unpacked(found[2]), fence), strict=True):
                column += more
        return Found(fence, *columns)

    def _fence_of(self, packed: bytes, *, is_undoing: bool) -> Fence | None:
        kind, topology, component, txid, attempt_id = self._unpacked(packed)
        if not kind:
            return None
        try:
            return replace(fence_of(kind, topology, component, int(txid), int(attempt_id)), is_undoing=is_undoing)
        except ValueError as error:
            raise self._unreadable(error) from None

    def _unpacked(self, packed: bytes) -> Any:
        try:
            found = self._codec.decode(packed)
        except ValueError as error:
            raise self._unreadable(error) from None
        return list(found.values()) if type(found) is dict else found  # Lua writes an empty list as a map

    def _columns(self, cells: Sequence[Any], fence: Fence) -> tuple[list[int], list[Raw], list[Raw]]:
        try:
            return _columns(cells, fence)
        except ValueError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: ValueError) -> StateError:
        return StateError(f"{self._link}: {self._values} cannot be read: {error}", hint="Another program wrote it, or it is damaged.")

    async def undo(self, seen: Fence, attempt: AttemptId, writer: Writer) -> None:
        args: list[Arg] = [*map(str, seen.attempt), str(attempt[1]), writer.component]
        if not await self._link.run(UNDO, [self._fence, self._journal, self._undo], args):
            return
        mine: list[Arg] = [str(seen.txid), str(attempt[1])]
        while await self._link.run(UNDO_PART, [self._fence, self._values, self._undo], mine):
            pass  # in parts, so that Redis serves other clients between them

    async def write(self, seen: Fence, attempt: AttemptId, changes: Changes, writer: Writer) -> bool:
        names = [self._fence, self._values, self._journal, self._undo]
        fences: list[Arg] = [*map(str, seen.attempt), *map(str, attempt), writer.component]
        is_opaque = writer.kind == "opaque"
        cells = _opaque_cells(attempt, changes) if is_opaque else [f"{attempt[0]}:{value or 'null'}" for value in changes.values]
        gone = self._codec.encode(list(changes.deleted))
        for part in _parts(cells):
            keys = changes.keys[part]
            packed = self._codec.encode([each for row in zip(keys, cells[part], strict=True) for each in row])
            journal = self._codec.encode(keys) if is_opaque and keys else b""
            if not await self._link.run(WRITE, names, [*fences, packed, journal, gone]):
                return False
        return True

    async def forget(self) -> bool:
        return bool(await self._link.run(FORGET, [self._fence, self._values, self._journal, self._undo], []))

    async def rows(self) -> AsyncIterator[list[tuple[Raw, Raw]]]:
        fence = await self.fence()
        cursor, seen = b"0", set[str]()
        while fence is not None:
            cursor, packed = await self._link.run(SCAN, [self._values], [cursor, FIELDS_PER_SCAN])
            found = self._unpacked(packed)
            _, values, _ = self._columns(found[1::2], fence)
            some = [(key, value) for key, value in zip(found[::2], values, strict=True) if key not in seen]
            yield some
            if cursor == b"0":
                return
            seen.update([key for key, _ in some])  # a scan may return a field twice

    async def close(self) -> None:
        await self._link.close()


async def redis_store(url: str, name: str) -> RedisValueStore:
    """Return the map of this name in the database of a URL. Raises StateError."""
    try:
        address = address_of(url)
    except StateError as error:
        raise StateError(error.message.replace("state_provider", "RedisValues"), hint=error.hint) from None
    link = RedisLink(address)
    try:
        await check_server(link)
    except BaseException:
        await link.close()
        raise
    return RedisValueStore(link, name)


def _columns(cells: Sequence[Any], fence: Fence) -> tuple[list[int], list[Raw], list[Raw]]:
    """Return txids, values and previous values of cells. A missing cell gives 0, None, None."""
    if not all(cells):
        cells = [cell or _ABSENT[fence.kind] for cell in cells]
    if not cells:
        return [], [], []
    if fence.kind == "transactional":
        heads, tails = zip(*[cell.split(":", 1) for cell in cells], strict=True)
        return list(map(int, heads)), _nulls_apart(tails, "null"), [None] * len(cells)
    heads, tails = zip(*[cell.split(":", 1) for cell in cells], strict=True)
    values, previous, _ = zip(*[tail.split("\n") for tail in tails], strict=True)
    return list(map(int, heads)), _nulls_apart(values, "null"), _nulls_apart(previous, "")


_ABSENT: Final = {"transactional": "0:null", "opaque": "0:null\n\n0"}


def _nulls_apart(texts: Sequence[str], null: str) -> list[Raw]:
    return [None if text == null else text for text in texts] if null in texts else list(texts)


def _opaque_cells(attempt: AttemptId, changes: Changes) -> list[str]:
    txid, attempt_id = attempt
    pairs = zip(changes.values, changes.previous, strict=True)
    return [f"{txid}:{value or 'null'}\n{previous or ''}\n{attempt_id}" for value, previous in pairs]


def _parts(cells: Sequence[str]) -> Iterator[slice]:
    """Yield slices of bounded size, at least one, which may be empty."""
    waiting = [slice(first, first + KEYS_PER_PART) for first in reversed(range(0, len(cells) or 1, KEYS_PER_PART))]
    while waiting:
        part = waiting.pop()
        some = cells[part]
        if len(some) > 1 and sum(map(len, some)) > CHARACTERS_PER_PART:
            middle = part.start + len(some) // 2
            waiting += [slice(middle, part.start + len(some)), slice(part.start, middle)]
        else:
            yield part
