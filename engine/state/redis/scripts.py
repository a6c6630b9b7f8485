"""Lua scripts for all writes to Redis. Each one is an atomic step, refused if another process has taken the topology over.

Steps are numbered within a *lane*: the staging of one task, its folds, or one ledger. A lane runs one step at a time. An abandoned step,
after a timeout or a lost connection, may still reach the server much later. If a step with a greater number has run before, the script
refuses the old step as LATE. So a repeated step counts once, and an old step never undoes a newer one.
"""

import hashlib
from typing import Final, TypeAlias

Arg: TypeAlias = bytes | str | int
"""One part of a command."""


class Script:
    """A Lua script, and the hash by which a server caches it."""

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.sha: Final = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


_GUARD: Final = """
local owner = redis.call('GET', KEYS[1]) or ''
if owner ~= ARGV[1] then
    if owner == '' then return redis.error_reply('LOST nobody owns this topology') end
    return redis.error_reply('FENCED another owns this topology')
end
local step = tonumber(redis.call('HGET', KEYS[2], ARGV[2]) or 0)
if step >= tonumber(ARGV[3]) then return redis.error_reply('LATE a newer one was done') end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
"""
"""KEYS: owner, lanes. ARGV: the expected owner, the lane, the number of the step. All writes except the claim begin with this."""

CLAIM: Final = Script("""
local owner = redis.call('GET', KEYS[1]) or ''
redis.call('HLEN', KEYS[2])
local function with_sum(number)
    return number .. ':' .. string.sub(redis.sha1hex(ARGV[5] .. ':' .. number), 1, 8)
end
local stored = redis.call('HGET', KEYS[3], ARGV[5]) or (ARGV[6] == 'bare' and '0' or with_sum('0'))
local number = string.match(stored, '^%d+')
if not number or (stored ~= with_sum(number) and not (ARGV[6] == 'bare' and stored == number)) then
    return redis.error_reply('DAMAGED ' .. ARGV[5] .. ': its epoch')
end
local claimed = with_sum(string.format('%d', tonumber(number) + 1))
if owner == ARGV[1] then
    local step = tonumber(redis.call('HGET', KEYS[2], ARGV[2]) or 0)
    if step >= tonumber(ARGV[3]) then return redis.error_reply('LATE a newer one was done') end
elseif owner == ARGV[4] then
    redis.call('SET', KEYS[1], ARGV[1])
    redis.call('DEL', KEYS[2])
else
    return redis.error_reply('LATE a newer one was done')
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
redis.call('HSET', KEYS[3], ARGV[5], claimed)
return claimed
""")
"""KEYS: owner, lanes, epochs. ARGV: the new owner, the lane, the step, the owner that was read before, the ledger, and `bare` if epochs may
lack a checksum. Returns the stored epoch: its number, and the beginning of a SHA-1 over ledger and number. HLEN fails for a key of another
type, which DEL would remove."""

WRITE_LEDGER: Final = Script(
    _GUARD
    + """
if redis.call('HGET', KEYS[3], ARGV[4]) ~= ARGV[5] then return redis.error_reply('FENCED another owns this topology') end
local values = tonumber(ARGV[6])
for at = 7, 6 + 2 * values, 2 do redis.call('HSET', KEYS[4], ARGV[at], ARGV[at + 1]) end
for at = 7 + 2 * values, #ARGV do redis.call('HDEL', KEYS[4], ARGV[at]) end
"""
)
"""KEYS: …, epochs, the ledger. ARGV: …, its name, its stored epoch, the number of set entries, name and value of each, names to
remove."""

STAGE: Final = Script(
    _GUARD
    + """
local folded = redis.call('HGET', KEYS[3], 'folded')
if folded and tonumber(ARGV[5]) <= tonumber(string.match(folded, '^-?%d+')) then return end
if ARGV[6] == 'first' then
    redis.call('LLEN', KEYS[4])
    redis.call('UNLINK', KEYS[4])
    redis.call('HSET', KEYS[3], ARGV[4], 'open')
end
if #ARGV > 7 then redis.call('RPUSH', KEYS[4], unpack(ARGV, 8)) end
local count = string.match(ARGV[7], '^%d*')
if count == '0' then
    redis.call('HDEL', KEYS[3], ARGV[4])
elseif count ~= '' then
    if redis.call('LLEN', KEYS[4]) ~= tonumber(count) then return redis.error_reply('LATE pieces are missing') end
    redis.call('HSET', KEYS[3], ARGV[4], ARGV[7])
end
"""
)
"""KEYS: …, the task's index of deltas, the delta.

ARGV: …, its name in the index, its txid, `first` or "", the total number of pieces with its checksum, pieces. Only the last call for a
delta has the number, and the other calls have "". Drops a delta whose txid is folded.
"""

FOLD: Final = Script(
    _GUARD
    + """
local hashes = cmsgpack.unpack(ARGV[4])
local number = 3
for _, hash in ipairs(hashes) do
    local sets, deletes, prefix = hash[1], hash[2], hash[3]
    if prefix ~= '' and #sets > 0 then redis.call('SADD', KEYS[number + 1], prefix) end
    if #sets > 0 then redis.call('HSET', KEYS[number], unpack(sets)) end
    if #deletes > 0 then redis.call('HDEL', KEYS[number], unpack(deletes)) end
    number = number + (prefix == '' and 1 or 2)
end
"""
)
"""KEYS: …, the hash of each slot; for a namespace, its hash and the set of namespaces. ARGV: …, one MessagePack, because a thousand
arguments are ten times as slow.

The MessagePack has two lists for each hash: alternating keys and values of the rows to set, and the keys to delete. Then follows the prefix
of the namespace with its checksum, or "".
"""

DROP_PREFIXES: Final = Script(
    _GUARD
    + """
for number = 3, #KEYS, 2 do
    redis.call('UNLINK', KEYS[number])
    redis.call('SREM', KEYS[number + 1], ARGV[4 + (number - 3) / 2])
end
"""
)
"""KEYS: …, pairs of the hash of a namespace in a slot, and the set of namespaces. ARGV: …, the prefix of each pair with its checksum."""

SCAN: Final = Script("""
local found = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
return {found[1], cmsgpack.pack(found[2])}
""")
"""KEYS: a slot. ARGV: the cursor, the number of fields. Returns the next cursor, and keys and values as MessagePack. Reads only."""

SIZES: Final = Script("""
local found = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local bytes = 0
for _, each in ipairs(found[2]) do bytes = bytes + #each end
return {found[1], bytes}
""")
"""Like SCAN, but returns only the bytes of keys and values. Reads only."""

REMOVE: Final = Script(
    _GUARD
    + """
for number = 3, #KEYS do redis.call('UNLINK', KEYS[number]) end
"""
)
"""KEYS: …, keys to remove. The last step for a topology also removes its owner and lanes."""

RENEW: Final = Script("""
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
""")
"""KEYS: the lease. ARGV: its new holder, its milliseconds. Returns 0 if another process holds it."""

RELEASE: Final = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
""")
"""KEYS: the lease. ARGV: its holder."""

DROP: Final = Script(
    _GUARD
    + """
local folded = redis.call('HGET', KEYS[3], 'folded') or '-2'
local function number(text) return tonumber(string.match(text, '^-?%d+')) end
if ARGV[4] ~= '' and number(ARGV[4]) > number(folded) then redis.call('HSET', KEYS[3], 'folded', ARGV[4]) end
if #ARGV > 4 then redis.call('HDEL', KEYS[3], unpack(ARGV, 5)) end
for number = 4, #KEYS do redis.call('UNLINK', KEYS[number]) end
"""
)
"""KEYS: …, the task's index of deltas, deltas. ARGV: …, the last folded txid with its checksum ("": none), the names of the deltas in the
index."""
