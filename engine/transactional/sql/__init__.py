"""A committer that executes the user's own SQL statement for each row of a batch, exactly once (TX-12)."""

from engine.transactional.sql.committer import SqlCommitter, SqlWriter
from engine.transactional.sql.databases import PostgresDatabase, SqlDatabase, SqliteDatabase

__all__ = ["PostgresDatabase", "SqlCommitter", "SqlDatabase", "SqlWriter", "SqliteDatabase"]
