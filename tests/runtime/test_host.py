"""A run changes nothing of its host's process, and its host may be cancelled (RUN-5)."""

import asyncio
import gc
import logging
import signal
import sys
import threading
import warnings
from typing import Any

import pytest
import uvloop

import engine
from engine import Bolt, Config, Inlet, Topology, Tuple
from engine.testing import Capture
from tests.patience import PATIENCE_SECS
from tests.runtime.stage import Endless, Keeper, Numbers, Sink, chain, play, play_run, running, strict

pytestmark = pytest.mark.guarantee("RUN-5")


class Waits(Bolt):
    """Waits for a second in each of its methods."""

    output_fields = engine.Fields("number")

    async def prepare(self) -> None:
        await asyncio.sleep(1)

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(1)
        self.collector.emit((tup[0],), tup)
        self.collector.ack(tup)

    async def cleanup(self) -> None:
        await asyncio.sleep(1)


class WaitsConcurrently(Waits):
    concurrency = 3


class SpoutWaits(Numbers):
    """Waits for a second in each of its methods."""

    async def open(self) -> None:  # type: ignore[override]
        await asyncio.sleep(1)
        Numbers.open(self)
        self.context.create_task(asyncio.sleep(1000))

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(1)
        Numbers.next_tuple(self)

    async def close(self) -> None:  # type: ignore[override]
        await asyncio.sleep(1)


def waiting_topology() -> Topology:
    return chain(lambda: SpoutWaits(5), Waits, WaitsConcurrently, Sink)


class Host:
    """Enters a run, waits for its end, drains or not, and leaves it."""

    def __init__(self) -> None:
        self.phase = "before"

    async def work(self) -> None:
        self.phase = "aenter"
        async with engine.run(waiting_topology()) as run:
            self.phase = "body"
            await asyncio.sleep(1.5)
            self.phase = "drain"
            await run.drain()
            self.phase = "completed"
            await run.completed()
            self.phase = "aexit"
        self.phase = "after"


def tasks_but_mine() -> set["asyncio.Task[Any]"]:
    me = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not me}


@pytest.mark.parametrize("at_ms", range(0, 13_000, 250))
def test_the_host_may_be_cancelled_at_any_time(at_ms: int) -> None:
    """No asyncio task is left, no error is lost, and the cancellation passes through."""
    host = Host()

    async def main() -> str:
        task = asyncio.ensure_future(host.work())
        await asyncio.sleep(at_ms / 1000)
        phase = host.phase
        ends = task.done() or not task.cancel()
        await asyncio.wait([task])
        assert ends or task.cancelled()
        assert not tasks_but_mine()
        return phase

    assert play(main) in ("before", "aenter", "body", "drain", "completed", "aexit", "after")


def test_the_tested_moments_cover_every_phase() -> None:
    phases: list[str] = []

    async def main() -> None:
        host = Host()
        task = asyncio.ensure_future(host.work())
        while not task.done():
            await asyncio.sleep(0.25)
            phases.append(host.phase)

    play(main)
    assert {"aenter", "body", "drain"} <= set(phases)
    assert len(phases) < 13 * 4


@pytest.mark.parametrize("phase", ["completed", "aexit"])
def test_a_host_may_be_cancelled_while_it_waits_or_leaves(phase: str) -> None:
    async def host() -> None:
        async with engine.run(waiting_topology()) as run:
            if phase == "completed":
                await run.completed()

    async def main() -> None:
        task = asyncio.ensure_future(host())
        await asyncio.sleep(5)
        task.cancel()
        for _ in range(3):
            await asyncio.sleep(0.3)
            task.cancel()  # and again, while everything is being closed
        await asyncio.wait([task])
        assert task.cancelled()
        assert not tasks_but_mine()

    play(main)


def test_an_exception_in_the_hosts_block_stops_the_run_and_is_raised() -> None:
    async def main() -> None:
        run = engine.run(chain(Endless, Sink))

        async def host() -> None:
            async with run:
                await asyncio.sleep(1)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await host()
        assert run.state == "stopped"
        assert not tasks_but_mine()

    play(main)


@pytest.mark.parametrize("timeout_secs", [0.5, 1.5, 2.5, 3.5, 4.5])
def test_a_timeout_around_a_run_works(timeout_secs: float) -> None:
    async def main() -> None:
        async def host() -> None:
            async with asyncio.timeout(timeout_secs):
                async with engine.run(waiting_topology()) as run:
                    await run.completed()

        with pytest.raises(TimeoutError):
            await host()
        assert not tasks_but_mine()

    play(main)


@pytest.mark.parametrize("when", ["stop", "drain"])
@pytest.mark.parametrize("at_secs", [0, 0.5, 1.5, 2.5, 3.5])
def test_a_run_may_be_stopped_by_another_task_while_it_starts(when: str, at_secs: float) -> None:
    """Given a run that is being entered, when it is stopped, then the host enters a run that has ended."""

    async def main() -> None:
        run = engine.run(waiting_topology())

        async def host() -> str:
            async with run:
                await run.completed()
            return run.state

        entering = asyncio.ensure_future(host())
        await asyncio.sleep(0)
        await asyncio.sleep(at_secs)
        await (run.stop() if when == "stop" else run.drain())
        state = await asyncio.wait_for(entering, 60)
        assert state in ("stopped", "drained")
        assert not tasks_but_mine()

    play(main)


def test_cleanup_is_called_exactly_for_prepared_instances() -> None:
    events: list[str] = []

    class Noted(Waits):
        def __init__(self) -> None:
            self.ready = False

        async def prepare(self) -> None:
            await super().prepare()
            self.ready = True

        async def cleanup(self) -> None:
            events.append(f"{self.context.component_id} {self.ready}")

    async def main() -> None:
        async def host() -> None:
            async with asyncio.timeout(1.5), running(chain(Endless, Noted, Noted, Noted)):
                pass

        with pytest.raises(TimeoutError):
            await host()

    play(main)
    assert events == ["bolt1 True"]


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_signals_logging_policy_hooks_and_warnings_are_unchanged(loop_factory: Any) -> None:
    def settings() -> dict[str, Any]:
        engine_loggers = [name for name in logging.root.manager.loggerDict if name.startswith("engine")]
        return {
            "signals": {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)},
            "wakeup": signal.set_wakeup_fd(-1),
            "handlers": list(logging.root.handlers),
            "level": logging.root.level,
            "engine levels": [(name, logging.getLogger(name).level, logging.getLogger(name).handlers) for name in engine_loggers],
            "raise": logging.raiseExceptions,
            "policy": asyncio.get_event_loop_policy(),
            "excepthook": sys.excepthook,
            "unraisable": sys.unraisablehook,
            "thread hook": threading.excepthook,
            "warnings": list(warnings.filters),
            "gc": (gc.isenabled(), gc.get_threshold()),
            "recursion": sys.getrecursionlimit(),
            "switch": sys.getswitchinterval(),
        }

    before = settings()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        handler, factory, debug = loop.get_exception_handler(), loop.get_task_factory(), loop.get_debug()
        during_before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        spout = Numbers(500)
        async with running(chain(lambda: spout, Sink)) as run:
            assert {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} == during_before
            await run.completed()
        assert (loop.get_exception_handler(), loop.get_task_factory(), loop.get_debug()) == (handler, factory, debug)
        assert spout.acked == list(range(500))

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
    assert settings() == before


def test_two_runs_work_in_one_process() -> None:
    """The runs share a loop, of one topology and of two. None disturbs the others."""
    spouts = [Numbers(200), Numbers(200, first=1000)]
    sinks = [Capture(), Capture()]

    async def one(spout: Numbers, sink: Capture) -> None:
        async with running(chain(lambda: spout, sink)) as run:
            await run.completed()
            assert run.snapshot().components["source"].acked == 200

    async def main() -> None:
        await asyncio.gather(*(one(spout, sink) for spout, sink in zip(spouts, sinks, strict=True)))
        async with running(chain(Endless, Sink)) as first, running(chain(Endless, Sink)) as second:
            await first.stop()
            await asyncio.sleep(1)
            assert (first.state, second.state) == ("stopped", "running")

    play(main)
    assert sinks[0].field(0) == list(range(200))
    assert sinks[1].field(0) == list(range(1000, 1200))


def test_a_topology_may_run_twice_at_once_and_again() -> None:
    made: list[Numbers] = []

    class Counted(Numbers):
        def __init__(self) -> None:
            super().__init__(20)
            made.append(self)

    topology = chain(Counted, Sink)

    async def main() -> None:
        async with engine.run(topology) as first, engine.run(topology) as second:
            await asyncio.gather(first.completed(), second.completed())
        async with engine.run(topology) as third:
            await third.completed()

    play(main)
    runs = [spout for spout in made if spout.acked]
    assert len(runs) == 3
    assert all(spout.acked == list(range(20)) for spout in runs)


def test_runs_in_two_threads_are_independent() -> None:
    spouts = [Numbers(2000) for _ in range(3)]
    errors: list[BaseException] = []

    def one(spout: Numbers) -> None:
        async def main() -> None:
            async with running(chain(lambda: spout, Sink)) as run:
                await run.completed()

        try:
            asyncio.run(asyncio.wait_for(strict(main)(), PATIENCE_SECS))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(spout,)) for spout in spouts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_SECS)
    assert not errors
    assert all(spout.acked == list(range(2000)) for spout in spouts)


async def test_a_run_works_inside_pytest_asyncio() -> None:
    spout = Numbers(100)
    async with running(chain(lambda: spout, Sink)) as run:
        await asyncio.wait_for(run.completed(), PATIENCE_SECS)
    assert spout.acked == list(range(100))
    assert not tasks_but_mine()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("debug", [False, True])
def test_a_run_that_is_never_left_does_not_block_the_end_of_its_loop(loop_factory: Any, debug: bool) -> None:
    """In a notebook, for example. The loop's own cleanup cancels the run's tasks, and they end."""

    async def main() -> None:
        run = engine.run(chain(Endless, Keeper))
        await run.__aenter__()
        await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=loop_factory, debug=debug) as runner:
        runner.run(main())


def test_a_finished_run_is_garbage() -> None:
    """Given a run that has ended, then no tuple, component or executor is kept alive."""
    import weakref

    class Watched(Sink):
        pass

    references: list[Any] = []

    class Factory:
        def __call__(self) -> Sink:
            sink = Watched()
            references.append(weakref.ref(sink))
            return sink

    factory = Factory()
    run = play_run(chain(lambda: Numbers(50), factory), Config())
    references.append(weakref.ref(run))
    del run
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)


def test_an_inlet_handle_refuses_sends_after_the_end() -> None:
    async def main() -> None:
        async with running(chain(lambda: Inlet("number"), Sink)) as run:
            inlet = run.inlet("source")
            await inlet.send((1,))
        with pytest.raises(engine.InletClosed):
            await inlet.send((2,))

    play(main)
