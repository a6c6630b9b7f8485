"""Compares a state with namespaces with a dict of dicts, for random changes, drops, checkpoints, folds, crashes and parallelism (CP-12)."""

import asyncio
import random
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from engine.state import StateProvider, delta, layered, provider_of
from engine.state.namespaces import Name
from engine.state.sqlite import store as sqlite_store
from tests.state.namespace_life import KEYS, NAMES, NamespaceLife
from tests.state.slow_store import AnySlowStore, SlowLookupStore, SlowProvider, SlowResidentStore
from tests.tiers import cases

pytestmark = pytest.mark.guarantee("CP-12", "CP-13", "CP-14")
names = st.sampled_from(NAMES)
dropped = st.sampled_from(NAMES[1:])
keys = st.sampled_from(KEYS)
values = st.one_of(st.integers(0, 99), st.lists(st.integers(0, 9), max_size=2), st.none())
changes = st.one_of(
    st.tuples(st.just("put"), names, keys, values),
    st.tuples(st.just("delete"), names, keys),
    st.tuples(st.just("add"), names, st.lists(keys, max_size=5)),
    st.tuples(st.just("drop"), dropped, st.integers(0, 3)),
    st.tuples(st.just("drop_everywhere"), dropped),
)


@pytest.fixture(autouse=True, scope="module")
def _small_steps() -> Iterator[None]:
    """Make all slices very small, and folds frequent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta, "KEYS_PER_BLOB", 2)
        patch.setattr(layered, "KEYS_PER_TURN", 1)
        patch.setattr(layered, "ROWS_PER_TURN", 2)
        patch.setattr(layered, "FOLD_TXIDS", 3)
        patch.setattr(layered, "FOLD_KEYS", 30)
        patch.setattr(sqlite_store, "ROWS_PER_DROP", 2)
        patch.setattr(sqlite_store, "PLACES_PER_DROP", 3)
        patch.setattr(sqlite_store, "ROWS_PER_READ", 2)
        yield


def slow(kind: type[AnySlowStore]) -> Callable[[], StateProvider]:
    """Return a provider of a user whose stores know nothing of namespaces."""
    store = kind()
    return lambda: SlowProvider(store)


class NamespacesAgainstDicts(RuleBasedStateMachine):
    kind: type[AnySlowStore] = SlowLookupStore

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.life = NamespaceLife(self.loop, slow(self.kind))

    def change(self, step: tuple[Any, ...]) -> Callable[[], None]:
        value = getattr(self.life, step[0])
        return lambda: value(*step[1:])

    @rule(step=changes)
    def change_once(self, step: tuple[Any, ...]) -> None:
        self.change(step)()

    @rule(steps=st.lists(changes, max_size=6), raises=st.booleans())
    def call(self, steps: list[tuple[Any, ...]], raises: bool) -> None:
        self.life.call([self.change(step) for step in steps], raises=raises)

    @rule()
    def prepare(self) -> None:
        self.life.prepare()

    @rule()
    def commit(self) -> None:
        self.life.commit()

    @rule()
    def roll_back(self) -> None:
        self.life.roll_back()

    @rule()
    def fold(self) -> None:
        self.life.fold()

    @rule(turns=st.integers(1, 12))
    def time_passes(self, turns: int) -> None:
        self.life.time_passes(turns)

    @rule()
    def check(self) -> None:
        self.life.check()

    @rule(folds=st.booleans())
    def crash(self, folds: bool) -> None:
        self.life.crash(1, folds=folds)

    def teardown(self) -> None:
        self.life.end()
        self.loop.close()


class ResidentNamespaces(NamespacesAgainstDicts):
    kind = SlowResidentStore


_settings = settings(max_examples=cases(40), stateful_step_count=40, deadline=None)
TestNamespacesAgainstDicts = NamespacesAgainstDicts.TestCase
TestNamespacesAgainstDicts.settings = _settings
TestResidentNamespaces = ResidentNamespaces.TestCase
TestResidentNamespaces.settings = _settings


def play(life: NamespaceLife, seed: int, steps: int) -> None:
    """Choose rules by weight, which reaches deeper states than Hypothesis."""
    chance = random.Random(seed)

    def name() -> Name | None:
        return chance.choice(NAMES)

    def dropped_name() -> Any:
        return chance.choice(NAMES[1:])

    def change() -> Callable[[], None]:
        value = chance.choice([chance.randrange(100), None, [chance.randrange(9)]])
        one, key, some, at = name(), chance.choice(KEYS), chance.choices(KEYS, k=chance.randrange(6)), chance.randrange(4)
        gone = dropped_name()
        ways: list[Callable[[], None]] = [
            lambda: life.put(one, key, value),
            lambda: life.delete(one, key),
            lambda: life.add(one, some),
            lambda: life.drop(gone, at),
            lambda: life.drop_everywhere(gone),
        ]
        return chance.choices(ways, [5, 1, 4, 1, 1])[0]

    for _ in range(steps):
        rules: list[tuple[int, Callable[[], None]]] = [
            (8, lambda: change()()),
            (4, lambda: life.call([change() for _ in range(chance.randrange(6))], raises=chance.random() < 0.4)),
            (2, life.prepare),
            (3, life.commit),
            (1, life.roll_back),
            (1, life.fold),
            (2, lambda: life.time_passes(chance.randrange(1, 12))),
            (2, life.check),
            (1, lambda: life.crash(chance.choice([1, 2, 3, 4]), folds=chance.random() < 0.3)),
        ]
        chance.choices([step for _, step in rules], [weight for weight, _ in rules])[0]()
    life.end()


def lived(new_provider: Callable[[], StateProvider], seed: int, *, steps: int = 120, restarts: bool = True) -> None:
    loop = asyncio.new_event_loop()
    try:
        play(NamespaceLife(loop, new_provider, restarts=restarts), seed, steps)
    finally:
        loop.close()


@pytest.mark.parametrize("seed", range(15))
def test_namespaces_in_sqlite_agree_with_dicts(seed: int, tmp_path: Path) -> None:
    lived(lambda: provider_of(f"sqlite:///{tmp_path}/state.db"), seed)


@pytest.mark.parametrize("seed", range(15))
def test_namespaces_in_memory_agree_with_dicts(seed: int) -> None:
    provider = provider_of("memory://")
    lived(lambda: provider, seed, restarts=False)


class StoresOfSlots(SlowProvider):
    """Keeps rows by slot and deltas by task, as a provider of a user does."""

    def __init__(self, kind: type[AnySlowStore]) -> None:
        self._kind = kind
        self._rows: dict[tuple[int, bytes], bytes] = {}
        self._stores: dict[int, AnySlowStore] = {}

    async def store(self, component_id: str, task_index: int, slots: range) -> AnySlowStore:
        store = self._stores.setdefault(task_index, self._kind())
        store.rows = RowsOfSlots(self._rows, slots)
        return store


class RowsOfSlots(MutableMapping[tuple[int, bytes], bytes]):
    """The rows of some slots."""

    def __init__(self, rows: dict[tuple[int, bytes], bytes], slots: range) -> None:
        self._rows, self._slots = rows, slots

    def __getitem__(self, place: tuple[int, bytes]) -> bytes:
        if place[0] not in self._slots:
            raise KeyError(place)
        return self._rows[place]

    def __setitem__(self, place: tuple[int, bytes], value: bytes) -> None:
        assert place[0] in self._slots, "a row of another task was written"
        self._rows[place] = value

    def __delitem__(self, place: tuple[int, bytes]) -> None:
        del self._rows[place]

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return iter([place for place in self._rows if place[0] in self._slots])

    def __len__(self) -> int:
        return sum(1 for _ in self)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("kind", [SlowLookupStore, SlowResidentStore])
def test_namespaces_in_a_store_that_does_not_know_them(kind: type[AnySlowStore], seed: int) -> None:
    provider = StoresOfSlots(kind)
    lived(lambda: provider, seed)
