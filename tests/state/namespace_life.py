"""A state with namespaces through checkpoints, crashes and changes of the parallelism, beside a plain dict of dicts."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Any

from engine.errors import StateUnavailable
from engine.state import KeyValueState, LayeredState, SealedStores, StatePlace, StateProvider, codec_named, fold_committed
from engine.state.layered import LayeredNamespace
from engine.state.namespaces import Name

NAMES: tuple[Name | None, ...] = (None, 0, -7, 2**63 - 1, "a", "0")
KEYS: tuple[Any, ...] = ("a", "b", "c", 1, 2, b"a", ("t", 1), 2.5)
GROUPS = 16
MISSING = object()
Values = dict[Name | None, dict[Any, Any]]


async def patiently(work: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            return await work()
        except StateUnavailable:
            await asyncio.sleep(0)


class NamespaceLife:
    """`now`, `prepared` and `committed` are the expected values, as separate copies. Keys go to the task that owns them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, new_provider: Callable[[], StateProvider], *, restarts: bool = True) -> None:
        """restarts: False if the provider keeps nothing, so that the states live as long as the test."""
        self.loop = loop
        self.new_provider = new_provider
        self.restarts = restarts
        self.counted: set[tuple[int, int]] = set()
        self.txid, self.round, self.tasks = -1, 0, 1
        self.committed: Values = {name: {} for name in NAMES}
        self.now: Values = copy.deepcopy(self.committed)
        self.prepared: Values | None = None
        self.held: dict[tuple[int, Name], Any] = {}
        self.provider: StateProvider | None = None
        self.run(self.begin(1))

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def place(self, index: int, tasks: int | None = None) -> StatePlace:
        return StatePlace("count", index, tasks or self.tasks, True, GROUPS)

    def counts(self, txid: int, round_: int) -> bool:
        return (txid, round_) in self.counted

    async def begin(self, tasks: int) -> None:
        """Start a process. Another number of tasks folds the deltas of the tasks before, as a start does."""
        self.provider = self.new_provider()
        await self.provider.open("counts")
        stores = SealedStores(self.provider, "counts", {"count": True}, txid=lambda: self.txid, bare=False)
        codec = codec_named("msgpack")
        if tasks != self.tasks:
            for index in range(self.tasks):
                await patiently(lambda index=index: fold_committed(stores, codec, self.place(index), self.counts, self.txid))  # type: ignore[misc]
        self.tasks, self.states, self.held = tasks, [], {}
        for index in range(tasks):
            place = self.place(index)
            store = await stores.store("count", index, place.slots)
            state: LayeredState[Any, Any] = LayeredState(store, codec, place, cache_keys=5)
            await patiently(lambda state=state: state.load(self.txid, self.counts))  # type: ignore[misc]
            await store.check()
            self.states.append(state)

    def index_of(self, key: Any) -> int:
        return self.place(0).slot_of(key) * self.tasks // GROUPS

    def at(self, name: Name | None, index: int, *, fresh: bool = True) -> KeyValueState[Any, Any] | LayeredNamespace:
        """Return the state or the namespace of a task. fresh: ask for it anew, otherwise use one that the bolt has kept."""
        state = self.states[index]
        if name is None:
            return state
        found = state.namespace(name)
        kept = self.held.setdefault((index, name), found)
        assert kept is found, "one namespace has two objects"
        if fresh:
            del self.held[index, name]
        return found

    # A bolt

    def put(self, name: Name | None, key: Any, value: Any) -> None:
        self.at(name, self.index_of(key)).put(key, copy.deepcopy(value))
        self.now[name][key] = value

    def delete(self, name: Name | None, key: Any) -> None:
        self.at(name, self.index_of(key), fresh=False).delete(key)
        self.now[name].pop(key, None)

    def add(self, name: Name | None, keys: list[Any]) -> None:
        for index in range(self.tasks):
            owned = [key for key in keys if self.index_of(key) == index and not isinstance(self.now[name].get(key, 0), list | None)]
            self.at(name, index).add_many(owned)
            for key in owned:
                self.now[name][key] = self.now[name].get(key, 0) + 1

    def drop(self, name: Name, index: int) -> None:
        """Drop a namespace in one task. The keys of the other tasks stay."""
        index %= self.tasks
        self.at(name, index, fresh=False).drop()  # type: ignore[union-attr]
        self.now[name] = {key: value for key, value in self.now[name].items() if self.index_of(key) != index}

    def drop_everywhere(self, name: Name) -> None:
        for index in range(self.tasks):
            self.drop(name, index)

    def call(self, steps: list[Callable[[], None]], *, raises: bool) -> None:
        """Make changes in a call of each bolt. If it raises, they are undone (SV-2)."""
        before = copy.deepcopy(self.now)
        for state in self.states:
            state.guard_call()
        for step in steps:
            step()
        for state in self.states:
            (state.undo_call if raises else state.end_call)()
        if raises:
            self.now = before

    # Checkpoints

    def prepare(self) -> None:
        if self.prepared is None:
            self.round += 1
            for state in self.states:
                state.freeze(self.txid + 1, self.round)
                self.run(patiently(state.write_frozen))
            self.prepared = copy.deepcopy(self.now)

    def commit(self) -> None:
        self.prepare()
        assert self.prepared is not None
        self.txid += 1
        self.counted.add((self.txid, self.round))
        self.committed, self.prepared = self.prepared, None
        for state in self.states:
            self.run(patiently(lambda state=state: state.commit(self.txid)))  # type: ignore[misc]

    def roll_back(self) -> None:
        for state in self.states:
            self.run(state.rollback())
        self.now, self.prepared = copy.deepcopy(self.committed), None

    def fold(self) -> None:
        for state in self.states:
            self.run(patiently(state.fold))

    def time_passes(self, turns: int) -> None:
        """Let background folds go on."""
        for _ in range(turns):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def crash(self, tasks: int, *, folds: bool = False) -> None:
        """End the process, and start another one. folds: end it in order."""
        if not self.restarts:
            self.roll_back()
            return
        for state in self.states:
            self.run(patiently(lambda state=state: state.close(fold=folds)))  # type: ignore[misc]
        assert self.provider is not None
        self.run(self.provider.close())
        self.now, self.prepared = copy.deepcopy(self.committed), None
        self.run(self.begin(tasks))

    # Judging

    def check(self) -> None:
        for name, expected in self.now.items():
            found = {}
            for index, state in enumerate(self.states):
                values = self.at(name, index)
                own = {key for key in KEYS if self.index_of(key) == index}
                items = list(values.items())
                assert len(items) == len(dict(items)), "a key came twice"
                found.update(items)
                asked = sorted(own, key=repr)
                assert values.get_many(asked, MISSING) == [expected.get(key, MISSING) for key in asked]
                assert [key in values for key in asked] == [key in expected for key in asked]
                if name is not None:
                    assert (name in state.namespaces()) == bool(own & expected.keys())
            assert found == expected, name

    def end(self) -> None:
        """Commit the drop of all namespaces, fold it, and check that nothing is left of them."""
        self.check()
        self.crash(self.tasks)
        self.check()
        for name in NAMES[1:]:
            self.drop_everywhere(name)  # type: ignore[arg-type]
        self.commit()
        self.fold()
        self.check()
        for index, state in enumerate(self.states):
            self.held.clear()
            assert not state._namespaces
            assert self.provider is not None
            store = self.run(self.provider.store("count", index, self.place(index).slots))
            assert {key[:1] for key in stored_keys(self.loop, store)} & {b"\xc1"} == set()
        for state in self.states:
            self.run(patiently(state.close))
        assert self.provider is not None
        self.run(self.provider.close())


def stored_keys(loop: asyncio.AbstractEventLoop, store: Any) -> set[bytes]:
    """Return the keys of all rows of a store."""

    async def load() -> set[bytes]:
        return {row.key async for rows in store.load() for row in rows}

    return {row.key for row in store.scan()} if hasattr(store, "scan") else loop.run_until_complete(load())
