"""Checkpoints of processes that die and take over, with calls that are lost or late (CP-3, CP-7, CP-9)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.backoff import Backoff
from engine.state import delta, layered, retry
from engine.state.redis import store as redis_store_module
from engine.state.redis.provider import RedisProvider
from engine.state.sqlite import store as sqlite_store_module
from engine.state.sqlite.provider import SqliteProvider
from tests.checkpoint.interleaved import NAME, Interleaving, Process
from tests.servers.redis_server import RedisServer, why_not
from tests.servers.required import required
from tests.tiers import cases

ORDERS = {"redis": cases(12), "sqlite": cases(15)}
LIVES = 6
pytestmark = pytest.mark.guarantee("CP-3", "CP-7", "CP-9")


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    required(why_not())
    with RedisServer(tmp_path_factory.mktemp("redis"), "--appendonly", "no") as server:
        yield server


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in small steps, and fold soon."""
    monkeypatch.setattr(retry, "BACKOFF", Backoff(0.0001, 0.0001))
    for module, steps in (
        (delta, {"KEYS_PER_BLOB": 2}),
        (layered, {"KEYS_PER_TURN": 1, "ROWS_PER_TURN": 2, "FOLD_TXIDS": 2, "FOLD_KEYS": 8, "MOST_TAKEN_UP": 3}),
        (redis_store_module, {"ROWS_PER_STEP": 4, "SLOTS_PER_CALL": 3, "DELTAS_PER_STEP": 1}),
        (sqlite_store_module, {"ROWS_PER_FOLD": 2, "ROWS_PER_STATEMENT": 1}),
    ):
        for name, size in steps.items():
            monkeypatch.setattr(module, name, size)


async def end_all() -> None:
    """Cancel the calls of dead processes."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def test_in_redis_a_start_restores_the_last_committed_checkpoint_despite_late_calls(redis_server: RedisServer) -> None:
    arrived = loaded = 0
    for seed in range(ORDERS["redis"]):
        with redis_server.client() as client:
            client.flushall()
        draws = Random(seed)
        play = Interleaving(draws, arrives_late=True)

        links: list[Any] = []

        def process(draws: Random = draws, play: Interleaving = play, links: list[Any] = links) -> tuple[Process, Any]:
            provider = RedisProvider(redis_server.address())
            one = Process(provider, draws, play.truth, play.calls)
            links.append(provider._topology_of(NAME).link)
            one.hold(links[-1], "run", "command", "hash_lengths")
            return one, one.run(draws.randint(1, 6))

        try:
            for _ in range(LIVES):
                lives = [process() for _ in range(draws.choice((1, 1, 2)))]
                await play.live(lives, draws.choice((50, 150, 300, 600)))
            for loaded_before in (play.truth.loaded, play.truth.loaded + 1):
                while play.truth.loaded <= loaded_before:
                    await play.live([process()], 100_000)
                await play.end()
        except AssertionError as error:
            raise AssertionError(f"order {seed}: {error}") from error
        finally:
            await end_all()
            for link in links:
                await link.close()
        arrived, loaded = arrived + play.arrived, loaded + play.truth.loaded
    assert arrived > ORDERS["redis"]
    assert loaded > 4 * ORDERS["redis"]


async def test_in_sqlite_a_start_restores_the_last_committed_checkpoint(tmp_path: Path) -> None:
    loaded = 0
    for seed in range(ORDERS["sqlite"]):
        draws = Random(seed)
        play = Interleaving(draws, arrives_late=False)
        try:
            for life in range(LIVES + 1):
                provider = SqliteProvider(tmp_path / f"{seed}.db")
                one = Process(provider, draws, play.truth, play.calls)
                one.hold(provider._file, "write", "write_once")
                await play.live([(one, one.run(draws.randint(1, 6)))], draws.choice((50, 150, 300)) if life < LIVES else 100_000)
                await end_all()
                await provider.close()
        except AssertionError as error:
            raise AssertionError(f"order {seed}: {error}") from error
        finally:
            await end_all()
        loaded += play.truth.loaded
    assert loaded > 4 * ORDERS["sqlite"]
