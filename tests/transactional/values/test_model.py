"""Random batches, attempts and faults on every database give the values of a sequential model."""

from random import Random
from typing import Any

import pytest

from engine.backoff import Backoff
from engine.errors import StateFenced, StateUnavailable
from engine.state import retry
from engine.state.redis import values as redis_values
from engine.state.values import ValueKind, ValueStore
from engine.transactional import TransactionAttempt
from engine.transactional.values import OpenValues, RedisValues, ValueMap
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer
from tests.tiers import cases
from tests.transactional.values.conftest import NewMap
from tests.transactional.values.faults import Died, Fault, FaultyStore, Late, at_random
from tests.transactional.values.tasks import add, context, read_values

TASKS = 3
KEYS = [f"key {number}" for number in range(12)]
SEEDS = {"memory": cases(40), "sqlite": cases(15), "redis": cases(12), "postgres": cases(8)}
FAULTS: tuple[Fault, ...] = ("refused", "lost", "refused", "lost", "dies", "dies behind it", "late")
Batch = dict[str, int]


class History:
    """Plays the transactions of one topology, and keeps the expected values."""

    def __init__(self, values: ValueMap, kind: ValueKind, seed: int, faults: tuple[Fault, ...] = FAULTS) -> None:
        self.random = Random(seed)
        self.fields = ("name", "number") if seed % 2 else ()
        """Each second history has keys of two fields."""
        self.faults = faults
        self.values: ValueMap = values
        self.kind: ValueKind = kind
        self.stores: list[ValueStore] = []
        self.late: list[Late] = []
        self.expected: dict[Any, int] = {}
        self.number = 0
        self.replays = self.delivered = 0

    async def play(self, txids: int) -> None:
        self.stores = [await self.values.store(make=True) for _ in range(TASKS)]
        try:
            for txid in range(1, txids + 1):
                await self._transaction(txid)
            await self._deliver()
        finally:
            for store in self.stores:
                await store.close()

    async def _transaction(self, txid: int) -> None:
        batch = self._batch()
        while not await self._attempt(txid, batch) or self.random.random() < 0.15:  # the coordinator may not know that a batch is done
            self.replays += 1
            if self.kind == "opaque":
                batch = self._batch()
        for key, amount in batch.items():
            self.expected[self._key(key)] = self.expected.get(self._key(key), 0) + amount

    def _key(self, name: str) -> Any:
        return (name, KEYS.index(name)) if self.fields else name

    def _batch(self) -> Batch:
        return {key: self.random.randint(1, 9) for key in self.random.sample(KEYS, self.random.randint(0, len(KEYS)))}

    async def _attempt(self, txid: int, batch: Batch) -> bool:
        """Run one attempt at all tasks, in any order. Return False if one died."""
        self.number += self.random.choice([1, 2, 2**32])
        attempt, is_done = TransactionAttempt(txid, self.number), True
        for index in self.random.sample(range(TASKS), TASKS):
            share = {self._key(key): amount for key, amount in batch.items() if KEYS.index(key) % TASKS == index}
            faulty = FaultyStore(self.stores[index], at_random(self.random, 0.25, self.faults), self.late)
            opened: OpenValues[Any, int] = OpenValues(faulty, context(task_index=index, tasks=TASKS), str(self.values))
            try:
                await opened.update(attempt, share, add, kind=self.kind, key_fields=self.fields)
            except Died:
                is_done = False
            if self.random.random() < 0.2:
                await self._deliver()
        return is_done

    async def _deliver(self) -> None:
        """Deliver the calls of dead tasks in any order."""
        late, self.late[:] = self.late[:], []
        for call in self.random.sample(late, len(late)):
            self.delivered += 1
            await call()


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once, and write to Redis in many parts."""
    monkeypatch.setattr(retry, "BACKOFF", Backoff(0.0001, 5.0))
    monkeypatch.setattr(redis_values, "KEYS_PER_PART", 2)


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
@pytest.mark.guarantee("TX-8")
async def test_stored_values_equal_those_of_a_sequential_interpreter(new_map: NewMap, place: str, kind: ValueKind, quickly: None) -> None:
    replays = delivered = 0
    for seed in range(SEEDS[place]):
        history = History(new_map(f"seed-{seed}"), kind, seed)
        await history.play(8)
        assert await read_values(history.values) == history.expected, f"seed {seed}"
        replays, delivered = replays + history.replays, delivered + history.delivered
    assert replays > SEEDS[place]
    assert delivered > SEEDS[place] // 4


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
@pytest.mark.guarantee("TX-8")
async def test_redis_may_fail_at_any_script(
    redis_server: RedisServer, kind: ValueKind, quickly: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may die between two parts of a write, and of a rollback."""
    random = Random(11)
    run = redis_values.RedisLink.run

    async def faulty(link: Any, script: Any, keys: Any, args: Any) -> Any:
        fault = random.random()
        if fault < 0.04:
            raise StateUnavailable("injected: refused")
        if fault < 0.08:
            raise Died
        answer = await run(link, script, keys, args)
        if fault < 0.12:
            raise StateUnavailable("injected: the answer is lost")
        if fault < 0.16:
            raise Died
        return answer

    for seed in range(8):
        with redis_server.client() as client:
            client.flushall()
        history = History(RedisValues(f"redis://{HOST}:{redis_server.port}/0", "words"), kind, seed, ("none",))
        with monkeypatch.context() as patch:
            patch.setattr(redis_values.RedisLink, "run", faulty)
            await history.play(8)
        assert await read_values(history.values) == history.expected, f"seed {seed}"


async def test_any_call_of_a_fenced_task_raises(new_map: NewMap) -> None:
    words = new_map("words")
    store = await words.store(make=True)
    opened: OpenValues[str, int] = OpenValues(store, context(), str(words))
    await opened.update(TransactionAttempt(1, 2**32 + 1), {"a": 1}, add, kind="opaque")
    for txid in (1, 2, 3):
        for changes in ({}, {"a": 1}, {"b": 1}):
            with pytest.raises(StateFenced):
                await opened.update(TransactionAttempt(txid, 9), changes, add, kind="opaque")
    await store.close()
    assert await read_values(words) == {"a": 1}
