"""Lua scripts that read and change a map in Redis. Each one is atomic.

Keys and cells are passed as one MessagePack, since a thousand arguments cost the client ten times as much. Attempt ids are compared as
text, since they exceed the exact range of Lua numbers.
"""

from typing import Final

from engine.state.redis.scripts import Script

CREATE: Final = Script("""
if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
if redis.call('HLEN', KEYS[2]) > 0 then return 0 end
redis.call('HSET', KEYS[1], 'kind', ARGV[1], 'topology', ARGV[2], 'component', '', 'txid', '0', 'attempt', '0')
return 1
""")
"""KEYS: the fence, the values. ARGV: kind, topology. Gives 0 where there are values without a fence."""

LOOK: Final = Script("""
local fence = redis.call('HMGET', KEYS[1], 'kind', 'topology', 'component', 'txid', 'attempt')
local keys, found = cmsgpack.unpack(ARGV[1]), {}
for first = 1, #keys, 4000 do
    local some = redis.call('HMGET', KEYS[2], unpack(keys, first, math.min(first + 3999, #keys)))
    for number = 1, #some do found[first + number - 1] = some[number] end
end
return {cmsgpack.pack(fence), redis.call('EXISTS', KEYS[3]), cmsgpack.pack(found)}
""")
"""KEYS: the fence, the values, what is to be undone. ARGV: keys. Gives the fence, 1 where something is to be undone, and the cells."""

WRITE: Final = Script("""
local now = redis.call('HMGET', KEYS[1], 'txid', 'attempt', 'component')
if not now[1] or redis.call('EXISTS', KEYS[4]) == 1 then return 0 end
if now[1] ~= ARGV[3] or now[2] ~= ARGV[4] or now[3] ~= ARGV[5] then
    if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end
    if now[1] ~= ARGV[3] then redis.call('UNLINK', KEYS[3]) end
    redis.call('HSET', KEYS[1], 'txid', ARGV[3], 'attempt', ARGV[4], 'component', ARGV[5])
end
if ARGV[7] ~= '' then redis.call('RPUSH', KEYS[3], ARGV[7]) end
local cells = cmsgpack.unpack(ARGV[6])
for first = 1, #cells, 4000 do
    redis.call('HSET', KEYS[2], unpack(cells, first, math.min(first + 3999, #cells)))
end
return 1
""")
"""KEYS: the fence, the values, the journal, what is to be undone. ARGV: txid and attempt that were seen, ours, the component, key and cell
of each, and the keys for the journal. Gives 0, with nothing written, where the fence is another."""

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
"""KEYS: the fence, the journal, what is to be undone. ARGV: txid and attempt that were seen, our attempt, the component. From here on the
older attempt cannot write, and ours cannot write before the undo is complete. If another task of our attempt ran this script before, the
journal is left alone. It now has keys of our own attempt, which must not be undone."""

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
"""KEYS: the fence, the values, what is to be undone. ARGV: the txid, our attempt. Gives how many parts are left."""
