"""Shared parts of the tests of states."""

import sqlite3

import pytest

from tests.state.connections import noting
from tests.state.slow_store import AnySlowStore, SlowLookupStore, SlowResidentStore


@pytest.fixture(params=[SlowLookupStore, SlowResidentStore], ids=["lookup", "resident"])
def store(request: pytest.FixtureRequest) -> AnySlowStore:
    made: AnySlowStore = request.param()
    return made


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """All SQLite connections that are opened during the test."""
    made = list[sqlite3.Connection]()
    monkeypatch.setattr(sqlite3, "connect", noting(sqlite3.connect, made))
    return made
