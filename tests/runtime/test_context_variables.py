"""Each instance has one set of context variables, from `prepare` or `open` to `cleanup` or `close` (ACK-17)."""

import asyncio
import decimal
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar, Token
from typing import Any

import pytest

import engine
from engine import BasicBolt, Bolt, BurstBolt, Spout, SpoutExhausted, StatefulBolt, Tuple, spout
from engine.testing import Feeder
from tests.runtime.stage import EverySecond, Numbers, Sink, chain, play, play_run, running

pytestmark = pytest.mark.guarantee("ACK-17")
OWNER: ContextVar[str] = ContextVar("OWNER", default="nobody")
LAST: ContextVar[int] = ContextVar("LAST", default=-1)


class Owned(BasicBolt):
    """Sets a variable in `prepare`, reads it in each call, and resets it in `cleanup`."""

    seen: list[str]

    def prepare(self) -> None:
        self.token: Token[str] = OWNER.set(f"task {self.context.task_id}")

    def execute(self, tup: Tuple) -> Any:
        self.seen.append(OWNER.get())

    def cleanup(self) -> None:
        self.seen.append(f"end of {OWNER.get()}")
        OWNER.reset(self.token)
        self.seen.append(OWNER.get())


class Awaited(Owned):
    async def prepare(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().prepare()
        await asyncio.sleep(0)

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0)
        super().execute(tup)

    async def cleanup(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().cleanup()


class Concurrent(Awaited):
    concurrency = 3


class InThreads(Owned):
    threads = 2


class Generates(Owned):
    output_fields = "number"

    def execute(self, tup: Tuple) -> Iterator[tuple[int]]:
        super().execute(tup)
        yield (tup[0],)


class AsyncGenerates(Awaited):
    output_fields = "number"

    async def execute(self, tup: Tuple) -> AsyncIterator[tuple[int]]:  # type: ignore[override]
        await super().execute(tup)
        yield (tup[0],)


class Bursts(BurstBolt):
    seen: list[str]
    prepare = Owned.prepare
    cleanup = Owned.cleanup

    def execute_many(self, burst: Any) -> None:
        self.seen.extend(OWNER.get() for _ in burst)


class AwaitedBursts(Bursts):
    async def execute_many(self, burst: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().execute_many(burst)


class Keeps(StatefulBolt):
    """Reads the variable in each hook, too."""

    seen: list[str]
    prepare = Owned.prepare
    cleanup = Owned.cleanup

    def init_state(self, state: Any) -> None:
        assert OWNER.get() == "task 2"

    def execute(self, tup: Tuple) -> None:
        self.seen.append(OWNER.get())
        self.collector.ack(tup)

    def pre_prepare(self, txid: int) -> None:
        assert OWNER.get() == "task 2"

    async def pre_commit(self, txid: int) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        assert OWNER.get() == "task 2"


FORMS = [Owned, Awaited, Concurrent, InThreads, Generates, AsyncGenerates, Bursts, AwaitedBursts, Keeps]


@pytest.mark.parametrize("form", FORMS)
def test_a_variable_of_prepare_is_there_in_each_call_and_in_cleanup(form: type[Any]) -> None:
    seen: list[str] = []
    run = play_run(chain(lambda: Numbers(5), type("Made", (form,), {"seen": seen})))
    assert seen == [*["task 2"] * 5, "end of task 2", "nobody"]
    assert run.snapshot().errors == ()
    assert OWNER.get() == "nobody"


@pytest.mark.parametrize("on_error", ["fail", "restart"])
@pytest.mark.parametrize("form", [Owned, Awaited, Bursts])
def test_a_fresh_instance_begins_with_the_variables_of_the_run(form: type[Any], on_error: Any) -> None:
    seen: list[str] = []
    found: list[str] = []

    class Made(form):  # type: ignore[misc]
        def prepare(self) -> Any:
            found.append(OWNER.get())
            return super().prepare()

    Made.seen = seen

    async def main() -> None:
        OWNER.set("the run")
        async with running(chain(lambda: EverySecond(100), Made), on_error=on_error) as run:
            await asyncio.sleep(2.5)
            run.kill_task(2)
            await asyncio.sleep(2.5)
            run.restart_task(2)
            await asyncio.sleep(2.5)
            before = len(seen)
            await asyncio.sleep(2.5)
            assert len(seen) > before
            assert set(seen[before:]) == {"task 2"}
        assert OWNER.get() == "the run"

    play(main)
    assert found == ["the run"] * 3
    assert set(seen) == {"task 2", "end of task 2", "the run"}
    assert seen.count("end of task 2") == 2, "a killed instance is not closed"


def test_two_tasks_and_two_runs_have_their_own() -> None:
    seen: list[str] = []
    builder = engine.TopologyBuilder("two")
    builder.set_spout("source", lambda: Numbers(8))
    builder.set_bolt("owned", type("Made", (Owned,), {"seen": seen}), parallelism=2).shuffle_grouping("source")
    topology = builder.build()

    async def main() -> None:
        async with running(topology) as first, running(topology) as second:
            await asyncio.gather(first.completed(), second.completed())

    play(main)
    assert sorted(seen) == sorted([*(["task 2"] * 8), *(["task 3"] * 8), *(["end of task 2", "end of task 3"] * 2), *(["nobody"] * 4)])


@pytest.mark.parametrize(("form", "is_kept"), [(Owned, True), (Awaited, True), (Concurrent, False), (InThreads, False)])
def test_calls_one_at_a_time_share_the_variables_and_concurrent_calls_get_a_copy(form: type[Any], *, is_kept: bool) -> None:
    before: list[int] = []

    class Made(form):  # type: ignore[misc]
        seen: list[str] = []

        def execute(self, tup: Tuple) -> Any:
            if form in (Awaited, Concurrent):
                return self.later(tup)
            return self.note(tup)

        async def later(self, tup: Tuple) -> None:
            await asyncio.sleep(0)
            self.note(tup)

        def note(self, tup: Tuple) -> None:
            before.append(LAST.get())
            LAST.set(tup[0])

    if form in (Awaited, Concurrent):
        Made.execute = Made.later  # type: ignore[method-assign]
    play_run(chain(lambda: Numbers(4), Made))
    assert before == ([-1, 0, 1, 2] if is_kept else [-1] * 4)


class Rows(Numbers):
    """Sets a variable in `open`, and reads it in each method."""

    seen: dict[str, set[str]]

    def note(self, method: str) -> None:
        self.seen.setdefault(method, set()).add(OWNER.get())

    def open(self) -> None:
        super().open()
        self.token = OWNER.set("rows")
        self.context.create_task(self.work())

    async def work(self) -> None:
        self.note("work")
        await asyncio.sleep(0)
        self.note("work")

    def activate(self) -> None:
        self.note("activate")

    def next_tuple(self) -> None:
        self.note("next_tuple")
        super().next_tuple()

    def ack(self, message_id: Any) -> None:
        self.note("ack")

    def fail(self, message_id: Any) -> None:
        self.note("fail")

    def deactivate(self) -> None:
        self.note("deactivate")

    def close(self) -> None:
        self.note("close")
        OWNER.reset(self.token)


class AwaitedRows(Rows):
    async def open(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().open()

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().next_tuple()

    async def ack(self, message_id: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().ack(message_id)

    async def close(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().close()


class FailsOdd(Sink):
    def execute(self, tup: Tuple) -> None:
        (self.collector.fail if tup[0] % 2 else self.collector.ack)(tup)


@pytest.mark.parametrize("form", [Rows, AwaitedRows])
def test_each_method_of_a_spout_has_the_variables_of_open(form: type[Rows]) -> None:
    seen: dict[str, set[str]] = {}
    made = type("Made", (form,), {"seen": seen})

    async def main() -> None:
        async with running(chain(lambda: made(6), FailsOdd)) as run:
            await run.deactivate()
            await run.activate()
            await run.completed()

    play(main)
    assert seen == {key: {"rows"} for key in ("work", "activate", "next_tuple", "ack", "fail", "deactivate", "close")}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_generator_sees_its_own_variables_until_its_end(is_async: bool) -> None:
    seen: list[str] = []

    def rows() -> Iterator[tuple[int]]:
        token = OWNER.set("generator")
        try:
            for number in range(3):
                yield (number,)
                seen.append(OWNER.get())
        finally:
            OWNER.reset(token)
            seen.append(OWNER.get())

    async def later() -> AsyncIterator[tuple[int]]:
        for row in rows():
            await asyncio.sleep(0)
            yield row

    play_run(chain(spout("number")(later if is_async else rows), Sink))
    assert seen == ["generator"] * 3 + ["nobody"]


def test_ticks_and_background_work_have_the_variables_of_prepare() -> None:
    seen: list[str] = []

    class Ticks(Bolt):
        tick_tuple_freq_secs = 1.0

        def prepare(self) -> None:
            OWNER.set("ticks")
            self.context.create_task(self.work())

        async def work(self) -> None:
            await asyncio.sleep(0)
            seen.append(f"work of {OWNER.get()}")

        def execute(self, tup: Tuple) -> None:
            seen.append(OWNER.get())
            if not tup.is_tick:
                self.collector.ack(tup)

    async def main() -> None:
        async with running(chain(lambda: Feeder("number"), Ticks)):
            await asyncio.sleep(2.5)

    play(main)
    assert seen == ["work of ticks", "ticks", "ticks"]


def test_a_precision_of_prepare_holds_in_execute_and_nowhere_else() -> None:
    """The precision is an attribute of a mutable object, which copies of a context share."""
    lengths: list[tuple[int, int]] = []

    def digits() -> int:
        return len(str(decimal.Decimal(1) / decimal.Decimal(7))) - 2

    class Divides(BasicBolt):
        output_fields = "number"

        def prepare(self) -> None:
            decimal.getcontext().prec = 10 * self.context.task_id

        def execute(self, tup: Tuple) -> tuple[Any]:
            lengths.append((self.context.task_id, digits()))
            return (tup[0],)

    assert digits() == 28
    play_run(chain(lambda: Numbers(2), Divides, Divides))
    assert sorted(lengths) == [(2, 20), (2, 20), (3, 30), (3, 30)]
    assert digits() == 28


def test_a_component_that_stops_its_run_while_it_is_closed_does_not_wait_for_itself() -> None:
    runs: list[engine.Run] = []

    class Stops(Sink):
        async def cleanup(self) -> None:
            await runs[0].stop()

    async def main() -> float:
        async with running(chain(lambda: Numbers(1), Stops)) as run:
            runs.append(run)
            await run.completed()
            return asyncio.get_running_loop().time()

    assert play(main) < 1


class Restarts(Spout):
    """Is opened again after each failure, with fresh variables."""

    output_fields = "number"
    found: list[str] = []

    def open(self) -> None:
        self.found.append(OWNER.get())
        OWNER.set(f"instance {len(self.found)}")
        self.polls = 0

    def next_tuple(self) -> None:
        self.found.append(OWNER.get())
        self.polls += 1
        if len(self.found) == 6:
            raise SpoutExhausted
        if self.polls == 2:
            raise ValueError("dies")
        self.collector.emit((self.polls,), self.polls)


def test_a_spout_that_is_restarted_gets_fresh_variables() -> None:
    Restarts.found = []

    async def main() -> None:
        async with running(chain(Restarts, Sink), on_error="restart") as run:
            await run.completed()

    play(main)
    assert Restarts.found == ["nobody", "instance 1", "instance 1", "nobody", "instance 4", "instance 4"]
