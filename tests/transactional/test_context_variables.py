"""Context variables in batches: plain methods share those of the task, the awaited ones of an attempt have their own (ACK-17)."""

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from engine import BasicBolt, Tuple
from tests.transactional.batch_topologies import Batches, BatchesEmitter, Store, Sums, run_batches, summing

pytestmark = pytest.mark.guarantee("ACK-17")
OWNER: ContextVar[str] = ContextVar("OWNER", default="nobody")
BATCHES = [[1, 2], [3, 4], [5, 6]]


class Owned(Sums):
    """Sets a variable in `prepare`, reads it in each method, and resets it in `cleanup`."""

    seen: list[str]

    def own(self) -> str:
        return f"attempt {self.attempt}"

    def note(self) -> None:
        assert OWNER.get() == self.own(), (OWNER.get(), self.own())
        self.seen.append(OWNER.get())

    def prepare(self) -> None:
        super().prepare()
        self.token = OWNER.set(self.own())

    def execute(self, tup: Tuple) -> None:
        self.note()
        super().execute(tup)

    def finish_batch(self) -> None:
        self.note()
        super().finish_batch()

    def cleanup(self) -> None:
        self.note()
        OWNER.reset(self.token)


def async_methods(*names: str) -> type[Any]:
    """Return an Owned whose methods of these names wait before and after their work."""

    def made(name: str) -> Any:
        async def later(self: Owned, *arguments: Any) -> None:
            await asyncio.sleep(0.01)
            getattr(Owned, name)(self, *arguments)
            await asyncio.sleep(0.01)

        return later

    return type("Made", (Owned,), {name: made(name) for name in names})


@pytest.mark.parametrize(
    "names",
    [
        ("prepare", "execute", "finish_batch", "cleanup"),
        ("prepare", "execute", "finish_batch"),
        ("prepare",),
        ("prepare", "finish_batch"),
        ("prepare", "execute"),
    ],
    ids="-".join,
)
def test_each_attempt_of_a_bolt_with_an_async_prepare_has_its_own_variables(names: tuple[str, ...]) -> None:
    seen: list[str] = []
    store = Store()
    made = async_methods(*names)
    made.seen = seen
    finished = run_batches(summing(Batches(BATCHES), store, sums=made, tasks=1))
    assert finished.errors == ()
    assert store.by_txid == {1: 3, 2: 7, 3: 11}
    assert len(seen) == 12, "two calls of execute, finish_batch and cleanup of each attempt"
    assert len(set(seen)) == 3


@pytest.mark.parametrize("names", [(), ("execute",), ("execute", "finish_batch")], ids="-".join)
def test_the_methods_of_an_attempt_see_what_a_plain_prepare_has_set(names: tuple[str, ...]) -> None:
    class Made(async_methods(*names)):  # type: ignore[misc]
        seen: list[str] = []

        def own(self) -> str:
            return "task"

        def cleanup(self) -> None:
            self.note()

    store = Store()
    finished = run_batches(summing(Batches(BATCHES), store, sums=Made, tasks=1))
    assert finished.errors == ()
    assert store.by_txid == {1: 3, 2: 7, 3: 11}
    assert Made.seen == ["task"] * 12


@pytest.mark.parametrize("form", ["plain", "async", "threads"])
def test_a_basic_bolt_keeps_the_variables_of_prepare_over_all_batches(form: str) -> None:
    seen: list[str] = []

    class Passes(BasicBolt):
        output_fields = "number"

        def prepare(self) -> None:
            self.token = OWNER.set("basic")

        def execute(self, tup: Tuple) -> Any:
            return self.later(tup) if form == "async" else self.now(tup)

        def now(self, tup: Tuple) -> tuple[Any]:
            seen.append(OWNER.get())
            return (tup[-1],)

        async def later(self, tup: Tuple) -> tuple[Any]:
            await asyncio.sleep(0)
            return self.now(tup)

        def cleanup(self) -> None:
            OWNER.reset(self.token)

    if form == "async":
        Passes.execute = Passes.later  # type: ignore[method-assign]
    Passes.threads = 2 if form == "threads" else 0
    finished = run_batches(summing(Batches(BATCHES), Store(), sums=Passes, tasks=1))
    assert finished.errors == ()
    assert seen == ["basic"] * 6


def test_an_emitter_keeps_the_variables_of_open() -> None:
    seen: list[str] = []

    class Emits(BatchesEmitter):
        async def open(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            self.token = OWNER.set("emitter")

        def emit_batch(self, attempt: Any, metadata: int, collector: Any) -> None:
            seen.append(OWNER.get())
            super().emit_batch(attempt, metadata, collector)

        def commit(self, attempt: Any) -> None:
            seen.append(OWNER.get())

        async def close(self) -> None:  # type: ignore[override]
            OWNER.reset(self.token)

    finished = run_batches(summing(Batches(BATCHES, emitter=Emits), Store()))
    assert finished.errors == ()
    assert set(seen) == {"emitter"}
