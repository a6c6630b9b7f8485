"""Parts of SQL statements that PostgreSQL and SQLite share."""

from collections.abc import Iterable, Sequence
from typing import Final

from spark_bridge.sinks.batch import SinkError

BATCHES: Final = "stormcell_batches"
"""Table with the newest micro-batch of each query."""


def quoted(name: str) -> str:
    """Return a quoted name.

    >>> print(quoted("page"))
    "page"
    """
    return '"' + name.replace('"', '""') + '"'


def column_list(names: Iterable[str]) -> str:
    """Return quoted names, separated by commas.

    >>> column_list(["page", "hits"])
    '"page", "hits"'
    """
    return ", ".join(map(quoted, names))


def columns_of(key: str | Sequence[str]) -> tuple[str, ...]:
    """Return the columns of `key`, which may be a single name."""
    return (key,) if isinstance(key, str) else tuple(key)


def on_conflict(key: str | Sequence[str], names: Iterable[str]) -> str:
    """Return the clause of an INSERT that replaces an existing row. Empty without a key.

    >>> on_conflict("page", ["page", "hits"])
    'ON CONFLICT ("page") DO UPDATE SET "hits" = excluded."hits"'
    """
    columns = columns_of(key)
    if not columns:
        return ""
    changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in columns)
    return f"ON CONFLICT ({column_list(columns)}) DO {f'UPDATE SET {changed}' if changed else 'NOTHING'}"


def check_columns(where: str, existing: Sequence[str], names: Iterable[str]) -> None:
    """Raise SinkError if a table lacks some of these columns. `where`: database and table, for the error."""
    missing = [name for name in names if name not in existing]
    if missing:
        text = f"{where} has no column {', '.join(missing)} (its columns are {', '.join(existing)})"
        raise SinkError(text, hint="Add the columns (ALTER TABLE), drop them from the query with select(), or write to another table.")
