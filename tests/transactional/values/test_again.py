"""Second attempts of a map of values: an unavailable store, and a map that is older than its topology."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine import FatalError, Tuple
from engine.backoff import Backoff
from engine.errors import ComponentError, StateFenced, StateUnavailable
from engine.state import retry
from engine.state.memory import MemoryValueStore
from engine.state.redis import values as redis
from engine.state.redis.values import WRITE
from engine.transactional import Committer, TransactionalTopologyBuilder, TransactionAttempt
from engine.transactional.attempt import first_attempt_id
from engine.transactional.values import (
    MemoryValues,
    OpaqueValue,
    OpenValues,
    RedisValues,
    ReduceInto,
    ReducingCommitter,
    SqliteValues,
)
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer
from tests.transactional.batch_topologies import Batches, run_batches
from tests.transactional.values.conftest import NewMap
from tests.transactional.values.faults import Fault, FaultyStore
from tests.transactional.values.tasks import add, attempt, context, open_values, read_values

pytestmark = pytest.mark.guarantee("TX-8")


class AwayStore(MemoryValueStore):
    """Is unavailable at every second write. With `takes_effect`, the write has taken effect."""

    takes_effect = False
    writes = 0

    async def write(self, *what: Any) -> bool:
        AwayStore.writes += 1
        is_away = AwayStore.writes % 2 == 1
        written = await super().write(*what) if not is_away or self.takes_effect else False
        if is_away:
            raise StateUnavailable("away, for a test")
        return written


class AwayValues(MemoryValues):
    async def store(self, *, make: bool) -> MemoryValueStore:
        return AwayStore(self._table)


@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_a_combine_that_changes_its_arguments_counts_once_after_an_outage(monkeypatch: Any, takes_effect: bool, kind: Any) -> None:
    kept = AwayValues("kept")
    kind_of_values = kind

    class Collects(ReducingCommitter[str, list[int], list[int]]):
        values = kept
        kind = kind_of_values

        def fold(self, partial: list[int] | None, tup: Tuple) -> list[int]:
            return [*(partial or []), tup["number"]]

        def combine(self, stored: list[int] | None, partial: list[int]) -> list[int]:
            partial.extend(stored or [])
            return partial

    monkeypatch.setattr(AwayStore, "takes_effect", takes_effect)
    monkeypatch.setattr(AwayStore, "writes", 0)
    builder = TransactionalTopologyBuilder("t", "numbers", Batches([[1], [2], [3]]))
    builder.set_committer("collects", Collects).global_grouping("numbers")
    run_batches(builder.build())

    async def read() -> Any:
        async with kept.reader() as reader:
            return await reader.get("all")

    assert asyncio.run(read()) == [3, 2, 1]


def test_a_state_that_is_older_than_the_values_ends_the_run_with_an_error(tmp_path: Path) -> None:
    total = SqliteValues(tmp_path / "values.db", "total")
    state, copy = tmp_path / "state.db", tmp_path / "copy.db"

    def run(batches: int, dies_at: int | None = None) -> None:
        class Dies(Committer):
            def execute(self, tup: Tuple) -> None: ...

            def finish_batch(self) -> None:
                if self.attempt.txid == dies_at:
                    raise FatalError("died in the commit phase")

        builder = TransactionalTopologyBuilder("t", "numbers", Batches([[1]] * batches))
        builder.set_committer("total", ReduceInto(total, value="number", output_fields=("key", "total"))).global_grouping("numbers")
        builder.set_committer("dies", Dies).global_grouping("total")
        run_batches(builder.build(), config={"state_provider": f"sqlite:///{state}"}, limit_secs=100)

    run(3)
    shutil.copy(state, copy)
    for _ in range(3):
        with pytest.raises(ComponentError, match="died in the commit phase"):
            run(4, 4)
    shutil.copy(copy, state)

    with pytest.raises(ComponentError, match="of a later start of the topology, has") as caught:
        run(5)

    assert "was restored from an older copy" in str(caught.value)
    assert "restore the newest state" in str(caught.value.hint)


def test_only_an_attempt_of_a_later_run_ends_this_run() -> None:
    replayed = OpaqueValue(4, first_attempt_id(2) + 5, 10)
    with pytest.raises(StateFenced) as caught:
        replayed.put(TransactionAttempt(4, first_attempt_id(2) + 4), 11)
    assert not isinstance(caught.value, FatalError)
    with pytest.raises(StateFenced) as caught:
        replayed.put(TransactionAttempt(4, first_attempt_id(1) + 9), 11)
    assert isinstance(caught.value, FatalError)


async def test_a_repeated_write_writes_the_rest_of_a_batch_as_it_was_combined(new_map: NewMap, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two tasks has written. Then one task replays both parts, and its first write fails."""
    monkeypatch.setattr(retry, "BACKOFF", Backoff(0.0001, 5.0))
    values, keys = new_map("words"), ["a", "b", "c", "d"]
    async with open_values(values) as before:
        await before.update(attempt(1, 1), dict.fromkeys(keys, 10), add)
        await before.update(attempt(2, 2), dict.fromkeys(keys[:2], 1), add)
    faults: dict[str, list[Fault]] = {"write": ["refused"]}
    store = FaultyStore(await values.store(make=True), lambda name: faults.get(name, []).pop() if faults.get(name) else "none", [])
    after: OpenValues[str, int] = OpenValues(store, context(), "the map")
    try:
        assert await after.update(attempt(2, 3), dict.fromkeys(keys, 1), add) == dict.fromkeys(keys, 11)
    finally:
        await store.close()
    assert await read_values(values) == dict.fromkeys(keys, 11)


async def test_a_combine_that_changes_its_arguments_counts_once_after_a_partial_write(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "BACKOFF", Backoff(0.0001, 5.0))
    monkeypatch.setattr(redis, "KEYS_PER_PART", 2)
    values, keys = RedisValues(f"redis://{HOST}:{redis_server.port}/0?prefix=parts", "words"), ["a", "b", "c", "d", "e"]

    def collect(stored: list[int] | None, partial: list[int]) -> list[int]:
        partial.extend(stored or [])
        return partial

    async with open_values(values) as task:
        await task.update(attempt(1, 1), {key: [1] for key in keys}, collect)
        store: Any = task._store
        run, writes = store._link.run, 0

        async def breaks_once(script: Any, *what: Any) -> Any:
            nonlocal writes
            writes += script is WRITE
            if script is WRITE and writes == 2:
                raise StateUnavailable("away, for a test")
            return await run(script, *what)

        monkeypatch.setattr(store._link, "run", breaks_once)
        assert await task.update(attempt(2, 2), {key: [2] for key in keys}, collect) == {key: [2, 1] for key in keys}
    assert await read_values(values) == {key: [2, 1] for key in keys}
