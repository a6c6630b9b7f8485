"""Whole topologies with SqlCommitter: exact after failed batches, killed tasks, broken connections and read-only databases (TX-12)."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

import engine
from engine import Config, FailedBatch
from engine.backoff import Backoff
from engine.errors import ComponentError, StateUnavailable
from engine.state import retry
from engine.state.rows import Row
from engine.state.sqlite import rows
from engine.testing import KillTask, run_topology
from engine.transactional import MemoryTransactionalSpout, SqlCommitter, SqliteDatabase, TransactionalTopologyBuilder
from engine.transactional.sql import SqlWriter
from engine.transactional.sql.row_output import OpenRowOutput
from engine.transactional.values import ValuesMismatch
from tests.integration.tcp_proxy import TcpProxy, Way
from tests.transactional.sql.places import FIELDS, INSERT, TABLE, Place, published
from tests.transactional.values.tasks import attempt

pytestmark = pytest.mark.guarantee("TX-12")

VISITS = [(number % 7, f"page {number}") for number in range(300)]


class Failing(SqlWriter):
    """Fails before or after its publication, sometimes."""

    random: Random

    async def finish_batch(self) -> None:
        if self.random.random() < 0.2:
            raise FailedBatch
        await super().finish_batch()
        if self.random.random() < 0.2:
            raise FailedBatch


def failing(made: SqlCommitter, random: Random) -> Any:
    def create() -> Failing:
        plain = made.create()
        writer = Failing(plain._output, plain.keyed_by)
        writer.random = random
        return writer

    return create


def topology(committer: Any, tasks: int = 2, visits: Sequence[Row] = VISITS) -> Any:
    builder = TransactionalTopologyBuilder("visits", "in", MemoryTransactionalSpout(list(visits), FIELDS, take=20))
    builder.set_committer("out", committer, tasks).fields_grouping("in", "user_id")
    return builder.build()


async def completed(topology: Any, **settings: Any) -> None:
    async with engine.run(topology, Config(seed=1, **settings)) as run:
        await run.completed()


async def test_each_row_is_applied_once_though_batches_fail(place: Place) -> None:
    committer = SqlCommitter(place.database, INSERT, FIELDS, key="user_id")
    await completed(topology(failing(committer, Random(3))), max_spout_pending=3)
    assert await place.rows() == sorted(VISITS)


def test_each_row_is_applied_once_though_tasks_are_killed_in_virtual_time(tmp_path: Path) -> None:
    place = Place("sqlite", str(tmp_path / "own.db"))
    asyncio.run(place.run(TABLE))
    built = topology(SqlCommitter(SqliteDatabase(place.url), INSERT, FIELDS, key="user_id"), 3)
    run_topology(built, Config(max_spout_pending=2), faults=[KillTask("out", at_call={5, 60, 100})])
    assert asyncio.run(place.rows()) == sorted(VISITS)


async def test_a_refused_row_ends_the_run_and_the_next_one_continues(place: Place, tmp_path: Path) -> None:
    state = f"sqlite:///{tmp_path}/state.db"
    committer = SqlCommitter(place.database, INSERT, FIELDS, key="user_id")
    visits = [*VISITS[:150], (3, None), *VISITS[150:]]
    with pytest.raises(ComponentError, match=r"'out' \(task .*refuses the row user_id=3, page=None") as caught:
        await completed(topology(committer, visits=visits), state_provider=state)
    assert "correct such rows" in (caught.value.hint or "")
    await place.run("CREATE TABLE wide (user_id bigint, page text)", "INSERT INTO wide SELECT user_id, page FROM visits")
    wide = SqlCommitter(place.database, INSERT.replace("visits", "wide"), FIELDS, key="user_id")
    await completed(topology(wide, visits=visits), state_provider=state)
    assert set(await place.rows("SELECT user_id, page FROM wide")) == set(visits)
    assert await place.rows("SELECT count(*) FROM wide") == [(len(visits),)]


async def test_a_lost_coordinator_ends_the_run(place: Place) -> None:
    built = topology(SqlCommitter(place.database, INSERT, FIELDS), 1)
    await completed(built)
    with pytest.raises(ComponentError, match="the state of the coordinator is older than this table"):
        await completed(topology(SqlCommitter(place.database, INSERT, FIELDS), 1))
    assert await place.rows() == sorted(VISITS)


async def test_a_factory_with_another_statement_for_a_later_batch_ends_the_run(place: Place) -> None:
    made = iter([INSERT, INSERT, INSERT, *[INSERT.replace("INTO visits", "INTO  visits")] * 99])
    with pytest.raises(ComponentError, match="was given another statement or database for batch"):
        await completed(topology(lambda: SqlCommitter(place.database, next(made), FIELDS).create(), 1))


async def test_broken_connections_at_any_step_neither_lose_nor_double_a_row(new_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BACKOFF", Backoff(0.001, 5.0))
    port, random, expected = urlsplit(new_database).port, Random(3), list[Row]()
    assert port is not None
    direct = Place("postgres", new_database)
    await direct.run(TABLE)
    async with TcpProxy(port) as proxy:
        place = Place("postgres", new_database.replace(f":{port}/", f":{proxy.port}/"))
        async with place.task() as task:
            for txid in range(1, 61):
                visits = [(txid, f"page {number}") for number in range(random.randint(0, 12))]
                ways: list[Way] = ["there", "back"]
                proxy.cut_after(random.choice(ways), random.randint(1, 1500))
                await published(task, attempt(txid, txid), *visits)
                expected += visits
            proxy.cut_after("there", 10**9)
        assert proxy.cuts > 5
    assert await direct.rows() == sorted(expected)


async def test_of_two_concurrent_processes_only_one_applies_a_txid(place: Place) -> None:
    random = Random(5)

    async def tries(task: OpenRowOutput, txid: int, number: int) -> None:
        for _ in range(random.randint(0, 40)):
            await asyncio.sleep(0)
        await published(task, attempt(txid, number), (txid, "a"), (txid, "b"))

    async with place.task() as older, place.task() as newer:
        for txid in range(1, 31):
            numbers = (txid * 10 + 1, 10 * txid + 2)
            await asyncio.gather(tries(older, txid, numbers[0]), tries(newer, txid, numbers[1]), return_exceptions=True)
            await published(newer, attempt(txid, numbers[1]), (txid, "a"), (txid, "b"))
    assert await place.rows() == [(txid, page) for txid in range(1, 31) for page in "ab"]


async def test_a_database_that_is_read_only_fails_the_batch_until_it_can_be_written(new_database: str) -> None:
    place = Place("postgres", new_database)
    await place.run(TABLE)
    name = new_database.rpartition("/")[2]
    async with place.task() as task:
        await published(task, attempt(1, 1), (1, "a"))
        task._retry._timeout_secs = 0.2
        await place.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await task._store._link._connection.execute("SET default_transaction_read_only = on")  # type: ignore[attr-defined]
        with pytest.raises(StateUnavailable, match="it is read-only"):
            await published(task, attempt(2, 2), (2, "b"))
        client = Place("postgres", f"{new_database}?default_transaction_read_only=off")
        await client.run(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        await published(task, attempt(2, 3), (2, "b"))
    assert await place.rows() == [(1, "a"), (2, "b")]


async def test_a_sqlite_file_that_is_read_only_ends_the_run(tmp_path: Path) -> None:
    """The tests may run as root, who may write any file. SQLite's own switch also stops root."""
    place = Place("sqlite", str(tmp_path / "own.db"))
    await place.run(TABLE)
    async with place.task() as task:
        await task._store._file._in_thread(lambda: task._store._file._writer.execute("PRAGMA query_only = 1"))  # type: ignore[attr-defined]
        with pytest.raises(ValuesMismatch, match="cannot be written"):
            await published(task, attempt(1, 1), (1, "a"))


async def test_a_sqlite_file_that_another_program_locks_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "WRITER_BUSY_SECS", 0.01)
    monkeypatch.setattr(retry, "BACKOFF", Backoff(0.001, 0.01))
    place = Place("sqlite", str(tmp_path / "own.db"))
    await place.run(TABLE)
    async with place.task() as task:
        other = sqlite3.connect(place.url, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        publishing = asyncio.create_task(published(task, attempt(1, 1), (1, "a")))
        for _ in range(3):
            await asyncio.sleep(0.02)
        assert not publishing.done()
        other.execute("COMMIT")
        other.close()
        await publishing
    assert await place.rows() == [(1, "a")]
