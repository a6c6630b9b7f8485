"""Descriptions of databases whose tables belong to the user."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import UsageError
from engine.state.hosts import shown_url
from engine.state.providers import client_import
from engine.state.rows import RowStatement, RowStore, RowWriter
from engine.state.sql_text import with_question_marks


class SqlDatabase(ABC):
    """A database in which a committer executes a statement."""

    @abstractmethod
    def store(self, text: str, fields: tuple[str, ...], writer: RowWriter) -> RowStore:
        """Return the store of a statement with the placeholders $1, $2 and so on. It is not connected yet."""

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass(frozen=True)
class PostgresDatabase(SqlDatabase):
    """A database of PostgreSQL. The URL is like that of `PostgresValues`, and may name several hosts."""

    url: str = field(repr=False)

    def store(self, text: str, fields: tuple[str, ...], writer: RowWriter) -> RowStore:
        with client_import("asyncpg", "PostgresDatabase needs asyncpg", extra="postgres"):
            from engine.state.postgres.link import PostgresLink
            from engine.state.postgres.rows import PostgresRowStore
        return PostgresRowStore(PostgresLink(self.url), RowStatement(text, fields), writer)

    def __str__(self) -> str:
        return shown_url(self.url)


@dataclass(frozen=True)
class SqliteDatabase(SqlDatabase):
    """A SQLite file that exists, with the user's tables. Other programs may write to it too."""

    path: str | Path

    def __post_init__(self) -> None:
        if "\0" in str(self.path):
            raise UsageError(f"{str(self.path)!r} is not a file path", hint="Remove the NUL characters.")

    def store(self, text: str, fields: tuple[str, ...], writer: RowWriter) -> RowStore:
        from engine.state.sqlite.rows import SqliteRowStore  # imports the database client on first use

        return SqliteRowStore(Path(self.path), RowStatement(with_question_marks(text), fields), writer)

    def __str__(self) -> str:
        return repr(str(self.path))
