"""Statements for the two forms of a map's keys in SQLite: one column `key`, or a typed column for each field."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from engine.errors import StateDamaged
from engine.state.key_columns import (
    BOOL,
    KEY_TYPES,
    KEY_UUID,
    NUMERIC,
    TIMESTAMP,
    TIMESTAMPTZ,
    KeyColumn,
    KeyColumns,
    KeyType,
    plain_digits,
)
from engine.state.row_codecs import SqliteCodec
from engine.state.values import RESTORE, KeyCodec, Raw


def _time_text(value: datetime) -> str:
    return value.isoformat(" ", "microseconds")


_TO_SQLITE: Final[Mapping[KeyType, Callable[[Any], Any]]] = {
    BOOL: int,
    NUMERIC: plain_digits,
    TIMESTAMPTZ: _time_text,
    TIMESTAMP: _time_text,
    KEY_UUID: str,
}
"""Types that SQLite lacks. The texts have one form for each value, and those of times sort by time."""
_FROM_SQLITE: Final[Mapping[KeyType, Callable[[Any], Any]]] = {
    BOOL: bool,
    NUMERIC: Decimal,
    TIMESTAMPTZ: datetime.fromisoformat,
    TIMESTAMP: datetime.fromisoformat,
    KEY_UUID: UUID,
}


class KeyForm(ABC):
    """One form of the keys."""

    codec: KeyCodec
    names: str
    """The key columns."""
    columns: str
    """The key columns with their types."""
    primary_key: str
    """The constraint behind all columns."""
    width: int
    """Number of key columns."""

    @abstractmethod
    def stored(self, keys: Sequence[Raw]) -> list[Sequence[Any]]:
        """Return the values of the key columns for each key."""

    @abstractmethod
    def raw(self, values: Sequence[Any]) -> Raw:
        """Return the key of a row, from the values of its key columns."""

    def among(self, count: int) -> str:
        """Return a condition that is true for the rows of so many keys."""
        mark = f"({', '.join('?' * self.width)})"
        return f"({self.names}) IN (VALUES {', '.join([mark] * count)})"


class EncodedKey(KeyForm):
    """One column `key`. Simple keys are stored as they are."""

    names = "key"
    columns = "key PRIMARY KEY NOT NULL"
    primary_key = ""
    width = 1

    def __init__(self, codec: SqliteCodec) -> None:
        self.codec = codec

    def stored(self, keys: Sequence[Raw]) -> list[Sequence[Any]]:
        return [(key,) for key in keys]

    def raw(self, values: Sequence[Any]) -> Raw:
        return values[0]

    def among(self, count: int) -> str:
        return f"key IN ({', '.join('?' * count)})"


class TypedKey(KeyForm):
    """A typed column for each field."""

    def __init__(self, columns: KeyColumns) -> None:
        self.codec = columns
        self.width = len(columns.columns)
        self.names = ", ".join(columns.quoted)
        defined = [f"{name} {column.type.sqlite} NOT NULL" for name, column in zip(columns.quoted, columns.columns, strict=True)]
        self.columns = ", ".join(defined)
        self.primary_key = f", PRIMARY KEY ({self.names})"
        types = [column.type for column in columns.columns]
        self._to = [(at, _TO_SQLITE[kind]) for at, kind in enumerate(types) if kind in _TO_SQLITE]
        self._from = [(at, _FROM_SQLITE[kind]) for at, kind in enumerate(types) if kind in _FROM_SQLITE]

    def stored(self, keys: Sequence[Raw]) -> list[Sequence[Any]]:
        return [self._converted(key, self._to) for key in keys] if self._to else list(keys)

    def raw(self, values: Sequence[Any]) -> Raw:
        return self._converted(values, self._from)

    def _converted(self, values: Sequence[Any], conversions: list[tuple[int, Callable[[Any], Any]]]) -> tuple[Any, ...]:
        converted = list(values)
        try:
            for at, convert in conversions:
                converted[at] = convert(converted[at])
        except (ValueError, TypeError, ArithmeticError) as error:
            raise StateDamaged(f"the key {tuple(values)!r} of a map cannot be read: {error}"[:400], hint=RESTORE) from None
        return tuple(converted)


def stored_form(connection: sqlite3.Connection, table: str, encoded: EncodedKey) -> KeyForm | None:
    """Return the form of a map's table, None if there is no table, or one whose first key is still to come."""
    found = sorted((place, name, kind) for _, name, kind, _, _, place in connection.execute(f'PRAGMA table_info("{table}")') if place)
    if not found:
        return None
    if [(name, kind) for _, name, kind in found] == [("key", "")]:
        return encoded
    types = {kind.sqlite: kind for kind in KEY_TYPES}
    unknown = [f"{name!r} {kind}" for _, name, kind in found if kind not in types]
    if unknown:
        raise StateDamaged(f"the table of the map {table!r} has key columns of unknown types: {', '.join(unknown)}", hint=RESTORE)
    return TypedKey(KeyColumns(tuple(KeyColumn(name, types[kind]) for _, name, kind in found)))


@lru_cache
def selection(table: str, form: KeyForm, keys: int) -> str:
    """Return a SELECT of the rows of so many keys."""
    return f'SELECT {form.names}, txid, value, previous FROM "{table}" WHERE {form.among(keys)}'


@lru_cache
def insertion(table: str, form: KeyForm, rows: int, is_opaque: bool) -> str:
    """Return an INSERT. ?1 is the txid, ?2 the attempt. A transactional row of this or a newer txid stays."""
    columns = form.width + (2 if is_opaque else 1)
    values = ", ".join(_row(first, form.width, is_opaque) for first in range(3, 3 + rows * columns, columns))
    changed = "attempt = ?2, previous = excluded.previous" if is_opaque else "attempt = NULL WHERE txid < ?1"
    return f'INSERT INTO "{table}" VALUES {values} ON CONFLICT DO UPDATE SET value = excluded.value, txid = ?1, {changed}'


def _row(first: int, width: int, is_opaque: bool) -> str:
    marks = [f"?{first + at}" for at in range(width + 1)]
    previous = f"?{first + width + 1}" if is_opaque else "NULL"
    return f"({', '.join(marks)}, ?1, ?2, {previous})"
