"""What the sinks into a database write in SQL: PostgreSQL and SQLite read it alike."""

from collections.abc import Iterable, Sequence
from typing import Final

from spark_bridge.sinks.batch import SinkError

BATCHES: Final = "stormcell_batches"
"""The table of the newest micro-batch of each query."""


def quoted(name: str) -> str:
    """Return a name as it stands in a statement.

    >>> print(quoted("page"))
    "page"
    """
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Return names with commas between them.

    >>> listed(["page", "hits"])
    '"page", "hits"'
    """
    return ", ".join(map(quoted, names))


def columns_of(key: str | Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a `key`, which may be one name."""
    return (key,) if isinstance(key, str) else tuple(key)


def on_conflict(key: str | Sequence[str], names: Iterable[str]) -> str:
    """Return what an INSERT of these columns says of a row that is there; nothing where there is no key.

    >>> on_conflict("page", ["page", "hits"])
    'ON CONFLICT ("page") DO UPDATE SET "hits" = excluded."hits"'
    """
    columns = columns_of(key)
    if not columns:
        return ""
    changed = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in columns)
    return f"ON CONFLICT ({listed(columns)}) DO {f'UPDATE SET {changed}' if changed else 'NOTHING'}"


def check_columns(where: str, there: Sequence[str], names: Iterable[str]) -> None:
    """Raise SinkError where a table lacks some of these columns. `where`: the database and the table."""
    missing = [name for name in names if name not in there]
    if missing:
        text = f"{where} has the columns {', '.join(there)}, and not {', '.join(missing)}"
        raise SinkError(text, hint="Write to another table, add the columns (ALTER TABLE), or leave them out with select().")
