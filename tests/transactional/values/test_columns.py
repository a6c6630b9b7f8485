"""Maps whose keys have a typed column for each field, in PostgreSQL and SQLite (TX-8)."""

import logging
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import asyncpg
import pytest

import engine
from engine.errors import FatalError, StateFenced
from engine.state.values import ValueRefused
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from engine.transactional.values import PostgresValues, ReduceInto, ReducingCommitter, SqliteValues, ValueMap, values_at
from tests.transactional.values.tasks import add, attempt, open_values, read_values

pytestmark = pytest.mark.guarantee("TX-8")

KINDS = pytest.mark.parametrize("kind", ["transactional", "opaque"])
FIELDS = ("user", "hour")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Place:
    """One database, seen by another program too."""

    def __init__(self, url: str, make: Callable[..., ValueMap]) -> None:
        self.url, self.make = url, make

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        if self.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
                return connection.execute(query).fetchall()
        client = await asyncpg.connect(self.url)
        found = [tuple(row) for row in await client.fetch(query)]
        await client.close()
        return found


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place(f"sqlite:///{tmp_path}/values.db", lambda name="counts", **form: SqliteValues(tmp_path / "values.db", name, **form))
    url = request.getfixturevalue("new_database")
    return Place(url, lambda name="counts", **form: PostgresValues(url, name, **form))


def _is_sqlite(place: Place) -> bool:
    return place.url.startswith("sqlite")


@KINDS
async def test_sql_reads_a_column_for_each_field(place: Place, kind: Any) -> None:
    counts = place.make()
    async with open_values(counts) as values:
        await values.update(attempt(1, 1), {("ada", 7): 1, ("bob", 8): 2}, add, kind=kind, key_fields=FIELDS)
        await values.update(attempt(2, 2), {("ada", 7): 5, ("ada", 8): 1}, add, kind=kind, key_fields=FIELDS)
    read = 'SELECT "user", hour, value FROM counts WHERE hour > 6 ORDER BY "user", hour'
    rows = [(user, hour, int(value)) for user, hour, value in await place.rows(read)]
    assert rows == [("ada", 7, 6), ("ada", 8, 1), ("bob", 8, 2)]
    assert await read_values(counts) == {("ada", 7): 6, ("ada", 8): 1, ("bob", 8): 2}
    assert await read_values(values_at(place.url, "counts")) == await read_values(counts)
    async with counts.reader() as reader:
        assert (await reader.get(("ada", 7)), await reader.get(("nobody", 7))) == (6, None)


@KINDS
async def test_a_topology_counts_by_several_fields(place: Place, kind: Any) -> None:
    random = Random(7)
    visits = [(random.choice(["ada", "bob"]), random.randint(0, 5)) for _ in range(300)]
    builder = TransactionalTopologyBuilder("visits", "in", MemoryTransactionalSpout(visits, FIELDS, take=20))
    committer = ReduceInto(place.make(), key=FIELDS, kind=kind)
    builder.set_committer("count", committer, 2).fields_grouping("in", *FIELDS)
    async with engine.run(builder.build()) as run:
        await run.completed()
    rows = await place.rows('SELECT "user", hour, value FROM counts')
    assert {(user, hour): int(value) for user, hour, value in rows} == Counter(visits)


@KINDS
async def test_replays_and_undone_attempts_are_exact(place: Place, kind: Any) -> None:
    async def update(values: Any, at: Any, **amounts: int) -> Any:
        changes = {(name, len(name)): amount for name, amount in amounts.items()}
        return await values.update(at, changes, add, kind=kind, key_fields=FIELDS)

    counts = place.make()
    async with open_values(counts, task_index=0) as first, open_values(counts, task_index=1) as second:
        await update(first, attempt(1, 1), a=1)
        await update(second, attempt(1, 1), b=1)
        await update(first, attempt(2, 2), a=10, x=1)
        await update(second, attempt(2, 2), b=10, y=1)
        await update(first, attempt(2, 5), a=10 if kind == "transactional" else 7, x=1)
        with pytest.raises(StateFenced):
            await update(second, attempt(2, 3), b=100)
        await update(second, attempt(2, 5), b=10, y=1)
    last = 11 if kind == "transactional" else 8
    assert await read_values(counts) == {("a", 1): last, ("b", 1): 11, ("x", 1): 1, ("y", 1): 1}


@KINDS
async def test_a_map_may_begin_with_empty_batches(place: Place, kind: Any) -> None:
    counts = place.make()
    async with open_values(counts) as first, open_values(counts, task_index=1) as second:
        await first.update(attempt(1, 1), {}, add, kind=kind, key_fields=FIELDS)
        await second.update(attempt(1, 1), {}, add, kind=kind, key_fields=FIELDS)
        assert await read_values(counts) == {}
        await second.update(attempt(2, 2), {("a", 1): 1}, add, kind=kind, key_fields=FIELDS)
        await first.update(attempt(2, 2), {}, add, kind=kind, key_fields=FIELDS)
        if kind == "opaque":
            await first.update(attempt(2, 3), {}, add, kind=kind, key_fields=FIELDS)
            assert await read_values(counts) == {}
            await second.update(attempt(2, 3), {("a", 1): 1}, add, kind=kind, key_fields=FIELDS)
        await first.update(attempt(3, 4), {("b", 2): 1}, add, kind=kind, key_fields=FIELDS)
    assert await read_values(counts) == {("a", 1): 1, ("b", 2): 1}


KEYS: list[tuple[Any, ...]] = [
    ("é'\"; --", 7, 2.5, True, Decimal("1.10"), b"\0\xff", NOON, datetime(2024, 5, 1, 12), UUID(int=5)),
    ("", -(2**63), -1e300, False, Decimal("-1E+30"), b"", NOON + timedelta(microseconds=1), datetime(1, 1, 1), UUID(int=0)),
    ("日本\x1f", 2**63 - 1, float("inf"), True, Decimal("1E-40"), b"x" * 300, datetime(1969, 1, 1, tzinfo=UTC), datetime(9999, 1, 1),
     UUID(int=9)),
]  # fmt: skip
ALL = ("text", "int", "float", "bool", "numeric", "bytes", "moment", "local", "uuid")


@KINDS
async def test_all_types_are_read_back_equal_and_undone(place: Place, kind: Any) -> None:
    counts = place.make()
    given = {key: number for number, key in enumerate(KEYS, 1)}
    async with open_values(counts) as values:
        await values.update(attempt(1, 1), {KEYS[0]: 1}, add, kind=kind, key_fields=ALL)
        await values.update(attempt(2, 2), given, add, kind=kind, key_fields=ALL)
        await values.update(attempt(2, 3), given, add, kind=kind, key_fields=ALL)
        assert await values.get_many(given) == {**given, KEYS[0]: 2}
    found = await read_values(counts)
    assert found == {**given, KEYS[0]: 2}
    assert {tuple(map(type, key)) for key in found} == {tuple(map(type, KEYS[0]))}
    for at, name in ((6, "moment"), (7, "local")):
        in_order = [row[0] for row in await place.rows(f"SELECT {name} FROM counts ORDER BY {name}")]
        times = [datetime.fromisoformat(time) if isinstance(time, str) else time for time in in_order]
        assert times == sorted(key[at] for key in KEYS)


async def test_postgresql_gives_each_type_its_column(new_database: str) -> None:
    place = Place(new_database, lambda: PostgresValues(new_database, "counts"))
    async with open_values(place.make()) as values:
        await values.update(attempt(1, 1), {KEYS[0]: 1}, add, key_fields=ALL)
    columns = await place.rows(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'counts' ORDER BY ordinal_position"
    )
    assert dict(columns[:9]) == {
        "text": "text", "int": "bigint", "float": "double precision", "bool": "boolean", "numeric": "numeric", "bytes": "bytea",
        "moment": "timestamp with time zone", "local": "timestamp without time zone", "uuid": "uuid",
    }  # fmt: skip


async def test_equal_keys_share_one_row(place: Place) -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=9)))
    async with open_values(place.make()) as values:
        await values.update(attempt(1, 1), {(1, 2.0, NOON, Decimal("1.5")): 1}, add, key_fields=("a", "b", "c", "d"))
        await values.update(attempt(2, 2), {(True, 2, elsewhere, 1.5): 1}, add, key_fields=("a", "b", "c", "d"))
        await values.update(attempt(3, 3), {(1.0, Decimal(2), NOON, Decimal("1.500")): 1}, add, key_fields=("a", "b", "c", "d"))
    assert await read_values(place.make()) == {(1, 2.0, NOON, Decimal("1.5")): 3}


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (
            ("ada", "seven"),
            r"the field 'hour' of the key \('ada', 'seven'\) is 'seven' \(str\), but the map's column 'hour' is bigint, for int",
        ),
        (("ada", 7.5), "is 7.5 \\(float\\)"),
        (("ada", 2**63), "is 9223372036854775808 \\(int\\)"),
        (("ada", None), "the field 'hour' of the key .* is None"),
        ((7, 7), "the field 'user' of the key .* is 7 \\(int\\), but the map's column 'user' is text"),
        (("a\0b", 7), "the field 'user'"),
        (("\ud800", 7), "the field 'user'"),
        (("ada", float("nan")), "is nan"),
        (("ada", (1, 2)), "is \\(1, 2\\) \\(tuple\\)"),
        (("ada",), "whose keys have the fields user, hour"),
        ("ada", "whose keys have the fields user, hour"),
    ],
)
async def test_a_later_key_of_another_type_is_refused_and_changes_nothing(place: Place, key: Any, says: str) -> None:
    async with open_values(place.make()) as values:
        await values.update(attempt(1, 1), {("ada", 7): 1}, add, key_fields=FIELDS)
        with pytest.raises(ValueRefused, match=says) as caught:
            await values.update(attempt(2, 2), {("bob", 7): 1, key: 1}, add, key_fields=FIELDS)
        assert caught.value.hint
        await values.update(attempt(2, 3), {("bob", 7): 1}, add, key_fields=FIELDS)
    assert await read_values(place.make()) == {("ada", 7): 1, ("bob", 7): 1}


async def test_the_type_of_none_is_unknown(place: Place) -> None:
    async with open_values(place.make()) as values:
        with pytest.raises(ValueRefused, match=r"the field 'hour' of the key .* is None, and it is the first key") as caught:
            await values.update(attempt(1, 1), {("ada", None): 1}, add, key_fields=FIELDS)
        assert "columns=False" in (caught.value.hint or "")
    async with open_values(place.make("encoded", columns=False)) as values:
        await values.update(attempt(1, 1), {("ada", None): 1, ("ada", 7): 1, (7, "x"): 1}, add, key_fields=FIELDS)
    assert await read_values(place.make("encoded")) == {("ada", None): 1, ("ada", 7): 1, (7, "x"): 1}


async def test_ints_beyond_64_bits_and_nested_tuples_as_the_first_key(place: Place) -> None:
    async with open_values(place.make("big")) as values:
        await values.update(attempt(1, 1), {("ada", 2**70): 1, ("ada", 3): 2}, add, key_fields=FIELDS)
    assert await read_values(place.make("big")) == {("ada", 2**70): 1, ("ada", 3): 2}
    assert [int(hour) for (hour,) in await place.rows("SELECT hour FROM big WHERE value IS NOT NULL ORDER BY value")] == [2**70, 3]
    async with open_values(place.make("nested")) as values:
        await values.update(attempt(1, 1), {("ada", (1, 2)): 1}, add, key_fields=FIELDS)
    assert await read_values(place.make("nested")) == {("ada", (1, 2)): 1}
    assert len(await place.rows("SELECT key FROM nested")) == 1


async def test_a_map_of_one_encoded_column_is_continued_and_told_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Given a map that was written before there were columns."""
    async with open_values(place.make()) as values:
        await values.update(attempt(1, 1), {("ada", 7): 1, ("bob", 8): 2}, add)
    caplog.set_level(logging.INFO)
    async with open_values(place.make()) as first, open_values(place.make(), task_index=1) as second:
        for txid in (2, 3):
            await first.update(attempt(txid, txid), {("ada", 7): 1}, add, key_fields=FIELDS)
            await second.update(attempt(txid, txid), {("bob", 8): 1}, add, key_fields=FIELDS)
    assert await read_values(place.make()) == {("ada", 7): 3, ("bob", 8): 4}
    assert len(await place.rows("SELECT key FROM counts")) == 2
    told = [record.getMessage() for record in caplog.records if "encoded column" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith(f"{place.make()} keeps its keys in one encoded column")
    assert told[0].endswith("user, hour")


async def test_one_field_keeps_a_readable_column(place: Place) -> None:
    for name, key in (("texts", "ada"), ("numbers", 7), ("times", NOON), ("ids", UUID(int=7))):
        async with open_values(place.make(name)) as values:
            await values.update(attempt(1, 1), {key: 1}, add, key_fields=("field",))
        assert await read_values(place.make(name)) == {key: 1}
        async with place.make(name).reader() as reader:
            assert await reader.get(key) == 1
    assert await place.rows("SELECT key FROM texts") == [("ada",)]
    assert await place.rows(f"SELECT {'key' if _is_sqlite(place) else 'field'} FROM numbers") == [(7,)]
    assert await place.rows("SELECT field FROM times") == [("2024-05-01 12:00:00.000000+00:00",) if _is_sqlite(place) else (NOON,)]
    assert await place.rows("SELECT CAST(field AS text) FROM ids") == [(str(UUID(int=7)),)]


@pytest.mark.parametrize(
    ("fields", "columns"),
    [
        (("value", "txid"), ("key_value", "key_txid")),
        (("a b", 'c"d'), ("a b", 'c"d')),
        (("key", "select"), ("key", "select")),
        (("User", "user"), ("key_1", "key_2")),
        (("é" * 40, "x"), ("key_1", "key_2")),
    ],
)
@KINDS
async def test_any_field_name_has_a_column(place: Place, kind: Any, fields: tuple[str, ...], columns: tuple[str, ...]) -> None:
    async with open_values(place.make()) as values:
        await values.update(attempt(1, 1), {("a", 1): 1}, add, kind=kind, key_fields=fields)
        await values.update(attempt(1, 2), {("a", 1): 1}, add, kind=kind, key_fields=fields)
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    assert await place.rows(f"SELECT {quoted} FROM counts") == [("a", 1)]
    assert await read_values(place.make()) == {("a", 1): 1}


@KINDS
async def test_many_keys_are_written_and_read(place: Place, kind: Any) -> None:
    many = {(f"user {number % 50}", number): number for number in range(12_000)}
    async with open_values(place.make()) as values:
        assert await values.update(attempt(1, 1), many, add, kind=kind, key_fields=FIELDS) == many
        assert await values.update(attempt(1, 2), many, add, kind=kind, key_fields=FIELDS) == many
        assert len(await values.get_many(many)) == 12_000
    assert await read_values(place.make()) == many


async def test_a_table_that_was_dropped_or_changed_is_never_made_anew(place: Place) -> None:
    async with open_values(place.make()) as values:
        await values.update(attempt(1, 1), {("ada", 7): 1}, add, key_fields=FIELDS)
    await place.rows("DROP TABLE counts")
    async with open_values(place.make()) as values:
        with pytest.raises(FatalError, match="is gone"):
            await values.update(attempt(2, 2), {("ada", 7): 1}, add, key_fields=FIELDS)
    await place.rows("CREATE TABLE counts (a integer, value text)")
    await place.rows("INSERT INTO counts VALUES (1, 'precious')")
    async with open_values(place.make()) as values:
        with pytest.raises(FatalError, match="another program changed"):
            await values.update(attempt(2, 3), {("ada", 7): 1}, add, key_fields=FIELDS)
    assert await place.rows("SELECT * FROM counts") == [(1, "precious")]


async def test_a_committer_with_a_key_of_its_own_keeps_the_encoded_column(place: Place) -> None:
    class ByDay(ReducingCommitter[Any, int, int]):
        values = place.make()
        keyed_by = FIELDS

        def key(self, tup: Any) -> Any:
            return (tup["user"], tup["hour"] // 24, "day")

        def fold(self, partial: int | None, tup: Any) -> int:
            return (partial or 0) + 1

        def combine(self, stored: int | None, partial: int) -> int:
            return add(stored, partial)

    builder = TransactionalTopologyBuilder("visits", "in", MemoryTransactionalSpout([("ada", 7), ("ada", 25)], FIELDS, take=20))
    builder.set_committer("count", ByDay, 2).fields_grouping("in", *FIELDS)
    async with engine.run(builder.build()) as run:
        await run.completed()
    assert await read_values(place.make()) == {("ada", 0, "day"): 1, ("ada", 1, "day"): 1}
    assert len(await place.rows("SELECT key FROM counts")) == 2
