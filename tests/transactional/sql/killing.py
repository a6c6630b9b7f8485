"""The victim of `test_kills`: visits from memory into a database, and the process dies at a step.

python -m tests.transactional.sql.killing TOLD
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from engine import Config
from engine.transactional import MemoryTransactionalSpout, SqlCommitter, TransactionalTopologyBuilder
from tests.kills import lives
from tests.kills.moments import after, before, in_flight, in_transaction
from tests.kills.steps import Step
from tests.transactional.sql.places import FIELDS, INSERT, Place

VISITS: Final = tuple((number % 11, f"page {number}") for number in range(600))


@dataclass(frozen=True, kw_only=True)
class Places:
    """Stores of one round."""

    kind: str
    url: str
    state: str
    tasks: int


@dataclass(frozen=True, kw_only=True)
class Death(lives.Death):
    """A death, and the settings of the process."""

    take: int = 10
    """Rows in a batch. The steps in between must not change it, because a replay has the same rows."""
    pending: int = 2


def _publishes(file: Any, work: Any) -> bool:
    return "SqliteRowStore.publish" in work.__qualname__


def _steps() -> Iterator[Step]:
    output, runner = "engine.transactional.sql.row_output:OpenRowOutput", "engine.transactional.batch_runner:BatchRunner"
    yield Step("before the publication", f"{output}.publish", before)
    yield Step("published, not reported", f"{output}.publish", after)
    yield Step("before the report", f"{runner}.finished", before, lambda it, *_: it._wiring.spec.component_id == "out")
    yield Step("reported", f"{runner}.finished", after, lambda it, *_: it._wiring.spec.component_id == "out")
    for kind, store in (("sqlite", "SqliteRowStore"), ("postgres", "PostgresRowStore")):
        target = f"engine.state.{kind}.rows:{store}"
        yield Step(f"{kind}: before it is opened", f"{target}.open", before)
        yield Step(f"{kind}: opened", f"{target}.open", after)
        yield Step(f"{kind}: before the fence is read", f"{target}.fence", before)
        yield Step(f"{kind}: before the transaction", f"{target}.publish", before)
        yield Step(f"{kind}: in the transaction, at any moment", f"{target}.publish", in_flight)
        yield Step(f"{kind}: committed", f"{target}.publish", after)
    yield Step("sqlite: all rows written, not committed", "engine.state.sqlite.file:SqliteFile._transaction", in_transaction, _publishes)
    rows = "asyncpg.connection:Connection.executemany"
    yield Step("postgres: fence raised, no row written", rows, before)
    yield Step("postgres: in the middle of the rows", rows, in_flight)
    yield Step("postgres: all rows written, not committed", rows, after)


STEPS: Final = {step.name: step for step in _steps()}


def steps_of(kind: str) -> list[str]:
    """Return the steps that a database reaches."""
    other = "postgres" if kind == "sqlite" else "sqlite"
    return [name for name in STEPS if not name.startswith(other)]


async def main() -> None:
    """Run the topology of the command line."""
    places, death, _ = lives.heard(Places, Death)
    database = Place(places.kind, places.url).database
    builder = TransactionalTopologyBuilder(
        "visits", "in", MemoryTransactionalSpout(list(VISITS), FIELDS, take=death.take), max_spout_pending=death.pending
    )
    builder.set_committer("out", SqlCommitter(database, INSERT, FIELDS, key="user_id"), places.tasks).fields_grouping("in", "user_id")
    await lives.live(builder.build(), Config(state_provider=places.state, batch_interval_ms=5), death, STEPS)


if __name__ == "__main__":
    asyncio.run(main())
