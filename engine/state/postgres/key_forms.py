"""Statements for the two forms of a map's keys in PostgreSQL: one encoded text column, or a typed column for each field."""

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from engine.errors import StateError
from engine.state.key_columns import KEY_TYPES, KEY_UUID, KeyColumn, KeyColumns
from engine.state.row_codecs import SEPARATOR, TextCodec
from engine.state.values import KeyCodec, Raw

LIST: Final = "(string_to_array({text}, E'\\x1f'))[2:]"
"""Splits a text that `joined` has joined."""
Argument = Callable[[object], str]
"""Adds an argument to a statement, and returns its placeholder."""
_KEY: Final = """
SELECT attribute.attname::text, format_type(attribute.atttypid, NULL) FROM pg_index AS index,
    unnest(index.indkey::int2[]) WITH ORDINALITY AS part(number, place), pg_attribute AS attribute
    WHERE index.indrelid = to_regclass(quote_ident($1)) AND index.indisprimary
        AND attribute.attrelid = index.indrelid AND attribute.attnum = part.number ORDER BY place
"""
_COLUMNS: Final = """
SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass(quote_ident($1)) AND attnum > 0 AND NOT attisdropped
"""


class KeyForm(ABC):
    """One form of the keys."""

    codec: KeyCodec
    names: str
    """The key columns."""
    columns: str
    """The key columns with their types."""
    primary_key: str
    """The constraint behind all columns."""

    @abstractmethod
    def unnested(self, keys: Sequence[Raw], argument: Argument) -> str:
        """Return the items of a SELECT that gives these keys as rows."""

    @abstractmethod
    def among(self, keys: Sequence[Raw], argument: Argument) -> str:
        """Return a condition that is true for the rows of these keys."""

    @abstractmethod
    def packed(self, keys: Sequence[Raw]) -> str:
        """Return keys as a text for the journal."""

    written: str
    """An item of a SELECT that gives the keys in `journal.keys` as rows."""
    unpacked: str
    """The values of the key columns of `written`."""

    @abstractmethod
    def raw(self, values: Sequence[Any]) -> Raw:
        """Return the key of a row, from the values of its key columns."""


class EncodedKey(KeyForm):
    """One column `key` of encoded keys."""

    names = "key"
    columns = 'key text COLLATE "C" PRIMARY KEY'
    primary_key = ""
    written = f"unnest({LIST.format(text='journal.keys')}) AS written"
    unpacked = "written"

    def __init__(self, codec: TextCodec) -> None:
        self.codec = codec

    def unnested(self, keys: Sequence[Raw], argument: Argument) -> str:
        return f"unnest({LIST.format(text=argument(joined(keys)) + '::text')}) AS key"

    def among(self, keys: Sequence[Raw], argument: Argument) -> str:
        return f"key = ANY({LIST.format(text=argument(joined(keys)) + '::text')})"

    def packed(self, keys: Sequence[Raw]) -> str:
        return joined(keys)

    def raw(self, values: Sequence[Any]) -> Raw:
        return values[0]


class TypedKey(KeyForm):
    """A typed column for each field."""

    def __init__(self, columns: KeyColumns) -> None:
        self.codec = columns
        self._types = [column.type.postgres for column in columns.columns]
        self._quoted = columns.quoted
        self._uuids = [at for at, column in enumerate(columns.columns) if column.type is KEY_UUID]
        self.names = ", ".join(self._quoted)
        defined = [
            f"{name} {kind}{COLLATE if kind == 'text' else ''} NOT NULL" for name, kind in zip(self._quoted, self._types, strict=True)
        ]
        self.columns = ", ".join(defined)
        self.primary_key = f", PRIMARY KEY ({self.names})"
        self.written = "jsonb_array_elements(journal.keys::jsonb) AS written"
        self.unpacked = ", ".join(f"(written->>{at})::{kind}" for at, kind in enumerate(self._types))

    def unnested(self, keys: Sequence[Raw], argument: Argument) -> str:
        arrays = self._arrays(keys, argument)
        return ", ".join(f"unnest({array}) AS {name}" for array, name in zip(arrays, self._quoted, strict=True))

    def among(self, keys: Sequence[Raw], argument: Argument) -> str:
        return f"({self.names}) IN (SELECT * FROM unnest({', '.join(self._arrays(keys, argument))}))"

    def _arrays(self, keys: Sequence[Raw], argument: Argument) -> list[str]:
        columns: Any = zip(*keys, strict=True) if keys else [()] * len(self._types)
        return [f"{argument(list(values))}::{kind}[]" for values, kind in zip(columns, self._types, strict=True)]

    def packed(self, keys: Sequence[Raw]) -> str:
        return json.dumps([list(map(_as_text, key)) for key in keys], ensure_ascii=False)

    def raw(self, values: Sequence[Any]) -> Raw:
        if not self._uuids:
            return tuple(values)
        plain = list(values)
        for at in self._uuids:
            plain[at] = UUID(int=plain[at].int)  # asyncpg has a class of its own
        return tuple(plain)


COLLATE: Final = ' COLLATE "C"'


def _as_text(value: object) -> str:
    """Return a text that PostgreSQL casts to the same value."""
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return value.isoformat() if isinstance(value, datetime) else str(value)


async def stored_form(fetch: Callable[..., Awaitable[list[Any]]], table: str, encoded: EncodedKey) -> KeyForm | None:
    """Return the form of a map's table, None if there is no table, or one whose first key is still to come."""
    found = [tuple(row) for row in await fetch(_KEY, table)]
    if not found:
        return None
    if found == [("key", "text")]:
        return encoded
    types = {kind.postgres: kind for kind in KEY_TYPES}
    for name, kind in found:
        if kind not in types:
            text = f"another program changed the table of the map {table!r}: its key column {name!r} is {kind}"
            raise StateError(text, hint="Give the column its former type, or give the map another name.")
    return TypedKey(KeyColumns(tuple(KeyColumn(name, types[kind]) for name, kind in found)))


async def columns_of(fetch: Callable[..., Awaitable[list[Any]]], table: str) -> list[str]:
    """Return the names of a table's columns, empty if there is no table."""
    return [row[0] for row in await fetch(_COLUMNS, table)]


def joined(items: Sequence[Raw]) -> str:
    """Join items to one text, with a separator before each item. None becomes an empty item."""
    listed = ["" if item is None else item for item in items] if None in items else items
    return SEPARATOR + SEPARATOR.join(listed) if items else ""
