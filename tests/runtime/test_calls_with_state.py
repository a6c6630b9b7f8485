"""State changes and acks of one call are applied together, or not at all (SV-2)."""

import asyncio
import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Config, FailTuple, StatefulBolt, Tuple
from engine.state import LayeredState
from tests.runtime.stage import Numbers, chain, play_run
from tests.state.slow_store import AnySlowStore, SlowLookupStore, SlowResidentStore
from tests.state.states import checkpoint, state_on
from tests.tiers import cases

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
    """One operation of a call."""

    kind: OpKind
    key: Any
    value: Any = None


@dataclass(frozen=True)
class Call:
    """One call of a bolt, and the step before it."""

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
    ops = draw(st.lists(changes | lost, max_size=6))
    before = draw(st.sampled_from(["nothing", "nothing", "nothing", "checkpoint", "prepare", "commit", "rollback"]))
    return Call(tuple(ops), ending, before, draw(st.booleans()))


def change(value: Any, more: Any) -> Any:
    """Change a mutable value in place, at two levels, and return the value to put."""
    if isinstance(value, list):
        value.append(more)
        return value
    if isinstance(value, dict):
        value.setdefault("p", []).append(more)
        return value
    return [more]


def do(state: Any, op: Op) -> None:
    """Do one operation on the state."""
    if op.kind == "put":
        state.put(op.key, copy.deepcopy(op.value))
    elif op.kind == "delete":
        state.delete(op.key)
    elif op.kind == "add":
        state.put(op.key, change(state.get(op.key), op.value))
    elif op.kind == "add without put":
        change(state.get(op.key), op.value)
    elif op.kind == "fill":  # a value that is changed after its put: the state keeps what was put
        value: list[Any] = [copy.deepcopy(op.value)]
        state.put(op.key, value)
        value.append("too late")
        assert state.get(op.key) == value[:-1]
    elif op.kind == "list":
        for _, value in state.items():
            assert value is not MISSING
    else:
        state.get(op.key)


def do_model(model: dict[Any, Any], op: Op) -> None:
    """Do one operation on a dict."""
    if op.kind == "put":
        model[op.key] = copy.deepcopy(op.value)
    elif op.kind == "delete":
        model.pop(op.key, None)
    elif op.kind == "add":
        model[op.key] = change(copy.deepcopy(model.get(op.key)), op.value)
    elif op.kind == "fill":
        model[op.key] = [copy.deepcopy(op.value)]


def same(state: Any, model: dict[Any, Any]) -> None:
    """Check that `items`, `get` and `in` of the state match the model."""
    shown = list(state.items())
    assert len(shown) == len(model)
    assert dict(shown) == model
    for key in KEYS:
        assert state.get(key, MISSING) == model.get(key, MISSING)
        assert (key in state) == (key in model)


# The state by itself


@settings(max_examples=cases(200))
@given(calls=st.lists(calls_drawn(), max_size=12), store_kind=st.sampled_from([SlowLookupStore, SlowResidentStore]))
def test_the_state_has_exactly_the_changes_of_calls_that_returned(calls: list[Call], store_kind: type[AnySlowStore]) -> None:
    """Run any calls with checkpoint steps in between, on both kinds of store. A small cache makes them read rows again."""

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
                state.undo_call()
                model.now = begun
            same(state, model.now)
        await step(state, model, "checkpoint")
        same(state, model.now)
        await step(state, model, "rollback")
        same(state, model.now)

    asyncio.run(main())


class States:
    """Model: dicts with their own copies."""

    def __init__(self) -> None:
        self.now: dict[Any, Any] = {}
        self.prepared: dict[Any, Any] | None = None
        self.committed: dict[Any, Any] = {}
        self.txid = -1


async def step(state: LayeredState[Any, Any], model: States, kind: str) -> None:
    """Do one checkpoint step between two calls, on state and model. Does nothing if the step is not possible now."""
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
    """Does the operations of each input's call. Holds some inputs, and acks them in later calls."""

    def __init__(self, calls: list[Call], end: dict[Any, Any]) -> None:
        self.calls = calls
        self.end = end
        self.held: list[Tuple] = []

    def init_state(self, state: Any) -> None:
        self.state = state

    def begin(self, tup: Tuple) -> Call | None:
        """Return the call of an input. Return None for the last input, and ack all held ones."""
        if tup[0] < len(self.calls):
            return self.calls[tup[0]]
        self.end.update(self.state.items())
        for each in (*self.held, tup):
            self.collector.ack(each)
        self.held.clear()
        return None

    def act(self, tup: Tuple, op: Op) -> None:
        """Do one operation."""
        if op.kind == "hold":
            if tup not in self.held:
                self.held.append(tup)
        elif op.kind == "ack held":
            if self.held:
                self.collector.ack(self.held.pop(0))
        else:
            do(self.state, op)

    def finish(self, tup: Tuple, call: Call) -> None:
        """Ack, then raise or return."""
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
    """Runs the same calls, and waits in between."""

    async def execute(self, tup: Tuple) -> None:
        call = self.begin(tup)
        if call is not None:
            for op in call.ops:
                await asyncio.sleep(0.05 * (tup[0] % 2))
                self.act(tup, op)
            await asyncio.sleep(0)
            self.finish(tup, call)


class Paced(Numbers):
    """Waits for a checkpoint before some inputs."""

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
    """Model of a run: its final state, its acked and its failed inputs."""
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


@settings(max_examples=cases(100))
@given(calls=st.lists(calls_of_run(), max_size=15), kind=st.sampled_from([Programmed, AsyncProgrammed]), burst=st.sampled_from([1, 3, 256]))
def test_a_run_keeps_the_changes_and_acks_of_calls_that_returned(calls: list[Call], kind: type[Programmed], burst: int) -> None:
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
