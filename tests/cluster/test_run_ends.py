"""How a run that ends says so: log, callbacks, waiters, senders (SV-4)."""

import asyncio
import logging
from typing import Any

import pytest

import engine
from engine import Bolt, ComponentError, Config, Fields, Inlet, InletClosed, RunEnded, Topology, Tuple, TupleFailed
from tests.executor.stage import SEED, Endless, Keeper, LogLines, Numbers, Sink, chain, failing, loop, play, running

pytestmark = pytest.mark.guarantee("SV-4")

CLOSING_SECS = 7.0


class SlowToClose(Sink):
    """Takes seven seconds to close."""

    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup[0],), tup)
        self.collector.ack(tup)

    async def cleanup(self) -> None:
        await asyncio.sleep(CLOSING_SECS)


class Fatal(Bolt):
    """Ends the run at its first input, after a second."""

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(1)
        raise engine.FatalError("the licence has expired", hint="Renew it.")


class Own(BaseException):
    """No Exception."""


class RaisesOwn(Bolt):
    def execute(self, tup: Tuple) -> None:
        raise Own("at the input")


class Raises(Bolt):
    def execute(self, tup: Tuple) -> None:
        raise ValueError("at the input")


@engine.spout("number")
def breaks() -> Any:
    yield (1,)
    raise OSError("source is gone")


def fatal_topology() -> Topology:
    return chain(lambda: Numbers(1), SlowToClose, Fatal)


def entered(topology: Topology, **settings: Any) -> engine.Run:
    return engine.run(topology, Config(seed=SEED, **settings))


def test_completed_raises_before_anything_is_closed() -> None:
    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            with pytest.raises(ComponentError, match="the licence has expired") as caught:
                await run.completed()
            assert loop().time() == 1
            assert run.error is caught.value
        assert run.error is caught.value
        assert loop().time() == 1 + CLOSING_SECS, "leaving waits until all is closed"
        assert run.state == "failed"
        with pytest.raises(ComponentError) as again:
            await run.completed()
        assert again.value is caught.value

    play(main)


@pytest.mark.parametrize("kind", ["fatal", "stop", "restart", "background"])
def test_completed_raises_before_the_component_that_failed_is_closed_itself(kind: str) -> None:
    """Its own `cleanup` may hang: the broken connection that it closes is why it failed."""

    class Closes(Bolt):
        def prepare(self) -> None:
            if kind == "background":
                self.context.create_task(self.execute(None))

        async def execute(self, tup: Tuple | None) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            raise ValueError("broken pipe") if kind in ("stop", "restart") else engine.FatalError("broken pipe")

        async def cleanup(self) -> None:
            await asyncio.sleep(CLOSING_SECS)

    async def main() -> None:
        settings: dict[str, Any] = {"on_error": kind if kind in ("stop", "restart") else "fail", "max_task_restarts": 0}
        source = Endless if kind == "background" else lambda: Numbers(1)
        async with failing(entered(chain(source, Closes), **settings)) as run:
            with pytest.raises(ComponentError, match="broken pipe"):
                await run.completed()
            assert loop().time() == 1
        assert loop().time() == 1 + CLOSING_SECS

    play(main)


@pytest.mark.parametrize(
    ("topology", "settings", "reason"),
    [
        (fatal_topology, {}, "'bolt2' (task 3): the licence has expired. Renew it."),
        (lambda: chain(lambda: Numbers(1), Raises), {"on_error": "stop"}, "'bolt1' (task 2): raised ValueError: at the input"),
        (
            lambda: chain(lambda: Numbers(9), Raises),
            {"on_error": "restart", "max_task_restarts": 2},
            "'bolt1' (task 2): died more than 2 times in 60 s",
        ),
        (lambda: chain(lambda: Numbers(1), RaisesOwn), {}, "'bolt1' (task 2): raised Own: at the input"),
        (lambda: chain(breaks, Sink), {}, "source is gone"),
    ],
    ids=["fatal", "stop", "restart", "base exception", "generator"],
)
def test_one_critical_line_says_why_before_the_end(topology: Any, settings: dict[str, Any], reason: str) -> None:
    def critical() -> list[str]:
        return [record.getMessage() for record in log.records if record.levelno == logging.CRITICAL]

    async def main() -> None:
        async with failing(entered(topology(), **settings)) as run:
            try:
                await run.completed()
            finally:
                assert len(critical()) == 1

    with LogLines() as log:
        play(main)
    [line] = critical()
    assert line.startswith("the run of 'chain' ends: ")
    assert reason in line
    assert "\n" not in line


@pytest.mark.parametrize("ending", ["complete", "drain", "stop", "leave"])
def test_a_run_that_does_not_fail_logs_nothing_critical_and_raises_nothing(ending: str) -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(1), Sink) if ending == "complete" else chain(Endless, Sink)) as run:
            if ending == "complete":
                await run.completed()
            elif ending == "drain":
                await run.drain()
            elif ending == "stop":
                await run.stop()
        await run.completed()
        assert run.error is None

    with LogLines() as log:
        play(main)
    assert not [record for record in log.records if record.levelno >= logging.ERROR]


# on_end


@pytest.mark.parametrize("when", ["before", "inside", "after"])
def test_a_callback_gets_the_error_at_once(when: str) -> None:
    """Given before the run is entered, while it runs, or after it has failed."""
    told: list[tuple[ComponentError | None, float]] = []

    async def main() -> None:
        run = entered(fatal_topology())

        def note(error: ComponentError | None) -> None:
            told.append((error, loop().time()))

        if when == "before":
            run.on_end(note)
        async with failing(run):
            if when == "inside":
                run.on_end(note)
            await run.completed()
        if when == "after":
            assert not told
            run.on_end(note)
        assert told == [(run.error, 1.0 if when != "after" else 1 + CLOSING_SECS)]

    play(main)


def test_a_callback_is_called_once_and_several_are_called_in_order() -> None:
    told: list[str] = []

    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            for name in "abc":
                run.on_end(lambda error, name=name: told.append(name))
            await run.completed()
            await asyncio.sleep(20)
        with pytest.raises(ComponentError, match="licence"):
            await run.stop()

    play(main)
    assert told == ["a", "b", "c"]


def test_a_callback_that_raises_is_logged_and_disturbs_nobody() -> None:
    told: list[object] = []

    def raises(error: ComponentError | None) -> None:
        raise KeyError("in the callback")

    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            run.on_end(raises)
            run.on_end(told.append)
            await run.completed()
        run.on_end(raises)

    with LogLines() as log:
        play(main)
    assert len(told) == 1
    lines = [record for record in log.records if record.levelno == logging.ERROR and "on_end" in record.getMessage()]
    assert len(lines) == 2
    assert all(record.exc_info and isinstance(record.exc_info[1], KeyError) for record in lines)


@pytest.mark.parametrize("ending", ["complete", "drain", "stop", "leave"])
def test_a_run_that_does_not_fail_calls_back_with_none_once_all_is_closed(ending: str) -> None:
    told: list[tuple[ComponentError | None, float]] = []
    closed_at: list[float] = []

    class Closes(Sink):
        async def cleanup(self) -> None:
            await asyncio.sleep(CLOSING_SECS)
            closed_at.append(loop().time())

    async def main() -> None:
        run = entered(chain(lambda: Numbers(1), Closes) if ending == "complete" else chain(Endless, Closes))
        run.on_end(lambda error: told.append((error, loop().time())))
        async with run:
            await asyncio.sleep(0)
            if ending == "complete":
                await run.completed()
            elif ending == "drain":
                await run.drain()
            elif ending == "stop":
                await run.stop()
        assert told == [(None, closed_at[0])]
        late: list[object] = []
        run.on_end(late.append)
        assert late == [None]

    play(main)


def test_a_callback_may_stop_another_run_and_set_an_event() -> None:
    """As a host does that ends what belongs to the run."""

    async def main() -> None:
        over = asyncio.Event()
        async with running(chain(Endless, Sink)) as other:
            async with failing(entered(fatal_topology())) as run:
                run.on_end(lambda error: over.set())
                await over.wait()
                assert loop().time() == 1
                await other.stop()
            assert other.state == "stopped"

    play(main)


def test_a_start_that_fails_calls_back_too() -> None:
    told: list[ComponentError | None] = []

    class NoBolt(Sink):
        def prepare(self) -> None:
            raise OSError("not there")

    async def main() -> None:
        run = entered(chain(Endless, NoBolt), max_task_restarts=0)
        run.on_end(told.append)

        async def host() -> None:
            async with run:
                raise AssertionError("it has started")

        with pytest.raises(ComponentError) as caught:
            await host()
        assert told == [caught.value]

    play(main)


# Whoever waits


@pytest.mark.parametrize(("call", "when"), [("drain", "before"), ("drain", "after"), ("stop", "after")])
def test_drain_and_stop_raise_what_ended_the_run(call: str, when: str) -> None:
    """Called before the failure, which comes while it drains, or after it."""

    async def main() -> None:
        async with failing(entered(fatal_topology(), drain_timeout_secs=100)) as run:
            await asyncio.sleep(0.5 if when == "before" else 3)
            with pytest.raises(ComponentError, match="licence") as caught:
                await (run.drain() if call == "drain" else run.stop())
            assert loop().time() == 1 + CLOSING_SECS, "both wait until all is closed"
            assert run.state == "failed"
            assert caught.value is run.error

    play(main)


def test_leaving_raises_though_nobody_asked() -> None:
    async def main() -> None:
        async with failing(entered(fatal_topology())):
            await asyncio.sleep(30)

    play(main)


def test_another_exception_on_the_way_out_is_not_replaced() -> None:
    async def main() -> None:
        run = entered(fatal_topology())

        async def host() -> None:
            async with run:
                await asyncio.sleep(30)
                raise KeyError("the host's own")

        with pytest.raises(KeyError, match="the host's own"):
            await host()
        assert run.error is not None
        assert run.state == "failed"

    play(main)


def test_several_waiters_all_get_it() -> None:
    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            waiting = [asyncio.ensure_future(run.completed()) for _ in range(3)]
            done = await asyncio.gather(*waiting, return_exceptions=True)
            assert done == [run.error] * 3
            assert loop().time() == 1

    play(main)


def test_a_waiter_that_is_cancelled_leaves_the_others_waiting() -> None:
    async def main() -> None:
        async with failing(entered(fatal_topology())) as run:
            first, second = (asyncio.ensure_future(run.completed()) for _ in range(2))
            await asyncio.sleep(0.5)
            first.cancel()
            await asyncio.wait([first, second])
            assert first.cancelled()
            assert second.exception() is run.error

    play(main)


def test_of_two_components_that_end_the_run_the_first_is_named() -> None:
    class Second(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(2)
            raise engine.FatalError("too late")

        async def cleanup(self) -> None:
            raise OSError("at the end")

    builder = engine.TopologyBuilder("two")
    builder.set_spout("source", lambda: Numbers(1))
    builder.set_bolt("first", Fatal).shuffle_grouping("source")
    builder.set_bolt("second", Second).shuffle_grouping("source")

    async def main() -> None:
        async with failing(entered(builder.build())) as run:
            await asyncio.sleep(5)
        assert run.error is not None
        assert run.error.component_id == "first"

    play(main)


# Senders


def test_sends_raise_run_ended_at_once_and_with_the_reason() -> None:
    """Those whose tree is open, those that wait, and later ones; before the components are closed."""

    async def main() -> None:
        topology = chain(lambda: Inlet("number", max_waiting=2), SlowToClose, KeeperOfOne)
        async with failing(entered(topology, max_spout_pending=3)) as run:
            inlet = run.inlet("source")
            sends = [asyncio.ensure_future(inlet.send((number,))) for number in range(8)]
            done = await asyncio.gather(*sends, return_exceptions=True)
            assert loop().time() == 1
            later = await asyncio.gather(inlet.send((9,)), return_exceptions=True)
            for error in (*done, *later):
                assert isinstance(error, RunEnded), error
                assert isinstance(error, InletClosed)
                assert not isinstance(error, TupleFailed)
                assert error.failure.reason == "task_died"
                assert error.failure.component_id == "bolt2"
                assert "the licence has expired" in str(error.failure.error)
                assert "the licence has expired" in str(error)
            assert inlet.is_closed
        assert "the licence has expired" in str(run.error)

    class KeeperOfOne(Keeper):
        """Keeps its inputs; after a second it ends the run."""

        def prepare(self) -> None:
            self.context.create_task(self.end())

        async def end(self) -> None:
            await asyncio.sleep(1)
            raise engine.FatalError("the licence has expired")

    play(main)


def test_a_send_that_fails_by_its_own_tree_is_no_end_of_the_run() -> None:
    async def main() -> None:
        async with running(chain(lambda: Inlet("number"), Raises)) as run:
            with pytest.raises(TupleFailed, match="at the input") as caught:
                await run.inlet("source").send((1,))
            assert not isinstance(caught.value, RunEnded)
            assert run.state == "running"

    play(main)


def test_a_send_from_a_callback_of_the_end_raises_run_ended() -> None:
    raised: list[BaseException] = []

    async def main() -> None:
        async def send(run: engine.Run) -> None:
            try:
                await run.inlet("source").send((2,))
            except RunEnded as error:
                raised.append(error)

        sending: list[asyncio.Future[None]] = []
        async with failing(entered(chain(lambda: Inlet("number"), SlowToClose, Fatal))) as run:
            run.on_end(lambda error: sending.append(asyncio.ensure_future(send(run))))
            first = asyncio.ensure_future(run.inlet("source").send((1,)))
            await asyncio.wait([first])
            await asyncio.sleep(0.01)
            assert raised
        await asyncio.gather(*sending)
        assert first.exception() is not None

    play(main)
