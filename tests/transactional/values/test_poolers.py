"""A map behind pgbouncer. With pool_mode=session it works, and the other modes are refused, before a batch gets lost (TX-8)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import pytest

from engine.transactional.values import PostgresValues, ValuesMismatch
from tests.servers.pgbouncer import PgBouncer, why_not
from tests.servers.required import required
from tests.transactional.values.tasks import add, attempt, open_values, read_values

pytestmark = pytest.mark.guarantee("TX-8")
NewPooler: TypeAlias = Callable[[str], str]
POOLED = "a connection pooler gives each transaction to another session"


@pytest.fixture
def pooled(new_database: str, tmp_path: Path) -> Iterator[NewPooler]:
    """Return the URL of the empty database through a pooler of this mode."""
    required(why_not())
    with ExitStack() as poolers:
        yield lambda pool_mode: poolers.enter_context(PgBouncer(tmp_path, new_database, pool_mode)).url


async def other_session(url: str) -> tuple[Any, Any]:
    """Hold the session that the pooler would give next. So a later transaction runs in another one."""
    holder = await asyncpg.connect(url, statement_cache_size=0)
    transaction = holder.transaction()
    await transaction.start()
    return holder, transaction


async def test_a_pooler_of_sessions_may_be_in_front(pooled: NewPooler) -> None:
    values = PostgresValues(pooled("session"), "words")
    for txid in (1, 2):  # the second one gets the session of the first, which pgbouncer has reset
        async with open_values(values) as task, open_values(values, task_index=1) as other:
            await task.update(attempt(txid, txid), {"a": 1}, add)
            await other.update(attempt(txid, txid), {"b": 1}, add)
    assert await read_values(values) == {"a": 2, "b": 2}


async def test_a_pooler_of_transactions_ends_the_run(pooled: NewPooler, new_database: str) -> None:
    url = pooled("transaction")
    async with open_values(PostgresValues(url, "words")) as task:
        await task.update(attempt(1, 1), {"a": 1}, add)
        holder, transaction = await other_session(url)
        with pytest.raises(ValuesMismatch, match=POOLED) as caught:
            await task.update(attempt(2, 2), {"a": 1}, add)
        await transaction.rollback()
        await holder.close()
    assert "pool_mode=session" in (caught.value.hint or "")
    assert await read_values(PostgresValues(new_database, "words")) == {"a": 1}


async def test_a_pooler_of_statements_ends_the_run(pooled: NewPooler) -> None:
    with pytest.raises(ValuesMismatch, match=POOLED):
        async with open_values(PostgresValues(pooled("statement"), "words")) as task:
            await task.update(attempt(1, 1), {"a": 1}, add)


async def test_a_session_without_the_settings_of_the_engine_ends_the_run(new_database: str) -> None:
    """Newer poolers of transactions know prepared statements, so only the settings of the session are missing."""
    async with open_values(PostgresValues(new_database, "words")) as task:
        await task.update(attempt(1, 1), {"a": 1}, add)
        connection = task._store._link._connection  # type: ignore[attr-defined]
        await connection.execute("RESET ALL")
        with pytest.raises(ValuesMismatch, match=POOLED):
            await task.update(attempt(2, 2), {"a": 1}, add)


async def test_no_other_client_has_a_prepared_statement_of_the_same_name(new_database: str) -> None:
    """A pooler of transactions would run that statement in place of ours, perhaps on the table of another map."""
    names = []
    for _ in range(2):
        async with open_values(PostgresValues(new_database, "words")) as task:
            link = task._store._link  # type: ignore[attr-defined]
            rows = await link.fetch("SELECT name FROM pg_prepared_statements")
            names.append({row[0].split("__")[-1] for row in rows})
    assert all(len(tokens) == 1 and len(*tokens) > 8 for tokens in names)
    assert names[0] != names[1]


async def test_a_refusal_of_the_pooler_that_comes_again_ends_the_run(pooled: NewPooler) -> None:
    url = f"{pooled('session')}?statement_timeout=60s"  # pgbouncer knows few parameters
    with pytest.raises(ValuesMismatch, match="unsupported startup parameter: statement_timeout"):
        await PostgresValues(url, "words").open(None)  # type: ignore[arg-type]
