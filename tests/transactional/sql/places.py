"""Databases of the tests of SqlCommitter, with a table `visits`, and tasks without an engine."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import asyncpg

from engine.transactional.sql import PostgresDatabase, SqlDatabase, SqliteDatabase
from engine.transactional.sql.row_output import OpenRowOutput, RowOutput
from tests.transactional.values.tasks import context

TABLE: Final = "CREATE TABLE visits (user_id bigint NOT NULL, page text NOT NULL, times integer NOT NULL DEFAULT 1 CHECK (times < 1000))"
INSERT: Final = "INSERT INTO visits(user_id, page) VALUES ($1, $2)"
FIELDS: Final = ("user_id", "page")


@dataclass(frozen=True)
class Place:
    """One database, seen by another program."""

    kind: str
    url: str
    """URL of PostgreSQL, or path of a SQLite file."""

    @property
    def database(self) -> SqlDatabase:
        return PostgresDatabase(self.url) if self.kind == "postgres" else SqliteDatabase(Path(self.url))

    async def run(self, *statements: str) -> None:
        """Execute statements of an administrator."""
        if self.kind == "sqlite":
            with closing(sqlite3.connect(self.url, isolation_level=None)) as connection:
                for statement in statements:
                    connection.execute(statement)
            return
        client = await asyncpg.connect(self.url)
        for statement in statements:
            await client.execute(statement)
        await client.close()

    async def rows(self, query: str = "SELECT user_id, page FROM visits ORDER BY 1, 2") -> list[tuple[Any, ...]]:
        if self.kind == "sqlite":
            with closing(sqlite3.connect(self.url)) as connection:
                return connection.execute(query).fetchall()
        client = await asyncpg.connect(self.url)
        found = [tuple(row) for row in await client.fetch(query)]
        await client.close()
        return found

    @asynccontextmanager
    async def task(self, statement: str = INSERT, fields: tuple[str, ...] = FIELDS, **place: Any) -> AsyncIterator[OpenRowOutput]:
        """Open the output of one task."""
        found = await RowOutput(self.database, statement, fields).open(context(**place))
        try:
            yield found
        finally:
            await found.close()


async def published(task: OpenRowOutput, attempt: Any, *rows: tuple[Any, ...]) -> None:
    await task.publish(attempt, task.stage(rows))
