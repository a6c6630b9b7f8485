"""A component that cancels its own asyncio task dies and is replaced, and the run goes on (SV-3)."""

import asyncio
from typing import Any

import pytest

import engine
from engine import Bolt, ComponentError, Config, Fields, Spout, SpoutExhausted, StatefulBasicBolt, Tuple
from engine.testing import Capture
from tests.runtime.dying import ends_with_component_error
from tests.runtime.stage import SEED, AtOnce, Endless, EverySecond, FailsTwo, Keeper, Numbers, Sink, chain, loop, play, play_run, running

pytestmark = pytest.mark.guarantee("SV-3")


def cancel_myself() -> None:
    aio_task = asyncio.current_task()
    assert aio_task is not None
    aio_task.cancel()


def cancel_later(secs: float = 1.0) -> None:
    aio_task = asyncio.current_task()
    assert aio_task is not None
    asyncio.get_running_loop().call_later(secs, aio_task.cancel)


class Once(Bolt):
    """Cancels its own task at its first input numbered 3; acks all others."""

    made: list["Once"]

    def __init__(self) -> None:
        self.made.append(self)

    def act(self, tup: Tuple) -> None:
        if tup[0] == 3 and len(self.made) == 1:
            cancel_myself()

    def execute(self, tup: Tuple) -> None:
        self.act(tup)
        self.collector.ack(tup)


class OnceAsync(Once):
    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.act(tup)
        await asyncio.sleep(0.5)
        self.collector.ack(tup)


class OnceAtTheEnd(Once):
    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.collector.ack(tup)
        self.act(tup)


class OnceLate(Once):
    """Cancels by `call_later`, while the call waits."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        if tup[0] == 3 and len(self.made) == 1:
            cancel_later()
        await asyncio.sleep(2)
        self.collector.ack(tup)


class OnceWhileParked(Once):
    """Cancels by `call_later`, while no call runs."""

    def execute(self, tup: Tuple) -> None:
        if tup[0] == 3 and len(self.made) == 1:
            cancel_later()
        self.collector.ack(tup)


BOLTS = [Once, OnceAsync, OnceAtTheEnd, OnceLate, OnceWhileParked]


def fresh(base: type[Any], **members: Any) -> type[Any]:
    return type(f"Fresh{base.__name__}", (base,), {"made": [], "__module__": __name__, **members})


class AndStays(Numbers):
    """Emits its numbers, and is not exhausted before 10 s."""

    def next_tuple(self) -> None:
        if self.waiting or self.context.clock.now() > 30:
            super().next_tuple()


@pytest.mark.parametrize("on_error", ["fail", "restart"])
@pytest.mark.parametrize("base", BOLTS)
def test_a_bolt_that_cancels_its_own_task_dies_and_is_replaced(base: type[Once], on_error: Any) -> None:
    bolt, spout = fresh(base), AndStays(10, replays=True)
    run = play_run(chain(lambda: spout, bolt), Config(on_error=on_error, seed=SEED), limit_secs=200)
    assert run.state == "complete"
    assert sorted(set(spout.acked)) == list(range(10))
    assert len(bolt.made) == 2
    found = run.snapshot().components["bolt1"]
    assert (found.restarts, found.errors) == (1, 1)
    [report] = run.snapshot().errors
    assert report.text.startswith("CancelledError")
    assert report.component_id == "bolt1"


def test_the_report_says_that_user_code_cancelled() -> None:
    bolt = fresh(OnceWhileParked)
    run = play_run(chain(lambda: AndStays(10), bolt))
    assert "cancelled the asyncio task that runs it" in run.snapshot().errors[0].text


def test_a_call_that_cancels_itself_fails_alone() -> None:
    """Each call has its own asyncio task, so no instance dies."""
    bolt, spout = fresh(OnceAsync, concurrency=4), AtOnce(10)
    run = play_run(chain(lambda: spout, bolt))
    assert spout.failed == [3]
    assert [failure.reason for failure in spout.failures] == ["error"]
    assert len(bolt.made) == 1
    assert run.snapshot().components["bolt1"].restarts == 0


@pytest.mark.parametrize("late", [False, True])
def test_a_bolt_that_cancels_itself_repeatedly_does_not_end_the_run(late: bool) -> None:
    made: list[Any] = []

    class Always(Bolt):
        def prepare(self) -> None:
            made.append(self)

        async def execute(self, tup: Tuple) -> None:
            if late:
                cancel_later(0.1)
            else:
                cancel_myself()
            await asyncio.sleep(1)

    spout = EverySecond(100)
    run = play_run(chain(lambda: spout, Always), limit_secs=500)
    assert run.state == "complete"
    assert sorted(spout.failed) == list(range(100))
    assert 3 < len(made) < 90


@pytest.mark.parametrize("method", ["next_tuple", "async next_tuple", "ack", "async ack", "fail", "late"])
@pytest.mark.parametrize("on_error", ["fail", "restart"])
def test_a_spout_that_cancels_its_own_task_dies_and_is_replaced(method: str, on_error: Any) -> None:
    made: list[Any] = []

    class Cancels(Numbers):
        def __init__(self) -> None:
            super().__init__(6)
            made.append(self)

        def act(self, where: str) -> None:
            if where == method and len(made) == 1 and len(self.waiting) < 4:
                cancel_myself()

        def open(self) -> None:
            super().open()
            if method == "late" and len(made) == 1:
                self.late = False

        def next_tuple(self) -> None:
            if method == "late" and len(made) == 1 and not self.late:
                self.late = True
                cancel_later(0.5)
            if self.waiting or self.context.clock.now() > 2:
                super().next_tuple()
            self.act("next_tuple")

        def ack(self, message_id: Any) -> None:
            super().ack(message_id)
            self.act("ack")

        def fail(self, message_id: Any) -> None:
            super().fail(message_id)
            self.act("fail")

    class AsyncCancels(Cancels):
        async def next_tuple(self) -> None:  # type: ignore[override]
            Cancels.next_tuple(self)
            self.act("async next_tuple")
            await asyncio.sleep(0.01)

    class AsyncAck(Cancels):
        async def ack(self, message_id: Any) -> None:  # type: ignore[override]
            Numbers.ack(self, message_id)
            self.act("async ack")
            await asyncio.sleep(0.01)

    form = {"async next_tuple": AsyncCancels, "async ack": AsyncAck}.get(method, Cancels)
    run = play_run(chain(form, FailsTwo), Config(on_error=on_error, seed=SEED), limit_secs=100)
    assert run.state == "complete"
    found = run.snapshot().components["source"]
    assert found.errors == 1
    assert run.snapshot().errors[0].text.startswith("CancelledError")
    assert len(made) == 1 + found.restarts
    assert sorted(made[-1].acked + made[-1].failed) == list(range(6))
    if on_error == "restart" or method in ("late", "next_tuple", "ack", "fail"):
        assert len(made) == 2


@pytest.mark.parametrize("method", ["prepare", "async prepare", "open", "async open"])
def test_a_prepare_that_always_cancels_itself_is_retried_and_then_ends_the_start(method: str) -> None:
    tries: list[str] = []

    class NoBolt(Sink):
        def prepare(self) -> None:
            if method == "prepare":
                tries.append(method)
                cancel_myself()

    class NoAsyncBolt(Sink):
        async def prepare(self) -> None:  # type: ignore[override]
            tries.append(method)
            cancel_myself()
            await asyncio.sleep(1)

    class NoSpout(Endless):
        def open(self) -> None:
            if method == "open":
                tries.append(method)
                cancel_myself()

    class NoAsyncSpout(Endless):
        async def open(self) -> None:  # type: ignore[override]
            tries.append(method)
            cancel_myself()
            await asyncio.sleep(1)

    topology = chain(
        NoAsyncSpout if method == "async open" else NoSpout,
        NoAsyncBolt if method == "async prepare" else NoBolt,
    )

    async def main() -> None:
        with pytest.raises(ComponentError) as caught:
            async with engine.run(topology, Config(max_task_restarts=2)):
                await asyncio.sleep(10)
        assert caught.value.component_id == ("bolt1" if "prepare" in method else "source")
        assert "cancelled" in str(caught.value).lower()

    play(main)
    assert 1 <= len(tries) <= 3


@pytest.mark.parametrize("is_async", [False, True])
def test_a_prepare_of_a_replacement_that_cancels_itself_is_retried(is_async: bool) -> None:
    made: list[Any] = []

    class Cancels(Bolt):
        def prepare(self) -> Any:
            made.append(self)
            if 2 <= len(made) <= 4:
                cancel_myself()
            return asyncio.sleep(0.1) if is_async else None

        def execute(self, tup: Tuple) -> None:
            if len(made) == 1:
                cancel_myself()
            else:
                self.collector.ack(tup)

    spout = EverySecond(20)
    run = play_run(chain(lambda: spout, Cancels), limit_secs=500)
    assert run.state == "complete"
    assert len(made) == 5
    assert spout.acked[-5:] == [15, 16, 17, 18, 19]


@pytest.mark.guarantee("SV-2")
def test_a_stateful_bolt_that_cancels_its_own_task_falls_back_to_the_last_checkpoint() -> None:
    made: list[Any] = []
    ends: list[dict[Any, Any]] = []

    class Counts(StatefulBasicBolt):
        def __init__(self) -> None:
            made.append(self)

        async def execute(self, tup: Tuple) -> None:
            self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
            if tup[0] == 3 and len(made) == 1:
                cancel_myself()
            await asyncio.sleep(0.2)

        def cleanup(self) -> None:
            ends.append(dict(self.state.items()))

    spout = Numbers(8, replays=True)
    run = play_run(chain(lambda: spout, Counts), limit_secs=500)
    assert run.state == "complete"
    assert len(made) == 2
    assert ends[-1] == dict.fromkeys(range(8), 1)
    assert sorted(spout.acked) == list(range(8))


def test_a_stop_is_not_a_cancellation_by_user_code() -> None:
    """Given a bolt whose call is cancelled by the stop, then no death is reported."""

    class Long(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(1000)

    async def main() -> None:
        async with running(chain(lambda: Numbers(1), Long)) as run:
            await asyncio.sleep(5)
        assert loop().time() == 5
        assert run.snapshot().errors == ()
        assert run.state == "stopped"

    play(main)


def test_the_cancellation_of_the_host_ends_the_run_without_reports_of_tasks() -> None:
    async def main() -> None:
        async def host() -> None:
            async with running(chain(lambda: Numbers(1), Keeper)) as run:
                runs.append(run)
                await run.completed()

        runs: list[engine.Run] = []
        hosting = asyncio.ensure_future(host())
        await asyncio.sleep(5)
        hosting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hosting
        assert runs[0].state == "stopped"
        assert runs[0].snapshot().errors == ()

    play(main)


def test_with_stop_a_cancellation_by_user_code_ends_the_run() -> None:
    class Cancels(Bolt):
        async def execute(self, tup: Tuple) -> None:
            cancel_myself()
            await asyncio.sleep(1)

    error = ends_with_component_error(chain(lambda: Numbers(1), Cancels), Config(on_error="stop"))
    assert error.component_id == "bolt1"
    assert isinstance(error.error, asyncio.CancelledError)


def test_a_generator_spout_that_cancels_its_task_cannot_resume() -> None:
    """Like a generator that raises (ACK-13), it makes the run drain and end."""

    class Source(Spout):
        output_fields = Fields("number")

        def open(self) -> None:
            self.left = list(range(3))

        async def next_tuple(self) -> None:
            if not self.left:
                raise SpoutExhausted
            self.collector.emit((self.left.pop(),))
            await asyncio.sleep(0)

    sink = Capture()

    @engine.spout("number")
    async def cancels() -> Any:
        yield (1,)
        cancel_myself()
        await asyncio.sleep(1)
        yield (2,)

    async def main() -> None:
        with pytest.raises((ComponentError, TimeoutError)) as caught:
            async with running(chain(cancels, sink)) as run:
                await asyncio.wait_for(run.completed(), 100)
        assert isinstance(caught.value, ComponentError)
        assert caught.value.component_id == "source"

    play(main)
    assert sink.field(0)[:1] == [1]
    assert play_run(chain(Source, Sink)).state == "complete"
