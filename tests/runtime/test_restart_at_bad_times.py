"""Restarts of a task at every bad moment of its life (SV-9)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Run, Tuple
from tests.runtime.stage import AtOnce, Endless, EverySecond, Keeper, LogLines, Numbers, Sink, chain, play, running

pytestmark = pytest.mark.guarantee("SV-9")


class Hangs(Bolt):
    """Hangs in each call."""

    made = 0

    def prepare(self) -> None:
        type(self).made += 1

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(100_000)


class Swallows(Bolt):
    """Hangs, and swallows the first cancellation."""

    async def execute(self, tup: Tuple) -> None:
        try:
            await asyncio.sleep(100_000)
        except asyncio.CancelledError:
            await asyncio.sleep(5)


def task_of(run: Run, component_id: str) -> Any:
    [task] = run.snapshot().components[component_id].tasks
    return task


async def restart_and_wait(run: Run, task_id: int, *, times: int = 1, secs: float = 1.0) -> None:
    for _ in range(times):
        run.restart_task(task_id)
    await asyncio.sleep(secs)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_call_that_hangs_is_cancelled(concurrency: int) -> None:
    class Concurrent(Hangs):
        pass

    Concurrent.concurrency = concurrency
    source = Numbers(10)

    async def main() -> None:
        async with running(chain(lambda: source, Concurrent)) as run:
            await asyncio.sleep(1)
            await restart_and_wait(run, 2)
            assert Concurrent.made == 2
            assert len(source.failed) == concurrency
            assert len(run.owed_acks()) == concurrency

    play(main)


def test_a_call_that_swallows_the_cancellation_ends_by_itself() -> None:
    source = Numbers(3)

    async def main() -> None:
        async with running(chain(lambda: source, Swallows)) as run:
            await asyncio.sleep(1)
            await restart_and_wait(run, 2, secs=10)
            assert task_of(run, "bolt1").restarts == 1
            assert run.state == "running"

    play(main)


def test_a_second_request_cancels_again() -> None:
    class SwallowsOnce(Bolt):
        async def execute(self, tup: Tuple) -> None:
            try:
                await asyncio.sleep(100_000)
            except asyncio.CancelledError:
                await asyncio.sleep(100_000)

    async def main() -> None:
        async with running(chain(lambda: Numbers(3), SwallowsOnce)) as run:
            await asyncio.sleep(1)
            await restart_and_wait(run, 2, secs=10)
            assert task_of(run, "bolt1").restarts == 0
            await restart_and_wait(run, 2, secs=10)
            assert task_of(run, "bolt1").restarts == 1

    play(main)


@pytest.mark.parametrize("times", [2, 50])
def test_requests_at_once_make_one_restart(times: int) -> None:
    async def main() -> None:
        async with running(chain(lambda: Numbers(10), Hangs)) as run:
            await asyncio.sleep(1)
            await restart_and_wait(run, 2, times=times)
            await restart_and_wait(run, 1, times=times)
            assert (task_of(run, "bolt1").restarts, task_of(run, "source").restarts) == (1, 1)

    play(main)


def test_a_prepare_that_hangs_is_restarted() -> None:
    class SecondHangs(Keeper):
        made = 0

        async def prepare(self) -> None:  # type: ignore[override]
            type(self).made += 1
            if self.made == 2:
                await asyncio.sleep(100_000)

    async def main() -> None:
        async with running(chain(lambda: Numbers(1), SecondHangs)) as run:
            await restart_and_wait(run, 2, secs=10)
            assert SecondHangs.made == 2
            await restart_and_wait(run, 2, secs=10)
            assert SecondHangs.made == 3
            assert task_of(run, "bolt1").restarts == 2
            assert task_of(run, "bolt1").status == "waiting"

    play(main)


def test_an_open_that_hangs_is_restarted() -> None:
    class SecondHangs(Numbers):
        made = 0

        async def open(self) -> None:  # type: ignore[override]
            type(self).made += 1
            if self.made == 2:
                await asyncio.sleep(100_000)
            super().open()

    async def main() -> None:
        async with running(chain(lambda: SecondHangs(5), Keeper)) as run:
            await restart_and_wait(run, 1, secs=10)
            await restart_and_wait(run, 1, secs=10)
            assert (SecondHangs.made, task_of(run, "source").pending) == (3, 5)

    play(main)


def test_a_cleanup_that_takes_long_makes_one_restart() -> None:
    events: list[str] = []

    class SlowEnd(Keeper):
        def prepare(self) -> None:
            events.append("prepare")

        async def cleanup(self) -> None:  # type: ignore[override]
            await asyncio.sleep(5)
            events.append("cleanup")

    async def main() -> None:
        async with running(chain(lambda: Numbers(1), SlowEnd)) as run:
            await restart_and_wait(run, 2)
            await restart_and_wait(run, 2, secs=20)
            assert events == ["prepare", "cleanup", "prepare"]
            assert task_of(run, "bolt1").restarts == 1

    play(main)


def test_a_task_that_waits_for_its_next_instance_gets_it_at_once() -> None:
    class Breaks(Keeper):
        made = 0

        def prepare(self) -> None:
            type(self).made += 1
            if 1 < self.made < 5:
                raise ValueError("not yet")

    async def main() -> None:
        async with running(chain(lambda: EverySecond(1000), Breaks)) as run:
            run.kill_task(2)
            await asyncio.sleep(4)  # made 2, 3 and 4, with pauses of 0, 1 and 2 s; the next pause is 4 s
            assert Breaks.made == 4
            await restart_and_wait(run, 2, secs=0.01)
            assert Breaks.made == 5
            assert task_of(run, "bolt1").status in ("waiting", "running")

    play(main)


@pytest.mark.parametrize("hook", ["execute", "execute async", "prepare", "cleanup"])
def test_a_component_may_restart_its_own_task(hook: str) -> None:
    runs: list[Run] = []
    made: list[Bolt] = []

    class Own(Bolt):
        def prepare(self) -> None:
            made.append(self)
            if hook == "prepare" and len(made) == 2:
                runs[0].restart_task(2)

        def execute(self, tup: Tuple) -> None:
            self.collector.ack(tup)
            if hook == "execute" and tup[0] == 3:
                runs[0].restart_task(2)

        def cleanup(self) -> None:
            if hook == "cleanup" and len(made) == 1:
                runs[0].restart_task(2)

    class OwnAsync(Own):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            self.collector.ack(tup)
            if tup[0] == 3:
                runs[0].restart_task(2)
                await asyncio.sleep(100_000)

    source = AtOnce(10)

    async def main() -> None:
        async with running(chain(lambda: source, OwnAsync if hook == "execute async" else Own)) as run:
            runs.append(run)
            if hook in ("prepare", "cleanup"):
                await restart_and_wait(run, 2)
            await run.completed()
            assert task_of(run, "bolt1").restarts == (2 if hook == "prepare" else 1)
            assert len(source.acked) == 10

    play(main)


def test_a_restart_during_a_drain_does_not_hold_it_up() -> None:
    source = Numbers(3)

    async def main() -> None:
        async with running(chain(lambda: source, Hangs), drain_timeout_secs=20) as run:
            await asyncio.sleep(1)
            run.restart_task(2)  # it takes effect after the drain has begun
            await run.drain()
            assert run.state == "drained"

    play(main)


@pytest.mark.parametrize("end", ["stop", "drain"])
def test_a_run_that_ends_in_the_middle_of_a_restart(end: str) -> None:
    class Slow(Keeper):
        async def cleanup(self) -> None:  # type: ignore[override]
            await asyncio.sleep(3)

    async def main() -> None:
        async with running(chain(lambda: Numbers(1), Slow), drain_timeout_secs=1) as run:
            run.restart_task(2)
            run.restart_task(1)
            await asyncio.sleep(0.5)
            await getattr(run, end)()
            assert run.state == {"stop": "stopped", "drain": "drained"}[end]

    play(main)


def test_background_work_that_raised_is_still_reported() -> None:
    class Background(Hangs):
        def prepare(self) -> None:
            self.context.create_task(self.work())

        async def work(self) -> None:
            await asyncio.sleep(0.5)
            raise ValueError("background")

    async def main() -> None:
        async with running(chain(lambda: Numbers(1), Background)) as run:
            await asyncio.sleep(0.7)  # the instance waits for its call before it is replaced
            with LogLines() as log:
                await restart_and_wait(run, 2, secs=0.1)
            assert log.having("ValueError: background")
            assert task_of(run, "bolt1").restarts == 1

    play(main)


def test_a_call_in_a_thread_is_left_behind() -> None:
    release = threading.Event()

    class InThread(BasicBolt):
        threads = 1

        def execute(self, tup: Tuple) -> None:
            if tup[0] == 0:
                release.wait(30)

    source = Numbers(2)

    async def main() -> None:
        async with running(chain(lambda: source, InThread)) as run:
            while not run.owed_acks():  # noqa: ASYNC110 - threads ring no bell
                await asyncio.sleep(0.01)
            run.restart_task(2)
            await run.completed()
            release.set()
            assert (source.failed, source.acked) == ([0], [1])

    asyncio.run(main())


@pytest.mark.parametrize("make", [Endless, lambda: EverySecond(100)])
def test_a_deactivated_spout_stays_inactive(make: Callable[[], Any]) -> None:
    async def main() -> None:
        async with running(chain(make, Sink)) as run:
            await run.deactivate()
            await restart_and_wait(run, 1, secs=3)
            assert task_of(run, "source").status == "drained"
            await run.activate()
            await restart_and_wait(run, 1, secs=3)
            assert task_of(run, "source").status == "polling"

    play(main)
