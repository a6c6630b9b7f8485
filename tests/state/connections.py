"""SQLite connections of a test, and whether they are closed."""

import sqlite3
from collections.abc import Callable
from typing import Any

Connect = Callable[..., sqlite3.Connection]


def noting(connect: Connect, made: list[sqlite3.Connection]) -> Connect:
    """Return a `connect` that keeps each connection, so that the garbage collector does not close it."""

    def noted(*args: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*args, **options))
        return made[-1]

    return noted


def is_closed(connection: sqlite3.Connection) -> bool:
    """Whether a connection is closed."""
    try:
        return connection.total_changes < 0
    except sqlite3.ProgrammingError:
        return True
