"""A run that is used from another event loop or thread says so, and is not changed (RUN-5)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import engine
from engine import Inlet, Reply, Run, TopologyBuilder, Tuple, UsageError, bolt
from tests.patience import PATIENCE_SECS
from tests.runtime.stage import strict

pytestmark = pytest.mark.guarantee("RUN-5")


@bolt("n")
def passes(tup: Tuple) -> tuple[Any]:
    return (tup["n"],)


def topology() -> engine.Topology:
    builder = TopologyBuilder("home")
    builder.set_spout("in", lambda: Inlet("n"))
    builder.set_bolt("passes", passes).shuffle_grouping("in")
    builder.set_bolt("reply", Reply).shuffle_grouping("passes")
    return builder.build()


async def first_row(run: Run) -> None:
    async for _ in run.inlet("in").stream((1,)):
        return


ASYNC: dict[str, Callable[[Run], Any]] = {
    "completed": lambda run: run.completed(),
    "drain": lambda run: run.drain(1),
    "stop": lambda run: run.stop(),
    "activate": lambda run: run.activate(),
    "deactivate": lambda run: run.deactivate(),
    "send": lambda run: run.inlet("in").send((1,)),
    "call": lambda run: run.inlet("in").call((1,)),
    "stream": first_row,
}
PLAIN: dict[str, Callable[[Run], Any]] = {
    "on_end": lambda run: run.on_end(lambda error: None),
    "trace": lambda run: run.trace(1),
    "trace_message": lambda run: run.trace_message("in", "1"),
    "kill_task": lambda run: run.kill_task(2),
    "restart_task": lambda run: run.restart_task(2),
    "close": lambda run: run.inlet("in").close(),
}
READS: dict[str, Callable[[Run], Any]] = {
    "snapshot": lambda run: run.snapshot(),
    "metrics_text": lambda run: run.metrics_text(),
    "state": lambda run: run.state,
    "inlet": lambda run: run.inlet("in"),
    "task_ids": lambda run: run.task_ids("in"),
}


async def ask(run: Run, ask_it: Callable[[Run], Any]) -> Any:
    """Call a method, and await its result if there is one to await."""
    result = ask_it(run)
    return await asyncio.wait_for(result, PATIENCE_SECS) if asyncio.iscoroutine(result) else result


async def from_another_loop(run: Run, ask_it: Callable[[Run], Any]) -> Any:
    return await asyncio.to_thread(lambda: asyncio.run(ask(run, ask_it)))


def play(main: Callable[[Run], Any]) -> None:
    """Enter a run on a real loop. It must answer as before at the end."""

    async def entered() -> None:
        async with engine.run(topology()) as run:
            await main(run)
            assert run.state == "running"
            [row] = await run.inlet("in").call((7,))
            assert row["n"] == 7
            assert run.snapshot().components["passes"].restarts == 0

    asyncio.run(strict(entered)())


@pytest.mark.parametrize("method", [*ASYNC, *PLAIN])
def test_a_call_on_another_loop_has_no_effect_and_says_the_right_way(method: str) -> None:
    async def main(run: Run) -> None:
        with pytest.raises(UsageError, match=rf"(?s){method}\(.*outside the event loop of its run.*threadsafe"):
            await from_another_loop(run, (ASYNC | PLAIN)[method])

    play(main)


def test_leaving_on_another_loop_has_no_effect() -> None:
    async def main(run: Run) -> None:
        with pytest.raises(UsageError, match=r"(?s)outside the event loop of its run.*run_coroutine_threadsafe\(run\.stop\(\), loop\)"):
            await from_another_loop(run, lambda run: run.__aexit__(None, None, None))

    play(main)


@pytest.mark.parametrize("method", PLAIN)
def test_a_plain_call_on_a_thread_without_a_loop_has_no_effect(method: str) -> None:
    async def main(run: Run) -> None:
        with pytest.raises(UsageError, match="call_soon_threadsafe"):
            await asyncio.to_thread(PLAIN[method], run)

    play(main)


@pytest.mark.parametrize("method", READS)
def test_reads_are_allowed_on_other_threads(method: str) -> None:
    async def main(run: Run) -> None:
        assert await from_another_loop(run, READS[method]) is not None

    play(main)


def test_another_thread_may_send_by_the_loop() -> None:
    async def main(run: Run) -> None:
        loop = asyncio.get_running_loop()
        sent = asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(run.inlet("in").call((3,)), loop).result(PATIENCE_SECS))
        [row] = await sent
        assert row["n"] == 3

    play(main)


def test_a_run_that_has_ended_may_be_asked_anywhere() -> None:
    ended: list[Any] = []

    async def main() -> Run:
        async with engine.run(topology()) as run:
            await run.drain()
        return run

    run = asyncio.run(main())
    asyncio.run(run.completed())
    asyncio.run(run.stop())
    run.on_end(ended.append)
    thread = threading.Thread(target=lambda: run.on_end(ended.append))
    thread.start()
    thread.join()
    assert ended == [None, None]
