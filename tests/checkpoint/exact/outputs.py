"""The committers behind the states, by kind, and what their targets show."""

import asyncio
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import asyncpg

from engine import Burst, TopologyBuilder, Tuple
from engine.kafka.transactional import KafkaCommitter, KafkaCommitterConfig
from engine.transactional import BurstBolt as BatchBurstBolt
from engine.transactional import Committer, FileCommitter, PostgresDatabase, SqlCommitter, SqliteDatabase, committed_lines
from engine.transactional.values import PostgresValues, RedisValues, ReduceInto, SqliteValues
from tests.checkpoint.exact.faults import Failing
from tests.kafka.transactional.committer_task import seen

Row = tuple[int, int]
"""A number, and how often it had come."""
INSERT: Final = "INSERT INTO output(number, count) VALUES ($1, $2)"
CREATE: Final = "CREATE TABLE IF NOT EXISTS output(number INT, count INT)"


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a committer publishes."""

    kind: str
    folder: str
    server: str = ""
    """URL of the database or address of the broker."""
    name: str = "output"
    """Name of the map or topic. Each round has its own."""


class OwnCommitter(Committer):
    """A user's committer: replaces a file for each task and txid."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder, "own")

    def prepare(self) -> None:
        self.rows: list[Row] = []

    def execute(self, tup: Tuple) -> None:
        self.rows.append((tup["number"], tup["count"]))

    def finish_batch(self) -> None:
        self.folder.mkdir(exist_ok=True)
        name = f"{self.attempt.txid}-{self.context.task_index}-of-{self.context.tasks}.json"
        draft = self.folder / f".{name}"
        draft.write_text(json.dumps(self.rows))
        os.replace(draft, self.folder / name)


def _failing(cls: type[Any], failing: Failing) -> type[Any]:
    """Return a class whose calls fail now and then, after they have taken their rows."""

    class Fails(cls):  # type: ignore[misc]
        def execute(self, tup: Tuple) -> Any:
            result = super().execute(tup)
            if not isinstance(self, BatchBurstBolt):
                failing.may_fail()
            return result

        def execute_many(self, burst: Burst) -> Any:
            result = super().execute_many(burst)
            failing.may_fail(len(burst))
            return result

    Fails.__name__ = cls.__name__
    return Fails


@dataclass(frozen=True)
class FailingFactory:
    """Makes the committers of a factory, whose calls fail now and then."""

    make: Callable[[], Any]
    failing: Failing

    def create(self) -> Any:
        committer = self.make()
        committer.__class__ = _failing(type(committer), self.failing)
        return committer


def factory(target: Target) -> Callable[[], Any]:
    match target.kind:
        case "sqlite values":
            return ReduceInto(SqliteValues(f"{target.folder}/values.db", target.name), key="number").create
        case "postgres values":
            return ReduceInto(PostgresValues(target.server, target.name), key="number").create
        case "redis values":
            return ReduceInto(RedisValues(target.server, target.name), key="number").create
        case "sqlite rows":
            return SqlCommitter(SqliteDatabase(f"{target.folder}/rows.db"), INSERT, fields=("number", "count"), key="number").create
        case "postgres rows":
            return SqlCommitter(PostgresDatabase(target.server), INSERT, fields=("number", "count"), key="number").create
        case "files":
            return FileCommitter(f"{target.folder}/output").create
        case "kafka":
            config = KafkaCommitterConfig(
                brokers=target.server, topic=target.name, keyed_by="number", key=_key_of, value=_value_of, transaction_timeout_ms=10_000
            )
            return partial(KafkaCommitter, config)
        case _:
            return partial(OwnCommitter, target.folder)


def _key_of(tup: Tuple) -> str:
    return str(tup["number"])


def _value_of(tup: Tuple) -> str:
    return json.dumps([tup["number"], tup["count"]])


def declare(builder: TopologyBuilder, target: Target, tasks: int, failing: Failing) -> None:
    """Declare the committer behind the bolt `second`."""
    if target.kind == "spark":
        from spark_bridge import SparkHandover  # here, because the second Python of CI has no pyarrow

        handover = SparkHandover(f"{target.folder}/handover", "number int, count int")
        handover.declare(builder, "output", tasks).fields_grouping("second", "number")
        return
    builder.set_committer("output", FailingFactory(factory(target), failing), tasks).fields_grouping("second", "number")


# Reading


async def prepare(target: Target) -> None:
    """Make the table of the SQL committers."""
    if target.kind == "sqlite rows":
        with closing(sqlite3.connect(f"{target.folder}/rows.db")) as connection, connection:
            connection.execute(CREATE)
    if target.kind == "postgres rows":
        connection = await asyncpg.connect(target.server)
        try:
            await connection.execute(CREATE)
        finally:
            await connection.close()


async def published(target: Target) -> Counter[Any]:
    """Return what readers see. Of the maps: the numbers, as often as they count. Of the others: the rows."""
    return await READERS[target.kind](target)


async def _values(values: Any) -> Counter[Any]:
    async with values.reader() as reader:
        return Counter({key: value async for key, value in reader.items()})


async def _sqlite_values(target: Target) -> Counter[Any]:
    path = Path(target.folder, "values.db")
    if not await asyncio.to_thread(path.exists):
        return Counter()  # a process died before it has published anything
    return await _values(SqliteValues(path, target.name))


async def _postgres_values(target: Target) -> Counter[Any]:
    return await _values(PostgresValues(target.server, target.name))


async def _redis_values(target: Target) -> Counter[Any]:
    return await _values(RedisValues(target.server, target.name))


async def _sqlite_rows(target: Target) -> Counter[Any]:
    with closing(sqlite3.connect(f"{target.folder}/rows.db")) as connection:
        return Counter(connection.execute("SELECT number, count FROM output"))


async def _postgres_rows(target: Target) -> Counter[Any]:
    connection = await asyncpg.connect(target.server)
    try:
        return Counter(tuple(row) for row in await connection.fetch("SELECT number, count FROM output"))
    finally:
        await connection.close()


async def _files(target: Target) -> Counter[Any]:
    folder = Path(target.folder, "output")
    return await asyncio.to_thread(lambda: Counter(_rows_of_lines(folder) if folder.exists() else ()))


def _rows_of_lines(folder: Path) -> Iterator[Row]:
    for line in committed_lines(folder):
        row = json.loads(line)
        yield row["number"], row["count"]


async def _kafka(target: Target) -> Counter[Any]:
    return Counter(tuple(json.loads(value)) for value in await seen(target.server, target.name))


async def _own(target: Target) -> Counter[Any]:
    return await asyncio.to_thread(lambda: Counter(_rows_of_json(Path(target.folder, "own"))))


def _rows_of_json(folder: Path) -> Iterator[Row]:
    for file in folder.glob("[0-9]*.json"):
        yield from map(tuple, json.loads(file.read_text()))


async def _spark(target: Target) -> Counter[Any]:
    return await asyncio.to_thread(_handed_over, Path(target.folder, "handover"))


def _handed_over(folder: Path) -> Counter[Any]:
    import pyarrow.parquet as pq  # here, because the second Python of CI has no pyarrow

    from spark_bridge.handover import Handover
    from spark_bridge.handover.names import CONTRACT

    if not (folder / CONTRACT).exists():  # a process has died before it
        return Counter()
    handover = Handover.open(folder)
    rows: Counter[Any] = Counter()
    for txid in range(handover.deleted() + 1, handover.newest() + 1):
        for file in handover.manifest(txid).files:
            table = pq.read_table(handover.open_input(file))
            rows.update(zip(*table.to_pydict().values(), strict=True))
    return rows


READERS: Final[Mapping[str, Callable[[Target], Awaitable[Counter[Any]]]]] = {
    "sqlite values": _sqlite_values,
    "postgres values": _postgres_values,
    "redis values": _redis_values,
    "sqlite rows": _sqlite_rows,
    "postgres rows": _postgres_rows,
    "files": _files,
    "kafka": _kafka,
    "spark": _spark,
    "own": _own,
}
KINDS: Final = tuple(READERS)
MAPS: Final = frozenset(kind for kind in KINDS if kind.endswith("values"))
"""Kinds whose target has the count of each number. The others have a row for each."""
