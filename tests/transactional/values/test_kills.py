"""The writing process is killed at each named step, and another one continues: each transaction counts once."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.transactional.values import values_at
from tests.kills.forks import run_forked
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer
from tests.transactional.values.killed import TXIDS, batch_of, key_of
from tests.transactional.values.tasks import read_values

pytestmark = pytest.mark.deep

STEPS = [
    ("before create", 1),
    ("behind create", 1),
    ("before look", 1),
    ("behind look", 2),
    ("before write", 1),
    ("inside write", 1),
    ("inside write", 2),
    ("behind write", 1),
    ("before undo", 1),
    ("behind undo", 1),
    ("behind write", 1),
    ("inside undo", 2),
    ("before write", 2),
    ("inside write", 4),
    ("behind write", 2),
]
"""Steps, with how often each is reached in one txid before the death."""


def run_victim(url: str, kind: str, first: int, epoch: int, step: str, nth: int, fields: Sequence[str]) -> tuple[int, bool]:
    """Run one victim; return the newest txid that it said was done (first - 1: none), and whether it was killed."""
    ended = run_forked("tests.transactional.values.killed", json.dumps([url, kind, first, epoch, step, nth, fields]))
    assert ended.returncode in (0, -9), ended.stderr
    return int((ended.stdout.split() or [str(first - 1)])[-1]), ended.returncode == -9


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/values.db"
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        return f"redis://{HOST}:{server.port}/0?prefix={tmp_path.name}"
    found: str = request.getfixturevalue("new_database")
    return found


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
@pytest.mark.parametrize("fields", [(), ("name", "number")], ids=["one column", "two columns"])
@pytest.mark.guarantee("TX-8")
async def test_after_kills_of_the_writer_each_transaction_counts_once(url: str, kind: str, fields: Sequence[str]) -> None:
    first, expected, deaths = 1, dict[Any, int](), list[str]()
    steps = [each for each in STEPS if kind == "opaque" or "undo" not in each[0]]
    for epoch, (step, nth) in enumerate([*steps, ("never", 1)], 1):
        done, was_killed = run_victim(url, kind, first, epoch, step, nth, fields)
        deaths += [step] if was_killed else []
        for txid in range(first, done + 1):
            for name, amount in batch_of(txid, epoch, kind).items():
                key = key_of(name) if fields else name
                expected[key] = expected.get(key, 0) + amount
        first = done + 1
    assert await read_values(values_at(url, "words")) == expected
    assert first > 2 * TXIDS
    missed = {step for step, _ in steps} - set(deaths)
    assert missed == (set() if url.startswith("redis") or kind == "transactional" else {"inside undo"}), (
        "only Redis undoes in several parts"
    )
