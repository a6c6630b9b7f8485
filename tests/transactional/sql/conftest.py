"""Runs each test of SqlCommitter on PostgreSQL and on SQLite."""

from pathlib import Path

import pytest

from tests.transactional.sql.places import TABLE, Place


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return an empty database."""
    return Place(request.param, str(tmp_path / "own.db") if request.param == "sqlite" else request.getfixturevalue("new_database"))


@pytest.fixture
async def place(empty: Place) -> Place:
    """Return a database with an empty table `visits`."""
    await empty.run(TABLE)
    return empty
