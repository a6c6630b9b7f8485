"""Stores values in PostgreSQL. Each map is a table, with the key in the form of `key_forms`, and `value` as jsonb.

A batch is one statement, which locks the map's fence, compares it, and writes. So a stopped process holds no lock.
Raising the fence waits for running statements. Later statements of older attempts have no effect.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from engine.errors import EngineBug, StateError
from engine.state.key_columns import ROW_COLUMNS, planned_columns
from engine.state.postgres.errors import POOLED, POOLED_HINT
from engine.state.postgres.key_forms import Argument, EncodedKey, KeyForm, TypedKey, columns_of, joined, stored_form
from engine.state.postgres.link import IS_OWN_SESSION, PostgresLink
from engine.state.row_codecs import SEPARATOR, TextCodec
from engine.state.values import AttemptId, Changes, Fence, Found, KeyCodec, Raw, ValueStore, Writer, fence_of, in_order, nothing

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
_NULLS: Final = "(string_to_array({text}, E'\\x1f', ''))[2:]"
_PUT: Final = """
    INSERT INTO "{table}" AS stored ({names}, value, txid) SELECT {names}, value::jsonb, $2
    FROM (SELECT {keys}, unnest({values}) AS value ORDER BY {order}) AS new
    WHERE EXISTS (SELECT FROM fence) ON CONFLICT ({names}) DO UPDATE SET value = excluded.value, txid = $2 WHERE stored.txid < $2
"""
_DELETE: Final = 'DELETE FROM "{table}" WHERE {among} AND EXISTS (SELECT FROM fence)'
_PUT_OPAQUE: Final = """
    INSERT INTO "{table}" ({names}, value, txid, attempt, previous) SELECT {names}, value::jsonb, $2, $3, previous::jsonb
    FROM (SELECT {keys}, unnest({values}) AS value, unnest({previous}) AS previous ORDER BY {order}) AS new
    WHERE EXISTS (SELECT FROM fence) ON CONFLICT ({names}) DO UPDATE
    SET value = excluded.value, txid = $2, attempt = $3, previous = excluded.previous
"""
_NOTE: Final = """
    INSERT INTO stormcell_journal SELECT $1, {task}, $2, {packed} WHERE EXISTS (SELECT FROM fence)
    ON CONFLICT (map, task) DO UPDATE SET txid = $2, keys = {packed}
"""
_LOOK: Final = """
SELECT string_agg(key, E'\\x1f'), string_agg(txid::text, E'\\x1f'), string_agg(coalesce(value::text, ''), E'\\x1f'),
    string_agg(coalesce(previous::text, ''), E'\\x1f') FROM "{table}" WHERE {among}
"""
"""One text for each column costs a client less than many rows."""
_LOOK_TYPED: Final = 'SELECT {names}, txid, value, previous FROM "{table}" WHERE {among}'
_WRITTEN: Final = """
WITH written AS MATERIALIZED (SELECT {written} FROM stormcell_journal AS journal WHERE map = $1 AND txid = $2)
"""
"""Keys of the journal, taken apart once. In a join PostgreSQL may take the whole text apart for each row."""
_AMONG: Final = "({names}) IN (SELECT {unpacked} FROM written) AND txid = $2"
_BACK: Final = f'{_WRITTEN} UPDATE "{{table}}" SET value = previous, txid = $2 - 1 WHERE {_AMONG}'
_GONE: Final = f'{_WRITTEN} DELETE FROM "{{table}}" WHERE value IS NULL AND {_AMONG} - 1'


class PostgresValueStore(ValueStore):
    """One map."""

    def __init__(self, link: PostgresLink, name: str, *, columns: bool = True) -> None:
        """columns: give a new map a typed column for each field of its keys."""
        self._link = link
        self._name = name
        self._is_there = False
        self._has_columns = columns
        self.row_codec = TextCodec()
        self._encoded = EncodedKey(self.row_codec)
        self._form: KeyForm | None = None
        """Form of the keys of the stored map, None until the map is found with a key."""
        self._planned: KeyForm | None = self._encoded
        """Form of a new map. None: its first key is still to come."""
        self._is_older = False

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

    @property
    def lacks_key_columns(self) -> bool:
        return self._form is None

    @property
    def is_older(self) -> bool:
        return self._is_older

    async def key_codec(self, fields: Sequence[str], keys: Sequence[object]) -> KeyCodec:
        if self._form is None and await self._stored_form() is self._encoded:
            self._is_older = self._has_columns and len(fields) > 1
        if self._form is not None:
            return self._form.codec
        self._planned = self._new_form(fields, keys)
        return self._encoded.codec if self._planned is None else self._planned.codec

    async def _stored_form(self) -> KeyForm | None:
        """Return the form of the map's table, None if the map or its first key is still to come."""
        if self._form is None and await self.fence() is not None:
            self._form = await stored_form(self._link.fetch, self._name, self._encoded)
        return self._form

    def _new_form(self, fields: Sequence[str], keys: Sequence[object]) -> KeyForm | None:
        if not self._has_columns or not fields:
            return self._encoded
        if not keys:
            return None
        if len(fields) == 1 and isinstance(keys[0], str):
            return self._encoded  # `key` has the texts as they are
        columns = planned_columns(fields, keys[0])
        return self._encoded if columns is None else TypedKey(columns)

    async def fence(self) -> Fence | None:
        found = await self._link.fetch(_FENCE, self._name) if await self._has_tables() else []
        return self._fence_in(found[0]) if found else None

    def _fence_in(self, row: Sequence[Any]) -> Fence:
        is_own, *columns = row
        if not is_own:
            raise StateError(f"{self._link.where}: {POOLED}", hint=POOLED_HINT)
        return fence_of(*columns)

    async def create(self, writer: Writer) -> None:
        planned = self._planned
        async with self._link.transaction() as connection:
            await connection.execute(_TABLES)
            if not await connection.fetch(_FENCE, self._name):
                await self._create_table(connection, planned)
                given = (self._name, writer.kind, writer.topology)
                await connection.execute("INSERT INTO stormcell_maps VALUES ($1, $2, $3, '', 0, 0)", *given)
            elif planned is not None and not await stored_form(connection.fetch, self._name, self._encoded):
                await self._drop_without_keys(connection)
                await self._create_table(connection, planned)

    async def _create_table(self, connection: Any, form: KeyForm | None) -> None:
        columns = "value jsonb, txid bigint NOT NULL, attempt bigint, previous jsonb"
        if form is not None:
            columns = f"{form.columns}, {columns}{form.primary_key}"
        await connection.execute(f'CREATE TABLE "{self._name}" ({columns}) WITH (fillfactor = 70)')

    async def _drop_without_keys(self, connection: Any) -> None:
        """Drop the empty table of a map whose first key is still to come. Raises StateError for any other table."""
        columns = await columns_of(connection.fetch, self._name)
        if not columns:
            raise StateError(
                f"{self._link.where}: the table of the map {self._name!r} is gone",
                hint="Was it dropped? Restore it, or give the map a new name.",
            )
        if tuple(columns) != ROW_COLUMNS or await connection.fetchval(f'SELECT EXISTS (SELECT FROM "{self._name}")'):
            raise StateError(
                f"{self._link.where}: another program changed the table of the map {self._name!r}, which has no primary key",
                hint="Restore its primary key, or give the map a new name.",
            )
        await connection.execute(f'DROP TABLE "{self._name}"')

    async def look(self, keys: Sequence[Raw]) -> Found:
        fence = await self.fence()
        if fence is None or not keys or (form := await self._stored_form()) is None:
            return nothing(fence, keys)
        given: list[object] = []
        among = form.among(keys, _adding_to(given))
        if form is not self._encoded:
            found = await self._link.fetch(_LOOK_TYPED.format(table=self._name, names=form.names, among=among), *given)
            rows = [(form.raw(row[:-3]), *row[-3:]) for row in map(tuple, found)]
            return in_order(fence, keys, list(zip(*rows, strict=True))) if rows else nothing(fence, keys)
        [texts] = await self._link.fetch(_LOOK.format(table=self._name, among=among), *given)
        if texts[0] is None:
            return nothing(fence, keys)
        there, txids, values, previous = (column.split(SEPARATOR) for column in texts)
        return in_order(fence, keys, [there, list(map(int, txids)), _nulls(values), _nulls(previous)])

    async def undo(self, seen: Fence, attempt: AttemptId, writer: Writer) -> None:
        name, (txid, attempt_id) = self._name, attempt
        async with self._link.transaction() as connection:
            # Each statement reads the data that was committed before its start. The first one locks the fence, so it waits for
            # running writes. The second one reads these writes.
            found = await connection.fetch(f"{_FENCE} FOR UPDATE", name)
            if not found or self._fence_in(found[0]) != seen:
                return
            form = self._form or await stored_form(connection.fetch, name, self._encoded)
            if form is not None:
                # Without statistics of a new table PostgreSQL may compare each row with each key of the journal.
                await connection.execute("SET LOCAL enable_nestloop = off")
                parts = {"table": name, "names": form.names, "written": form.written, "unpacked": form.unpacked}
                await connection.execute(_BACK.format(**parts), name, txid)
                await connection.execute(_GONE.format(**parts), name, txid)
            await connection.execute("DELETE FROM stormcell_journal WHERE map = $1", name)
            raised = "UPDATE stormcell_maps SET component = $2, attempt = $3 WHERE map = $1"
            await connection.execute(raised, name, writer.component, attempt_id)

    async def write(self, seen: Fence, attempt: AttemptId, changes: Changes, writer: Writer) -> bool:
        fence = _SHARE if seen.attempt == attempt else _RAISE
        given: list[object] = [self._name, *attempt, writer.component, *seen.attempt]
        await self._stored_form()
        return bool(await self._link.fetch(self._statement(fence, writer, changes, given), *given))

    def _statement(self, fence: str, writer: Writer, changes: Changes, given: list[object]) -> str:
        """Return the statement of a write, and append its arguments to `given`."""
        form, argument = self._form, _adding_to(given)
        if form is None and changes.keys:
            raise EngineBug(f"{len(changes.keys)} keys are written to the map {self._name!r}, whose table has no key columns")
        if form is not None and changes.deleted:
            gone = _DELETE.format(table=self._name, among=form.among(changes.deleted, argument))
            fence = f"{fence}), gone AS ({gone}"
        if form is None or not (changes.keys or writer.kind == "opaque"):
            return f"WITH fence AS ({fence}), put AS (SELECT) SELECT FROM fence"
        parts = {
            "table": self._name,
            "names": form.names,
            "order": ", ".join(map(str, range(1, form.names.count(", ") + 2))),
            "keys": form.unnested(changes.keys, argument),
            "values": _NULLS.format(text=argument(joined(changes.values)) + "::text"),
        }
        if writer.kind != "opaque":
            return f"WITH fence AS ({fence}), put AS ({_PUT.format(**parts)}) SELECT FROM fence"
        put = _PUT_OPAQUE.format(**parts, previous=_NULLS.format(text=argument(joined(changes.previous)) + "::text"))
        note = _NOTE.format(task=f"{argument(writer.task_index)}::int", packed=argument(form.packed(changes.keys)) + "::text")
        return f"WITH fence AS ({fence}), put AS ({put}), note AS ({note}) SELECT FROM fence"

    async def forget(self) -> bool:
        name = self._name
        async with self._link.transaction() as connection:
            if not await connection.fetch(f"{_FENCE} FOR UPDATE", name):
                return True
            if await connection.fetchval("SELECT to_regclass($1) IS NULL", f'"{name}"'):  # dropped by the user
                await connection.execute("DELETE FROM stormcell_maps WHERE map = $1", name)
            elif await connection.fetchval(f'SELECT EXISTS (SELECT FROM "{name}")'):
                return False
            await connection.execute("UPDATE stormcell_maps SET component = '', txid = 0, attempt = 0 WHERE map = $1", name)
            await connection.execute("DELETE FROM stormcell_journal WHERE map = $1", name)
        return True

    async def rows(self) -> AsyncIterator[list[tuple[Raw, Raw]]]:
        form = await self._stored_form()
        if form is None or await self.fence() is None:
            return
        after: list[Any] = []
        while True:
            marks = ", ".join(f"${number}" for number in range(1, len(after) + 1))
            where = f"WHERE ({form.names}) > ({marks})" if after else ""
            statement = f'SELECT {form.names}, value FROM "{self._name}" {where} ORDER BY {form.names} LIMIT {ROWS_PER_READ}'
            some = [tuple(row) for row in await self._link.fetch(statement, *after)]
            yield [(form.raw(row[:-1]), row[-1]) for row in some]
            if len(some) < ROWS_PER_READ:
                return
            after = list(some[-1][:-1])

    async def close(self) -> None:
        await self._link.close()


async def postgres_store(url: str, name: str, *, make: bool, columns: bool = True) -> PostgresValueStore:
    """Return the map of this name in the database of a URL. Raises StateError."""
    store = PostgresValueStore(PostgresLink(url), name, columns=columns)
    try:
        await store.open(make=make)
    except BaseException:
        await store.close()
        raise
    return store


def _adding_to(given: list[object]) -> Argument:
    def argument(value: object) -> str:
        given.append(value)
        return f"${len(given)}"

    return argument


def _nulls(texts: list[str]) -> list[Raw]:
    return [text or None for text in texts] if "" in texts else texts
