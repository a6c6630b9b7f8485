"""The changes of one call in its state, and its acks, are applied together, or not at all (SV-2)."""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Bolt, Config, FailTuple, Fields, Run, StatefulBasicBolt, StatefulBolt, TopologyBuilder, Tuple
from engine.state import LayeredState
from tests.executor.stage import AtOnce, LogLines, Numbers, Sink, chain, play, play_run, running
from tests.state.slow_store import AnySlowStore, SlowLookupStore, SlowResidentStore
from tests.state.states import checkpoint, state_on

pytestmark = pytest.mark.guarantee("SV-2")

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
KEYS: list[Any] = ["a", "b", 1, 2**70, ("t", 1), ("t", (2, "x")), NOON, NOON.replace(tzinfo=None)]
ALIASES: dict[Any, list[Any]] = {
    1: [1.0, True],
    ("t", 1): [("t", 1.0)],
    NOON: [NOON.astimezone(timezone(timedelta(hours=2)))],
}
"""Other keys that are equal to these."""
MISSING = object()

OpKind = Literal["put", "delete", "add", "add without put", "fill", "look", "list", "ack held", "hold"]


@dataclass(frozen=True)
class Op:
    """One thing that a call does."""

    kind: OpKind
    key: Any
    value: Any = None


@dataclass(frozen=True)
class Call:
    """One call of a bolt, and what comes before it."""

    ops: tuple[Op, ...]
    ending: Literal["return", "raise", "fail tuple"]
    before: Literal["nothing", "checkpoint", "prepare", "commit", "rollback"]
    acks_early: bool


atoms = st.one_of(st.integers(0, 99), st.none(), st.text("xyz", max_size=2))
values = st.one_of(atoms, st.lists(atoms, max_size=2), st.dictionaries(st.sampled_from("pq"), st.lists(atoms, max_size=2), max_size=2))
keys = st.sampled_from(KEYS).flatmap(lambda key: st.sampled_from([key, key, *ALIASES.get(key, ())]))
changes = st.builds(Op, st.sampled_from(["put", "put", "delete", "add", "add", "fill", "look", "list"]), keys, values)
lost = st.builds(Op, st.just("add without put"), keys, values)


@st.composite
def calls_drawn(draw: st.DrawFn) -> Call:
    ending = draw(st.sampled_from(["return", "return", "raise", "fail tuple"]))
    ops = draw(st.lists(changes if ending == "return" else changes | lost, max_size=6))
    before = draw(st.sampled_from(["nothing", "nothing", "nothing", "checkpoint", "prepare", "commit", "rollback"]))
    return Call(tuple(ops), ending, before, draw(st.booleans()))


def change(value: Any, more: Any) -> Any:
    """Change a mutable value in place, at two levels; the value to put."""
    if isinstance(value, list):
        value.append(more)
        return value
    if isinstance(value, dict):
        value.setdefault("p", []).append(more)
        return value
    return [more]


def do(state: Any, op: Op) -> None:
    """One op on the state."""
    if op.kind == "put":
        state.put(op.key, copy.deepcopy(op.value))
    elif op.kind == "delete":
        state.delete(op.key)
    elif op.kind == "add":
        state.put(op.key, change(state.get(op.key), op.value))
    elif op.kind == "add without put":
        change(state.get(op.key), op.value)
    elif op.kind == "fill":  # what is put is changed afterwards, and read back
        value: list[Any] = []
        state.put(op.key, value)
        value.append(copy.deepcopy(op.value))
        assert state.get(op.key) == value
    elif op.kind == "list":
        for _, value in state.items():
            assert value is not MISSING
    else:
        state.get(op.key)


def do_model(model: dict[Any, Any], op: Op) -> None:
    """The same on a dict."""
    if op.kind == "put":
        model[op.key] = copy.deepcopy(op.value)
    elif op.kind == "delete":
        model.pop(op.key, None)
    elif op.kind == "add":
        model[op.key] = change(copy.deepcopy(model.get(op.key)), op.value)
    elif op.kind == "fill":
        model[op.key] = [copy.deepcopy(op.value)]


def same(state: Any, model: dict[Any, Any]) -> None:
    """The state shows exactly the model: by `items`, by `get`, by `in`."""
    shown = list(state.items())
    assert len(shown) == len(model)
    assert dict(shown) == model
    for key in KEYS:
        assert state.get(key, MISSING) == model.get(key, MISSING)
        assert (key in state) == (key in model)


# The state by itself


@settings(max_examples=200)
@given(calls=st.lists(calls_drawn(), max_size=12), store_kind=st.sampled_from([SlowLookupStore, SlowResidentStore]))
def test_a_state_is_what_the_calls_that_returned_made_it(calls: list[Call], store_kind: type[AnySlowStore]) -> None:
    """Any calls, with steps of checkpoints in between, on both kinds of store; a small cache, so that rows are read again."""

    async def main() -> None:
        state = state_on(store_kind(), cache_keys=3)
        await state.load()
        model = States()
        for call in calls:
            await step(state, model, call.before)
            begun = copy.deepcopy(model.now)
            state.guard_call()
            for op in call.ops:
                do(state, op)
                do_model(model.now, op)
            if call.ending == "return":
                state.end_call()
            else:
                state.take_call_back()
                model.now = begun
            same(state, model.now)
        await step(state, model, "checkpoint")
        same(state, model.now)
        await step(state, model, "rollback")
        same(state, model.now)

    asyncio.run(main())


class States:
    """The model: dicts of their own copies."""

    def __init__(self) -> None:
        self.now: dict[Any, Any] = {}
        self.prepared: dict[Any, Any] | None = None
        self.committed: dict[Any, Any] = {}
        self.txid = -1


async def step(state: LayeredState[Any, Any], model: States, kind: str) -> None:
    """One step of a checkpoint between two calls, on both sides; without effect where it does not fit."""
    if kind == "prepare" and model.prepared is None:
        model.txid += 1
        state.freeze(model.txid)
        model.prepared = copy.deepcopy(model.now)
    elif kind == "commit" and model.prepared is not None:
        await state.write_frozen()
        await state.commit(model.txid)
        model.committed, model.prepared = model.prepared, None
    elif kind == "checkpoint":
        await step(state, model, "commit")
        model.txid += 1
        await checkpoint(state, model.txid)
        model.committed, model.prepared = copy.deepcopy(model.now), None
    elif kind == "rollback":
        await state.rollback()
        model.now, model.prepared = copy.deepcopy(model.committed), None


# In a run


class Programmed(StatefulBolt):
    """Does with each input what its call says. Holds some inputs, and acks them in later calls."""

    def __init__(self, calls: list[Call], end: dict[Any, Any]) -> None:
        self.calls = calls
        self.end = end
        self.held: list[Tuple] = []

    def init_state(self, state: Any) -> None:
        self.state = state

    def begin(self, tup: Tuple) -> Call | None:
        """The call of an input; None, and everything that is held is acked, for the one at the end."""
        if tup[0] < len(self.calls):
            return self.calls[tup[0]]
        self.end.update(self.state.items())
        for each in (*self.held, tup):
            self.collector.ack(each)
        self.held.clear()
        return None

    def act(self, tup: Tuple, op: Op) -> None:
        """Do one op."""
        if op.kind == "hold":
            if tup not in self.held:
                self.held.append(tup)
        elif op.kind == "ack held":
            if self.held:
                self.collector.ack(self.held.pop(0))
        else:
            do(self.state, op)

    def finish(self, tup: Tuple, call: Call) -> None:
        """Raise, or return, with an ack."""
        if call.ending != "return" and tup in self.held:
            self.held.remove(tup)
        if (call.ending == "return" or call.acks_early) and tup not in self.held:
            self.collector.ack(tup)
        if call.ending == "raise":
            raise ValueError("as the program says")
        if call.ending == "fail tuple":
            raise FailTuple("as the program says")

    def execute(self, tup: Tuple) -> Any:
        call = self.begin(tup)
        if call is not None:
            for op in call.ops:
                self.act(tup, op)
            self.finish(tup, call)


class AsyncProgrammed(Programmed):
    """The same, waiting in between."""

    async def execute(self, tup: Tuple) -> None:
        call = self.begin(tup)
        if call is not None:
            for op in call.ops:
                await asyncio.sleep(0.05 * (tup[0] % 2))
                self.act(tup, op)
            await asyncio.sleep(0)
            self.finish(tup, call)


class Paced(Numbers):
    """Waits before the inputs whose call is to come after a checkpoint."""

    def __init__(self, calls: list[Call]) -> None:
        super().__init__(len(calls) + 1)
        self.calls = calls
        self.due = 0.0

    def next_tuple(self) -> None:
        number, now = self.waiting[0] if self.waiting else len(self.calls), self.context.clock.now()
        if number < len(self.calls) and self.calls[number].before == "checkpoint":
            if self.due == 0:
                self.due = now + 0.35
            if now < self.due:
                return
            self.due = 0.0
        super().next_tuple()


held_ops = st.builds(Op, st.sampled_from(["hold", "ack held"]), st.just(None))


@st.composite
def calls_of_run(draw: st.DrawFn) -> Call:
    call = draw(calls_drawn())
    ops = tuple(draw(st.permutations([*call.ops, *draw(st.lists(held_ops, max_size=2))])))
    return Call(ops, call.ending, "checkpoint" if call.before != "nothing" else "nothing", call.acks_early)


def expected(calls: list[Call]) -> tuple[dict[Any, Any], set[int], set[int]]:
    """The model of a run: the state at its end, which inputs are acked, and which fail."""
    model: dict[Any, Any] = {}
    failed: set[int] = set()
    held: list[int] = []
    for number, call in enumerate(calls):
        begun, early = copy.deepcopy(model), []
        for op in call.ops:
            if op.kind == "hold" and number not in held:
                held.append(number)
            elif op.kind == "ack held" and held:
                early.append(held.pop(0))
            else:
                do_model(model, op)
        if call.ending != "return":
            model = begun
            failed |= {number, *early}
            held = [each for each in held if each != number]
    return model, set(range(len(calls) + 1)) - failed, failed


@settings(max_examples=100)
@given(calls=st.lists(calls_of_run(), max_size=15), kind=st.sampled_from([Programmed, AsyncProgrammed]), burst=st.sampled_from([1, 3, 256]))
def test_a_run_keeps_what_the_calls_that_returned_changed_and_acked(calls: list[Call], kind: type[Programmed], burst: int) -> None:
    end: dict[Any, Any] = {}
    spout = Paced(calls)
    config = Config(state_checkpoint_interval_ms=100, burst=burst, seed=1)
    run = play_run(chain(lambda: spout, lambda: kind(calls, end)), config)
    model, acked, failed = expected(calls)
    assert run.state == "complete"
    assert end == model
    assert sorted(spout.acked) == sorted(acked)
    assert sorted(spout.failed) == sorted(failed)
    for number, failure in zip(spout.failed, spout.failures, strict=True):
        assert failure.reason in {"failed", "error"}, (number, failure)
    assert run.snapshot().components["bolt1"].restarts == 0


def final_state(bolt: Callable[[], Any], source: Numbers, **config: Any) -> tuple[dict[Any, Any], Run]:
    """Run source → bolt; the state at its end."""
    end: dict[Any, Any] = {}
    made = bolt()
    made.cleanup = lambda: end.update(made.state.items())
    run = play_run(chain(lambda: source, lambda: made), Config(seed=1, **config))
    return end, run


@pytest.mark.parametrize("raises", [True, False])
def test_a_value_that_is_changed_in_place_without_a_put_is_as_it_was_before_where_the_call_raises(raises: bool) -> None:
    class InPlace(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            if tup[0] == 0:
                self.state.put("seen", [0])
                return
            seen = self.state.get("seen")
            seen.append(tup[0])
            if raises:
                raise ValueError("after the change")
            self.state.put("seen", seen)

    end, _ = final_state(InPlace, AtOnce(3))
    assert end == {"seen": [0] if raises else [0, 1, 2]}


@pytest.mark.parametrize("raising", [{1, 3}, {0, 2, 4}, {0, 1, 2, 3, 4}])
@pytest.mark.parametrize("form", ["generator", "coroutine", "async generator"])
def test_a_call_that_raises_after_its_emits_takes_its_changes_back(form: str, raising: set[int]) -> None:
    class Counts(StatefulBasicBolt):
        output_fields = Fields("count")

        def changed(self, number: int) -> int:
            count = self.state.get("count", 0) + 1
            self.state.put("count", count)
            self.state.put(f"number {number}", [number])
            return int(count)

        def execute(self, tup: Tuple) -> Any:
            yield (self.changed(tup[0]),)
            if tup[0] in raising:
                raise ValueError("after the emit")

    class Waits(Counts):
        async def execute(self, tup: Tuple) -> None:
            self.collector.emit((self.changed(tup[0]),))
            await asyncio.sleep(0.4)
            if tup[0] in raising:
                raise ValueError("after the emit")

    class Yields(Counts):
        async def execute(self, tup: Tuple) -> Any:
            yield (self.changed(tup[0]),)
            await asyncio.sleep(0.4)
            if tup[0] in raising:
                raise ValueError("after the emit")

    forms = {"generator": Counts, "coroutine": Waits, "async generator": Yields}
    end: dict[Any, Any] = {}
    bolt = forms[form]()
    bolt.cleanup = lambda: end.update(bolt.state.items())  # type: ignore[method-assign]
    spout = AtOnce(5)
    play_run(chain(lambda: spout, lambda: bolt, Sink), Config(seed=1, state_checkpoint_interval_ms=100))
    good = [number for number in range(5) if number not in raising]
    assert end == {f"number {number}": [number] for number in good} | ({"count": len(good)} if good else {})
    assert sorted(spout.failed) == sorted(raising)
    assert sorted(spout.acked) == good


@pytest.mark.parametrize(
    "base", [ValueError("raised"), FailTuple("refused"), asyncio.CancelledError("own")], ids=["error", "FailTuple", "cancelled"]
)
def test_whatever_a_call_raises_takes_its_changes_back(base: BaseException) -> None:
    class Raises(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            self.state.put(tup[0], "changed")
            self.state.delete("kept")
            if tup[0] == 0:
                self.state.put("kept", 1)
            elif tup[0] == 1:
                raise base

    end, _ = final_state(Raises, AtOnce(2))
    assert end == {0: "changed", "kept": 1}


def test_a_tick_that_raises_takes_its_changes_and_its_acks_back() -> None:
    class Flushes(StatefulBolt):
        tick_tuple_freq_secs = 1.0

        def init_state(self, state: Any) -> None:
            self.state = state
            self.kept: list[Tuple] = []
            self.ticks = 0

        def execute(self, tup: Tuple) -> None:
            if not tup.is_tick:
                self.kept.append(tup)
                return
            self.ticks += 1
            self.state.put(f"tick {self.ticks}", len(self.kept))
            self.collector.ack(self.kept.pop())
            if self.ticks == 1:
                raise ValueError("the first tick")
            while self.kept:
                self.collector.ack(self.kept.pop())

    spout = AtOnce(4)
    end, run = final_state(Flushes, spout, state_checkpoint_interval_ms=400)
    assert end == {"tick 2": 3}
    assert spout.failed == [3]
    assert sorted(spout.acked) == [0, 1, 2]
    assert [failure.reason for failure in spout.failures] == ["error"]
    assert run.snapshot().components["bolt1"].restarts == 0


def test_an_input_with_several_roots_that_was_acked_before_the_raise_fails_them_all() -> None:
    class Joins(Bolt):
        output_fields = Fields("number")

        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            self.kept.append(tup)
            if len(self.kept) == 2:
                self.collector.emit((tup[0],), self.kept)
                while self.kept:
                    self.collector.ack(self.kept.pop())

    class AcksThenRaises(StatefulBolt):
        def init_state(self, state: Any) -> None:
            self.state = state

        def execute(self, tup: Tuple) -> None:
            self.state.put(tup[0], 1)
            self.collector.ack(tup)
            if tup[0] == 3:
                raise ValueError("after the ack")

    spout, end = AtOnce(6), dict[Any, Any]()
    last = AcksThenRaises()
    last.cleanup = lambda: end.update(last.state.items())  # type: ignore[method-assign]
    play_run(chain(lambda: spout, Joins, lambda: last))
    assert sorted(spout.failed) == [2, 3]
    assert sorted(spout.acked) == [0, 1, 4, 5]
    assert end == {1: 1, 5: 1}


def test_an_ack_that_is_taken_back_is_no_success() -> None:
    """Given a stateful bolt whose every call acks and then raises, then it is renewed after a hundred of them (SV-1)."""

    class AcksThenRaises(StatefulBolt):
        def init_state(self, state: Any) -> None:
            self.state = state

        def execute(self, tup: Tuple) -> None:
            self.collector.ack(tup)
            raise ValueError("after the ack")

    spout = Numbers(150)
    run = play_run(chain(lambda: spout, AcksThenRaises))
    assert sorted(spout.failed) == list(range(150))
    found = run.snapshot().components["bolt1"]
    assert found.restarts == 1
    assert (found.acked, found.failed) == (0, 150)


def test_what_a_call_emits_for_other_inputs_before_it_raises_is_sent() -> None:
    """Only state and acks are taken back: an emit has left. Its tree belongs to an input that goes on."""

    class EmitsForOthers(StatefulBolt):
        output_fields = Fields("number")

        def init_state(self, state: Any) -> None:
            self.first: Tuple | None = None

        def execute(self, tup: Tuple) -> None:
            if self.first is None:
                self.first = tup
                return
            self.collector.emit((tup[0],), self.first)
            if tup[0] == 1:
                raise ValueError("after the emit")
            self.collector.ack(self.first)
            self.collector.ack(tup)

    spout, sink = AtOnce(3), Sink()
    play_run(chain(lambda: spout, EmitsForOthers, lambda: sink))
    assert sink.got == [1, 2]
    assert spout.failed == [1]
    assert sorted(spout.acked) == [0, 2]


def test_changes_of_background_work_are_not_those_of_the_call_that_runs_beside_it() -> None:
    """Given a call that waits and then raises, when background work changes the state meanwhile, then only the call's change is undone."""

    class Beside(StatefulBolt):
        def init_state(self, state: Any) -> None:
            self.state = state
            self.context.create_task(self.work())

        async def work(self) -> None:
            await asyncio.sleep(1)
            self.state.put("background", 1)

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            self.state.put("call", 1)
            await asyncio.sleep(2)
            raise ValueError("after the wait")

    end, _ = final_state(Beside, Numbers(1))
    assert end == {"background": 1}


@pytest.mark.parametrize("on_error", ["fail", "restart"])
def test_hooks_of_a_checkpoint_see_no_change_of_a_call_that_raised(on_error: str) -> None:
    seen: list[dict[Any, Any]] = []

    class Watches(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            self.state.put(tup[0], 1)
            if tup[0] % 2:
                raise ValueError("odd")

        def pre_prepare(self, txid: int) -> None:
            seen.append(dict(self.state.items()))

    class Slow(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.15)
            super().next_tuple()

    play_run(chain(lambda: Slow(10), Watches), Config(on_error=on_error, state_checkpoint_interval_ms=100))  # type: ignore[arg-type]
    assert len(seen) > 5
    assert all(not any(number % 2 for number in state) for state in seen)
    assert seen[-1] == dict.fromkeys((0, 2, 4, 6, 8), 1)


def test_the_store_holds_what_the_calls_that_returned_changed(tmp_path: Any) -> None:
    """A second run on the same store begins with it."""

    class Counts(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            self.state.put("count", self.state.get("count", 0) + 1)
            self.state.put("numbers", [*self.state.get("numbers", []), tup[0]])
            if tup[0] % 3 == 0:
                raise ValueError("a third")

    def topology(spout: Numbers, bolt: Any) -> Any:
        builder = TopologyBuilder("stored")
        builder.set_spout("source", lambda: spout)
        builder.set_bolt("counts", bolt).fields_grouping("source", "number")
        return builder.build()

    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db", seed=1)
    ends: list[dict[Any, Any]] = []

    def counting() -> Counts:
        made = Counts()
        made.cleanup = lambda: ends.append(dict(made.state.items()))  # type: ignore[method-assign]
        return made

    play_run(topology(Numbers(6), counting), config)
    play_run(topology(Numbers(3, first=6), counting), config)
    assert ends == [{"count": 4, "numbers": [1, 2, 4, 5]}, {"count": 6, "numbers": [1, 2, 4, 5, 7, 8]}]


def test_a_cancelled_call_at_the_end_of_a_run_is_not_committed() -> None:
    """A stop cancels the call; its half-done changes are no part of any checkpoint."""
    states: list[Any] = []

    class Long(StatefulBasicBolt):
        async def execute(self, tup: Tuple) -> None:
            self.state.put(tup[0], 1)
            states.append(self.state)
            if tup[0] == 1:
                await asyncio.sleep(1000)

    async def main() -> None:
        async with running(chain(lambda: Numbers(2), Long), state_checkpoint_interval_ms=100):
            await asyncio.sleep(5)

    with LogLines() as log:
        play(main)
    assert not log.having("raised")
    assert len(states) == 2
