"""Stores values in PostgreSQL. Each map is a table, with `key` as text and `value` as jsonb.

A batch is one statement, which locks the map's fence, compares it, and writes. So a stopped process holds no lock.
Raising the fence waits for running statements. Later statements of older attempts have no effect.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from engine.errors import StateError
from engine.state.postgres.errors import POOLED, POOLED_HINT
from engine.state.postgres.link import IS_OWN_SESSION, PostgresLink
from engine.state.row_codecs import SEPARATOR, TextCodec
from engine.state.values import AttemptId, Changes, Fence, Found, Raw, ValueStore, Writer, fence_of, in_order, nothing

ROWS_PER_READ: Final = 5000
_LOCK: Final = 0x73746F726D
"""Advisory lock for creating tables."""
_TABLES: Final = f"""
SELECT pg_advisory_xact_lock({_LOCK});
CREATE TABLE IF NOT EXISTS stormcell_maps (map text PRIMARY KEY, kind text NOT NULL, topology text NOT NULL, component text NOT NULL,
    txid bigint NOT NULL, attempt bigint NOT NULL);
CREATE TABLE IF NOT EXISTS stormcell_journal (map text NOT NULL, task int NOT NULL, txid bigint NOT NULL, keys text NOT NULL,
    PRIMARY KEY (map, task));
ALTER TABLE stormcell_journal ALTER keys SET STORAGE EXTERNAL
"""
"""`stormcell_maps`: the fence of each map. `stormcell_journal`: the keys that a task wrote in a txid (opaque values)."""
_THERE: Final = "SELECT to_regclass('stormcell_maps') IS NOT NULL"
_FENCE: Final = f"SELECT {IS_OWN_SESSION}, kind, topology, component, txid, attempt FROM stormcell_maps WHERE map = $1"
_RAISE: Final = """
UPDATE stormcell_maps SET component = $4, txid = $2, attempt = $3
    WHERE map = $1 AND ((txid, attempt, component) = ($2, $3, $4) OR (txid, attempt) = ($5, $6)) RETURNING 1
"""
_SHARE: Final = """
SELECT 1 FROM stormcell_maps WHERE map = $1 AND component = $4 AND (txid, attempt) = ($2, $3) AND (txid, attempt) = ($5, $6) FOR SHARE
"""
_LIST: Final = "(string_to_array({text}, E'\\x1f'))[2:]"
"""Splits a text that `_text` has joined."""
_NULLS: Final = "(string_to_array({text}, E'\\x1f', ''))[2:]"
_PUT: Final = f"""
    INSERT INTO "{{table}}" AS stored (key, value, txid) SELECT key, value::jsonb, $2
    FROM (SELECT unnest({_LIST.format(text="$7::text")}) AS key, unnest({_NULLS.format(text="$8::text")}) AS value ORDER BY 1) AS new
    WHERE EXISTS (SELECT FROM fence) ON CONFLICT (key) DO UPDATE SET value = excluded.value, txid = $2 WHERE stored.txid < $2
"""
_PUT_OPAQUE: Final = f"""
    INSERT INTO "{{table}}" (key, value, txid, attempt, previous) SELECT key, value::jsonb, $2, $3, previous::jsonb
    FROM (SELECT unnest({_LIST.format(text="$7::text")}) AS key, unnest({_NULLS.format(text="$8::text")}) AS value,
        unnest({_NULLS.format(text="$9::text")}) AS previous ORDER BY 1) AS new
    WHERE EXISTS (SELECT FROM fence) ON CONFLICT (key) DO UPDATE
    SET value = excluded.value, txid = $2, attempt = $3, previous = excluded.previous
"""
_NOTE: Final = """
    INSERT INTO stormcell_journal SELECT $1, $10, $2, $7 WHERE EXISTS (SELECT FROM fence)
    ON CONFLICT (map, task) DO UPDATE SET txid = $2, keys = $7
"""
_LOOK: Final = f"""
SELECT string_agg(key, E'\\x1f'), string_agg(txid::text, E'\\x1f'), string_agg(coalesce(value::text, ''), E'\\x1f'),
    string_agg(coalesce(previous::text, ''), E'\\x1f') FROM "{{table}}" WHERE key = ANY({_LIST.format(text="$1::text")})
"""
_WRITTEN: Final = f"""
    stormcell_journal AS journal, unnest({_LIST.format(text="journal.keys")}) AS written
    WHERE journal.map = $1 AND journal.txid = $2 AND stored.key = written
"""
_BACK: Final = f'UPDATE "{{table}}" AS stored SET value = previous, txid = $2 - 1 FROM {_WRITTEN} AND stored.txid = $2'
_GONE: Final = f'DELETE FROM "{{table}}" AS stored USING {_WRITTEN} AND stored.value IS NULL AND stored.txid = $2 - 1'


class PostgresValueStore(ValueStore):
    """One map."""

    def __init__(self, link: PostgresLink, name: str) -> None:
        self._link = link
        self._name = name
        self._is_there = False
        self.row_codec = TextCodec()

    async def open(self, *, make: bool) -> None:
        """Connect, and create the engine's tables if needed."""
        await self._link.open()
        if make and not await self._has_tables():
            async with self._link.transaction() as connection:
                await connection.execute(_TABLES)

    async def _has_tables(self) -> bool:
        if not self._is_there:
            [[self._is_there]] = await self._link.fetch(_THERE)
        return self._is_there

    async def fence(self) -> Fence | None:
        found = await self._link.fetch(_FENCE, self._name) if await self._has_tables() else []
        return self._fence_in(found[0]) if found else None

    def _fence_in(self, row: Sequence[Any]) -> Fence:
        is_own, *columns = row
        if not is_own:
            raise StateError(f"{self._link.where}: {POOLED}", hint=POOLED_HINT)
        return fence_of(*columns)

    async def create(self, writer: Writer) -> None:
        async with self._link.transaction() as connection:
            await connection.execute(_TABLES)
            if not await connection.fetch(_FENCE, self._name):
                columns = 'key text COLLATE "C" PRIMARY KEY, value jsonb, txid bigint NOT NULL, attempt bigint, previous jsonb'
                await connection.execute(f'CREATE TABLE "{self._name}" ({columns}) WITH (fillfactor = 70)')
                given = (self._name, writer.kind, writer.topology)
                await connection.execute("INSERT INTO stormcell_maps VALUES ($1, $2, $3, '', 0, 0)", *given)

    async def look(self, keys: Sequence[Raw]) -> Found:
        fence = await self.fence()
        if fence is None or not keys:
            return nothing(fence, keys)
        [found] = await self._link.fetch(_LOOK.format(table=self._name), _text(keys))
        if found[0] is None:
            return nothing(fence, keys)
        there, txids, values, previous = (column.split(SEPARATOR) for column in found)
        return in_order(fence, keys, [there, list(map(int, txids)), _nulls(values), _nulls(previous)])

    async def undo(self, seen: Fence, attempt: AttemptId, writer: Writer) -> None:
        name, (txid, attempt_id) = self._name, attempt
        async with self._link.transaction() as connection:
            # Each statement reads the data that was committed before its start. The first one locks the fence, so it waits for
            # running writes. The second one reads these writes.
            found = await connection.fetch(f"{_FENCE} FOR UPDATE", name)
            if not found or self._fence_in(found[0]) != seen:
                return
            await connection.execute(_BACK.format(table=name), name, txid)
            await connection.execute(_GONE.format(table=name), name, txid)
            await connection.execute("DELETE FROM stormcell_journal WHERE map = $1", name)
            raised = "UPDATE stormcell_maps SET component = $2, attempt = $3 WHERE map = $1"
            await connection.execute(raised, name, writer.component, attempt_id)

    async def write(self, seen: Fence, attempt: AttemptId, changes: Changes, writer: Writer) -> bool:
        fence = _SHARE if seen.attempt == attempt else _RAISE
        given: list[Any] = [self._name, *attempt, writer.component, *seen.attempt]
        return bool(await self._link.fetch(self._statement(fence, writer, changes, given), *given))

    def _statement(self, fence: str, writer: Writer, changes: Changes, given: list[Any]) -> str:
        """Return the statement of a write, and append its arguments to `given`."""
        if writer.kind == "opaque":
            given += [_text(changes.keys), _text(changes.values), _text(changes.previous), writer.task_index]
            put = f"put AS ({_PUT_OPAQUE.format(table=self._name)}), note AS ({_NOTE})"
        elif changes.keys:
            given += [_text(changes.keys), _text(changes.values)]
            put = f"put AS ({_PUT.format(table=self._name)})"
        else:
            put = "put AS (SELECT)"
        return f"WITH fence AS ({fence}), {put} SELECT FROM fence"

    async def rows(self) -> AsyncIterator[list[tuple[Raw, Raw]]]:
        if await self.fence() is None:
            return
        after: str | None = None
        while True:
            where = f'SELECT key, value FROM "{self._name}" WHERE key > $1 OR $1 IS NULL ORDER BY key LIMIT {ROWS_PER_READ}'
            some = [(row[0], row[1]) for row in await self._link.fetch(where, after)]
            yield some
            if len(some) < ROWS_PER_READ:
                return
            after = some[-1][0]

    async def close(self) -> None:
        await self._link.close()


async def postgres_store(url: str, name: str, *, make: bool) -> PostgresValueStore:
    """Return the map of this name in the database of a URL. Raises StateError."""
    store = PostgresValueStore(PostgresLink(url), name)
    try:
        await store.open(make=make)
    except BaseException:
        await store.close()
        raise
    return store


def _text(items: Sequence[Raw]) -> str:
    """Join items to one text, with a separator before each item. None becomes an empty item."""
    listed = ["" if item is None else item for item in items] if None in items else items
    return SEPARATOR + SEPARATOR.join(listed) if items else ""


def _nulls(texts: list[str]) -> list[Raw]:
    return [text or None for text in texts] if "" in texts else texts
