"""Compares `LayeredState` with a dict, for any sequence of changes, commits, rollbacks, folds, failures and crashes."""

import asyncio
import copy
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from engine.errors import StateUnavailable
from engine.state import LayeredState, StatePlace, codec_named, delta, fold_committed, layered
from tests.state.slow_store import AnySlowStore, SlowLookupStore, SlowProvider, SlowResidentStore
from tests.tiers import cases

KEYS: list[Any] = ["a", "b", 1, True, 2.5, None, b"a", ("t", 1), ("t", 1.0), 10]
PLACE = StatePlace("count", 0, 1, True, 8)
MISSING = object()
few = st.integers(0, 3).map(lambda number: number == 3)
keys = st.sampled_from(KEYS)
values = st.one_of(st.integers(0, 99), st.lists(st.integers(0, 9), max_size=2), st.lists(st.integers(0, 9), max_size=2), st.none())


@pytest.fixture(autouse=True, scope="module")
def _small_steps() -> Iterator[None]:
    """Make all slices very small, and folds frequent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta, "KEYS_PER_BLOB", 2)
        patch.setattr(layered, "KEYS_PER_TURN", 1)
        patch.setattr(layered, "ROWS_PER_TURN", 2)
        patch.setattr(layered, "FOLD_TXIDS", 2)
        patch.setattr(layered, "FOLD_KEYS", 8)
        yield


async def patiently(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        try:
            return await work()
        except StateUnavailable:
            await asyncio.sleep(0)


class StateAgainstDict(RuleBasedStateMachine):
    """`now`, `prepared` and `committed` are the expected contents, as separate copies."""

    store_kind: type[AnySlowStore] = SlowLookupStore

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store = self.store_kind()
        self.counted: set[tuple[int, int]] = set()
        self.now: dict[Any, Any] = {}
        self.prepared: dict[Any, Any] | None = None
        self.committed: dict[Any, Any] = {}
        self.changed: set[Any] = set()
        self.txid, self.round, self.starts = -1, 0, 0
        self.writing: asyncio.Task[None] | None = None
        self.begin()

    def counts(self, txid: int, round_: int) -> bool:
        return (txid, round_) in self.counted

    def begin(self) -> None:
        """Start a process."""

        async def start() -> None:
            codec = codec_named("msgpack")
            self.starts += 1
            if self.starts % 3 == 0:  # as after a change of parallelism
                await fold_committed(SlowProvider(self.store), codec, PLACE, self.counts, self.txid)
            self.state: LayeredState[Any, Any] = LayeredState(self.store, codec, PLACE, cache_keys=3)
            await self.state.load(self.txid, self.counts)

        self.store.failures = 0
        self.loop.run_until_complete(start())
        self.iteration: Iterator[tuple[Any, Any]] | None = None

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for each in tasks:
            each.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks))
        for each in tasks:
            if not each.cancelled():
                each.exception()

    def touch(self, *touched: Any) -> None:
        if self.iteration is not None:
            for key in touched:
                self.expected.pop(key, None)

    # A bolt

    @rule(pairs=st.lists(st.tuples(keys, values), min_size=1, max_size=8))
    def put(self, pairs: list[tuple[Any, Any]]) -> None:
        for key, value in pairs:
            self.state.put(key, copy.deepcopy(value))
            self.now[key] = value
            self.changed.add(key)
            self.touch(key)

    @rule(key=keys)
    def delete(self, key: Any) -> None:
        self.state.delete(key)
        self.now.pop(key, None)
        self.changed.add(key)
        self.touch(key)

    @rule(pairs=st.lists(st.tuples(keys, values), max_size=8), maps=st.booleans())
    def put_many(self, pairs: list[tuple[Any, Any]], maps: bool) -> None:
        pairs = copy.deepcopy(pairs)
        self.state.put_many(dict(pairs) if maps else pairs)
        for key, value in copy.deepcopy(pairs):
            self.now[key] = value
            self.changed.add(key)
            self.touch(key)

    @rule(counted=st.lists(keys, max_size=8), maps=st.booleans(), raises=st.booleans())
    def add_many(self, counted: list[Any], maps: bool, raises: bool) -> None:
        """Count keys in a call. It may raise, and then changes nothing."""
        counted = [key for key in counted if not isinstance(self.now.get(key, 0), list | None)]
        self.state.guard_call()
        self.state.add_many(Counter(counted) if maps else counted)
        if raises:
            self.state.undo_call()
            return
        self.state.end_call()
        for key in counted:
            self.now[key] = self.now.get(key, 0) + 1
            self.changed.add(key)
            self.touch(key)

    @rule(wanted=st.lists(keys, max_size=8))
    def get_many(self, wanted: list[Any]) -> None:
        assert self.state.get_many(wanted, MISSING) == [self.now.get(key, MISSING) for key in wanted]

    @rule(key=keys, puts=st.booleans())
    def change_in_place(self, key: Any, puts: bool) -> None:
        value = self.state.get(key)
        if isinstance(value, list):
            value.append(7)
            if puts:
                self.state.put(key, value)
                self.now[key] = [*self.now[key], 7]
                self.changed.add(key)
            self.touch(key)

    @rule()
    def get_all(self) -> None:
        for key in KEYS:
            assert self.state.get(key, MISSING) == self.now.get(key, MISSING), key
            assert (key in self.state) == (key in self.now)

    @rule()
    def items(self) -> None:
        found = list(self.state.items())
        assert len(found) == len(dict(found)), "a key came twice"
        assert dict(found) == self.now

    @precondition(lambda self: self.iteration is None)
    @rule()
    def begin_items(self) -> None:
        self.iteration = self.state.items()
        self.seen: list[Any] = []
        self.expected = copy.deepcopy(self.now)

    @precondition(lambda self: self.iteration is not None)
    @rule(count=st.integers(1, 8), ends=st.booleans())
    def go_on_with_items(self, count: int, ends: bool) -> None:
        assert self.iteration is not None
        for key, value in self.iteration:
            self.seen.append(key)
            if key in self.expected:
                assert value == self.expected.pop(key)
            count -= 1
            if count == 0 and not ends:
                return
        assert len(self.seen) == len(set(self.seen)), "a key came twice"
        assert not self.expected, "a key that existed all the time was not found"
        self.iteration = None

    # Checkpoints

    @precondition(lambda self: self.prepared is None)
    @rule(turns=st.integers(0, 12))
    def prepare(self, turns: int) -> None:
        self.round += 1
        self.state.freeze(self.txid + 1, self.round)
        self.prepared = copy.deepcopy(self.now)
        self.changed.clear()
        self.writing = self.loop.create_task(patiently(self.state.write_frozen))
        self.turns(turns)

    @rule(turns=st.integers(0, 12), cancels=st.booleans())
    def commit(self, turns: int, cancels: bool) -> None:
        if self.prepared is None:
            self.prepare(turns)
        assert self.writing is not None
        assert self.prepared is not None
        self.loop.run_until_complete(self.writing)
        self.txid += 1
        self.counted.add((self.txid, self.round))
        self.committed, self.prepared = self.prepared, None
        task = self.loop.create_task(self.state.commit(self.txid))
        self.turns(turns)
        self.get_all()
        if cancels:
            task.cancel()
        self.loop.run_until_complete(asyncio.wait([task]))
        if not task.cancelled():
            task.exception()
        self.loop.run_until_complete(patiently(lambda: self.state.commit(self.txid)))
        self.loop.run_until_complete(patiently(lambda: self.state.commit(self.txid)))  # a second commit has no effect

    @rule(really=few)
    def roll_back(self, really: bool) -> None:
        if not really:
            return
        self.loop.run_until_complete(self.state.rollback())
        self.round += 1
        self.touch(*KEYS)
        self.now, self.prepared = copy.deepcopy(self.committed), None
        self.changed.clear()

    @rule(really=few)
    def instance_dies(self, really: bool) -> None:
        if not really:
            return
        self.state.drop_changes()
        self.touch(*KEYS)
        self.now = copy.deepcopy(self.committed if self.prepared is None else self.prepared)
        self.changed.clear()

    # The store

    @rule(turns=st.integers(0, 30))
    def fold(self, turns: int) -> None:
        self.loop.create_task(patiently(self.state.fold))
        self.turns(turns)

    @rule(count=st.integers(1, 30))
    def time_passes(self, count: int) -> None:
        self.turns(count)

    @rule(count=st.integers(0, 4))
    def store_is_away(self, count: int) -> None:
        self.store.failures = count

    @rule(really=few, closes=st.booleans())
    def process_ends(self, really: bool, closes: bool) -> None:
        if not really:
            return
        if closes:
            self.loop.run_until_complete(patiently(self.state.close))
            assert not [name for name in self.store.staged if name[0] <= self.txid and name in self.counted]
        self.cancel_all()
        self.prepared = None
        self.now = copy.deepcopy(self.committed)
        self.changed.clear()
        self.begin()

    def teardown(self) -> None:
        self.cancel_all()
        self.get_all()
        self.items()
        assert self.store.most_writing <= 2, "only writes of the newest round and of one old round may run"
        self.process_ends(really=True, closes=False)
        self.get_all()
        self.items()
        self.cancel_all()
        self.loop.close()


class ResidentAgainstDict(StateAgainstDict):
    store_kind = SlowResidentStore


@pytest.mark.guarantee("CP-6", "CP-7")
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("machine", [StateAgainstDict, ResidentAgainstDict])
def test_random_operations_agree_with_a_dict(machine: type[StateAgainstDict], seed: int) -> None:
    """The same rules with weights, which reach deeper states than Hypothesis. Hypothesis can shrink its findings."""
    chance = random.Random(seed)
    life = machine()
    for _ in range(200):
        one_step(life, chance)
    life.teardown()


def one_step(life: StateAgainstDict, chance: random.Random) -> None:
    """Choose one rule by weight."""

    def value() -> Any:
        return chance.choice([chance.randrange(100), None, [], [chance.randrange(9)], [1, 2]])

    steps: list[tuple[int, Callable[[], None]]] = [
        (3, lambda: life.put([(chance.choice(KEYS), value()) for _ in range(chance.randrange(1, 6))])),
        (1, lambda: life.delete(chance.choice(KEYS))),
        (2, lambda: life.put_many([(chance.choice(KEYS), value()) for _ in range(chance.randrange(6))], chance.random() < 0.5)),
        (2, lambda: life.add_many(chance.choices(KEYS, k=chance.randrange(6)), chance.random() < 0.5, chance.random() < 0.3)),
        (1, lambda: life.get_many(chance.choices(KEYS, k=chance.randrange(6)))),
        (2, lambda: life.change_in_place(chance.choice(KEYS), chance.random() < 0.5)),
        (1, lambda: life.get_all() if chance.random() < 0.5 else life.items()),
        (1, lambda: life.begin_items() if life.iteration is None else life.go_on_with_items(chance.randrange(1, 5), chance.random() < 0.5)),
        (2, lambda: life.prepare(chance.randrange(8)) if life.prepared is None else life.time_passes(2)),
        (2, lambda: life.commit(chance.randrange(10), chance.random() < 0.5)),
        (1, lambda: life.time_passes(chance.randrange(1, 10))),
        (1, lambda: life.fold(chance.randrange(10))),
        (1, lambda: life.store_is_away(chance.randrange(1, 4) * (chance.random() < 0.3))),
        (1, lambda: life.roll_back(chance.random() < 0.6)),
        (1, lambda: life.instance_dies(chance.random() < 0.3)),
        (1, lambda: life.process_ends(chance.random() < 0.3, chance.random() < 0.5)),
    ]
    chance.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()


_settings = settings(max_examples=cases(60), stateful_step_count=50, deadline=None)
TestStateAgainstDict = pytest.mark.guarantee("CP-6", "CP-7")(StateAgainstDict.TestCase)
TestStateAgainstDict.settings = _settings
TestResidentAgainstDict = pytest.mark.guarantee("CP-6", "CP-7")(ResidentAgainstDict.TestCase)
TestResidentAgainstDict.settings = _settings
