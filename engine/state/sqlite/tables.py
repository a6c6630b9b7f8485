"""Tables of a state file, and the detection of damage (docs/decisions/0002, "Checksums").

Rows and deltas arrive with checksums. Triggers count them by component and by slot or task, so that a missing one is detected. Entries of
ledgers have checksums. The table `sums` has a checksum over topologies, components and epochs.
"""

import sqlite3
from collections.abc import Iterator
from typing import Final
from zlib import crc32

from engine.state.checksums import DamagedBlock, add_checksum, place_sum, strip_checksum

FORMAT: Final = 2
"""Format of the tables, stored as `user_version`. Format 1 had no checksums and no counts."""

FIRST_TABLES: Final = """
CREATE TABLE topologies (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE components (id INTEGER PRIMARY KEY, topology INTEGER NOT NULL REFERENCES topologies, name TEXT NOT NULL,
    UNIQUE (topology, name));
CREATE TABLE ledgers (topology INTEGER NOT NULL, ledger TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (topology, ledger, name)) WITHOUT ROWID;
CREATE TABLE epochs (topology INTEGER NOT NULL, ledger TEXT NOT NULL, epoch INTEGER NOT NULL, PRIMARY KEY (topology, ledger)) WITHOUT ROWID;
CREATE TABLE deltas (component INTEGER NOT NULL, task INTEGER NOT NULL, txid INTEGER NOT NULL, round INTEGER NOT NULL,
    part INTEGER NOT NULL, parts INTEGER NOT NULL, blob BLOB NOT NULL, PRIMARY KEY (component, task, txid, round, part));
CREATE TABLE rows (component INTEGER NOT NULL, slot INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (component, slot, key)) WITHOUT ROWID
"""


def _counting(table: str, place: str) -> str:
    """Return triggers that count the rows of a table. An upsert of an existing row fires none of them."""
    return f"""
CREATE TRIGGER {table}_come AFTER INSERT ON {table} BEGIN INSERT INTO counts VALUES ('{table}', new.component, new.{place}, 1)
    ON CONFLICT DO UPDATE SET number = number + 1; END;;
CREATE TRIGGER {table}_go AFTER DELETE ON {table} BEGIN UPDATE counts SET number = number - 1
    WHERE (kind, component, place) = ('{table}', old.component, old.{place}); END
"""


_SECOND_TABLES: Final = f"""
CREATE TABLE sums (name TEXT PRIMARY KEY, sum INTEGER NOT NULL) WITHOUT ROWID;;
CREATE TABLE counts (kind TEXT NOT NULL, component INTEGER NOT NULL, place INTEGER NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (kind, component, place)) WITHOUT ROWID;;
{_counting("rows", "slot")};;
{_counting("deltas", "task")}
"""
STATEMENTS: Final = {
    1: tuple(text.strip() for text in FIRST_TABLES.split(";\n")),
    2: tuple(text.strip() for text in (*FIRST_TABLES.split(";\n"), *_SECOND_TABLES.split(";;\n"))),
}
"""Statements that create the tables, by format."""
_COUNTED: Final = """
SELECT 'rows', component, slot, count(*) FROM rows GROUP BY 2, 3
    UNION ALL SELECT 'deltas', component, task, count(*) FROM deltas GROUP BY 2, 3
"""
_LOST_KEYS: Final = "SELECT component, slot, typeof(key) FROM rows WHERE key <= x'' LIMIT 1"
"""A row that no search for keys finds. Numbers and texts are less than any bytes, and no key is empty."""
_CATALOGUE: Final = (
    "SELECT id, name FROM topologies ORDER BY id",
    "SELECT id, topology, name FROM components ORDER BY id",
    "SELECT topology, ledger, epoch FROM epochs ORDER BY topology, ledger",
)


def make_tables(writer: sqlite3.Connection) -> None:
    """Create the tables in an empty file."""
    for statement in STATEMENTS[FORMAT]:
        writer.execute(statement)
    note_catalogue(writer)


def upgrade(writer: sqlite3.Connection) -> None:
    """Upgrade tables of format 1. Rows and deltas get checksums only when they are written again."""
    for statement in STATEMENTS[FORMAT][len(STATEMENTS[1]) :]:
        writer.execute(statement)
    writer.execute(f"INSERT INTO counts {_COUNTED}")
    entries = writer.execute("SELECT topology, ledger, name, value FROM ledgers").fetchall()
    sums = [(add_checksum(value, entry_sum(*place)), *place) for *place, value in entries]
    writer.executemany("UPDATE ledgers SET value = ? WHERE (topology, ledger, name) = (?, ?, ?)", sums)
    note_catalogue(writer)


def entry_sum(topology: int, ledger: str, name: str) -> int:
    """Return the sum of the place of a ledger entry."""
    return place_sum("entry", topology, ledger, name)


def note_catalogue(writer: sqlite3.Connection) -> None:
    """Update the checksum over topologies, components and epochs. Call it in the transaction that changes them."""
    writer.execute("INSERT INTO sums VALUES ('catalogue', ?) ON CONFLICT DO UPDATE SET sum = excluded.sum", (_catalogue_sum(writer),))


def _catalogue_sum(connection: sqlite3.Connection) -> int:
    total = 0
    for statement in _CATALOGUE:
        total = crc32(repr(connection.execute(statement).fetchall()).encode(), total)
    return total


def faults(connection: sqlite3.Connection, format_: int) -> Iterator[str]:
    """Yield descriptions of damage outside rows and deltas. The caller has begun a transaction."""
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())
    for statement in STATEMENTS[format_]:
        name = statement.split(maxsplit=3)[2]
        if found.get(name) != statement:
            yield f"the definition of {name!r} has changed"
            return  # the following checks would query it
    for component, slot, kind in connection.execute(_LOST_KEYS):
        what = "an empty key" if kind == "blob" else f"a key of type {kind}, not bytes"
        yield f"a row of component {_component_of(connection, component)}, key group or task {slot}, has {what}"
    if format_ < FORMAT:
        return
    if connection.execute("SELECT sum FROM sums WHERE name = 'catalogue'").fetchall() != [(_catalogue_sum(connection),)]:
        yield "the checksum over its topologies, components and epochs does not match"
    for topology, ledger, name, value in connection.execute("SELECT topology, ledger, name, value FROM ledgers"):
        try:
            strip_checksum(value, entry_sum(topology, ledger, name))
        except DamagedBlock as error:
            yield f"the entry {name!r} of the ledger {ledger!r} of topology {_name_of(connection, topology)}: {error}"
    counted = set(connection.execute(_COUNTED))
    noted = set(connection.execute("SELECT kind, component, place, number FROM counts WHERE number <> 0"))
    for kind, component, place, _ in sorted(counted ^ noted, key=repr)[:1]:
        where = f"{'key group or task' if kind == 'rows' else 'task'} {place}"
        yield f"{kind} of component {_component_of(connection, component)}, {where}, are missing, or there are too many"


def _name_of(connection: sqlite3.Connection, topology: object) -> str:
    found = connection.execute("SELECT name FROM topologies WHERE id = ?", (topology,)).fetchall()
    return repr(found[0][0]) if found else f"number {topology}"


def _component_of(connection: sqlite3.Connection, component: object) -> str:
    found = connection.execute("SELECT name FROM components WHERE id = ?", (component,)).fetchall()
    return repr(found[0][0]) if found else f"number {component}"
