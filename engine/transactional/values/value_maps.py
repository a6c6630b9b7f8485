"""Descriptions of maps of values, by database. Tasks open them, and other programs read through them."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from engine.api import TaskContext
from engine.api.fields import short_repr
from engine.errors import StateError, StateUnavailable, UsageError
from engine.names import did_you_mean
from engine.state.hosts import shown_url
from engine.state.memory import MemoryTable, MemoryValueStore
from engine.state.providers import client_import, sqlite_path
from engine.state.values import ValuesMismatch, ValueStore
from engine.transactional.values.open_values import OpenValues, ValuesReader

EXAMPLES: Final = "memory://, sqlite:///counts.db, redis://host:6379/0 or postgresql://user:password@host:5432/database"
LONGEST_NAME: Final = 48


class ValueMap(ABC):
    """A map of values in a database. It is a Resource, which `self.resources.opened` opens for a task."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name)

    async def open(self, context: TaskContext) -> OpenValues[Any, Any]:
        """Open the map for a task. The engine calls it.

        Raises StateUnavailable at once if the database cannot be reached, and ValuesMismatch for any other error of the store.
        """
        try:
            store = await self.store(make=True)
        except StateUnavailable:
            raise
        except StateError as error:
            raise ValuesMismatch(error.message, hint=error.hint) from error
        return OpenValues(store, context, str(self))

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[ValuesReader[Any, Any]]:
        """Open the map to read, in any program: `async with values.reader() as words: await words.get("storm")`."""
        reader: ValuesReader[Any, Any] = ValuesReader(await self.store(make=False))
        try:
            yield reader
        finally:
            await reader.close()

    @abstractmethod
    async def store(self, *, make: bool) -> ValueStore:
        """Connect to the database. make: create missing files and tables."""

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass(frozen=True, eq=False)
class MemoryValues(ValueMap):
    """A map in memory that exists as long as this object. For tests and first runs."""

    name: str = "values"
    _table: MemoryTable = field(default_factory=MemoryTable, repr=False)

    async def store(self, *, make: bool) -> ValueStore:
        return MemoryValueStore(self._table)

    def __reduce__(self) -> NoReturn:
        """Raise TypeError, because a copy in another process would be another map."""
        raise TypeError(f"{self} exists in one process only. Use a map of a database, such as SqliteValues")

    def __str__(self) -> str:
        return f"the map {self.name!r} in memory"


@dataclass(frozen=True)
class SqliteValues(ValueMap):
    """A map in a SQLite file, in the table `name`, with the key and a column `value`. The file contains only such maps.

    A key of several fields has a typed column for each, named like the field. A key of one field has the column `key` for texts and
    numbers, and one named like the field for all other types.
    """

    path: str | Path
    name: str
    columns: bool = field(default=True, kw_only=True, repr=False)
    """False: a new map has one column of encoded keys, which may be of any type. A map that exists keeps its form."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if "\0" in str(self.path):
            raise UsageError(f"{str(self.path)!r} is not a file path", hint="Remove the NUL characters.")

    async def store(self, *, make: bool) -> ValueStore:
        from engine.state.sqlite.values import check_there, sqlite_store  # imports the database client on first use

        path = Path(self.path)
        if not make:
            check_there(path)
        return await sqlite_store(path, self.name, columns=self.columns)

    def __str__(self) -> str:
        return f"the map {self.name!r} in {str(self.path)!r}"


@dataclass(frozen=True)
class RedisValues(ValueMap):
    """A map in Redis, in the hash `{prefix/name}:values` with a field for each key. The URL is like that of a state provider."""

    url: str = field(repr=False)
    name: str

    async def store(self, *, make: bool) -> ValueStore:
        with client_import("redis", "RedisValues needs the client of Redis"):
            from engine.state.redis.values import redis_store
        return await redis_store(self.url, self.name)

    def __str__(self) -> str:
        return f"the map {self.name!r} at {shown_url(self.url)}"


@dataclass(frozen=True)
class PostgresValues(ValueMap):
    """A map in PostgreSQL, in the table `name` with the key and `value` as jsonb.

    A key of several fields has a typed column for each, named like the field. A key of one field has the column `key` if it is a text, and
    one named like the field for all other types. The table is in the first schema of the user's search path.
    """

    url: str = field(repr=False)
    name: str
    columns: bool = field(default=True, kw_only=True, repr=False)
    """False: a new map has one text column of encoded keys, which may be of any type. A map that exists keeps its form."""

    async def store(self, *, make: bool) -> ValueStore:
        with client_import("asyncpg", "PostgresValues needs asyncpg", extra="postgres"):
            from engine.state.postgres.values import postgres_store
        return await postgres_store(self.url, self.name, make=make, columns=self.columns)

    def __str__(self) -> str:
        return f"the map {self.name!r} at {shown_url(self.url)}"


def values_at(url: str, name: str) -> ValueMap:
    """Return the map of this name in the database of a URL.

    >>> values_at("sqlite:///counts.db", "words")
    SqliteValues(path=PosixPath('counts.db'), name='words')
    """
    scheme = url.partition(":")[0].lower()
    if url == "memory://":
        return MemoryValues(name)
    if scheme == "sqlite":
        path = sqlite_path(url)
        if path is None:
            raise StateError(f"{url!r} names no file", hint="Three slashes, then the path: sqlite:///counts.db or sqlite:////var/counts.db")
        return SqliteValues(path, name)
    if scheme in ("redis", "rediss"):
        return RedisValues(url, name)
    if scheme in ("postgresql", "postgres"):
        return PostgresValues(url, name)
    close = did_you_mean(scheme, ["memory", "sqlite", "redis", "rediss", "postgresql"])
    raise StateError(f"there is no map of values at {scheme}:// URLs", hint=f"{close} Use {EXAMPLES}.".strip())


def check_name(name: object) -> None:
    """Raise UsageError unless this can be the name of a map in every database."""
    if isinstance(name, str) and name.isascii() and 0 < len(name) <= LONGEST_NAME and name[0].isalpha():
        plain = name.replace("_", "").replace("-", "")
        if plain.isalnum() and not name.lower().startswith(("sqlite", "stormcell", "pg_")):
            return
    raise UsageError(
        f"{short_repr(name)} is not a valid name of a map of values",
        hint=f"Use up to {LONGEST_NAME} letters, digits, _ and -. Begin with a letter, but not with sqlite, stormcell or pg_.",
    )
