"""Deaths in prepare and open, and by background work (ACK-12)."""

import asyncio
from typing import Any

import pytest

import engine
from engine import Bolt, ComponentError, Config, Tuple
from tests.runtime.dying import Poisoned, ends_with_component_error
from tests.runtime.stage import Endless, Numbers, Sink, chain, loop, play, play_run, running

pytestmark = pytest.mark.guarantee("ACK-12")


@pytest.mark.parametrize("phase", ["prepare", "async prepare", "open", "activate"])
def test_deaths_before_an_instance_is_ready_always_count(phase: str) -> None:
    tries = 0

    def boom() -> None:
        nonlocal tries
        tries += 1
        raise OSError("not there")

    class NoBolt(Sink):
        def prepare(self) -> None:
            if phase == "prepare":
                boom()

    class AsyncBolt(Sink):
        async def prepare(self) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            boom()

    class NoSpout(Endless):
        def open(self) -> None:
            if phase == "open":
                boom()

        def activate(self) -> None:
            if phase == "activate":
                boom()

    topology = chain(NoSpout, AsyncBolt if phase == "async prepare" else NoBolt)
    closed: list[str] = []

    async def main() -> None:
        with pytest.raises(ComponentError) as caught:
            async with engine.run(topology, Config(max_task_restarts=3)) as run:
                closed.append(run.state)
        assert isinstance(caught.value.error, OSError)
        assert caught.value.component_id == ("source" if phase in ("open", "activate") else "bolt1")

    play(main)
    assert tries == 4
    assert not closed


def test_a_factory_that_raises_counts_as_a_death() -> None:
    made = 0

    class Dies(Bolt):
        def __init__(self) -> None:
            nonlocal made
            made += 1
            if made > 1:
                raise OSError("no more of these")

        def execute(self, tup: Tuple) -> None:
            raise ValueError("dies")

    error = ends_with_component_error(chain(lambda: Numbers(1), Dies), Config(max_task_restarts=3, on_error="restart"))
    assert isinstance(error.error, OSError)
    assert made == 4


def test_a_prepare_that_fails_at_first_succeeds_with_the_next_instance() -> None:
    class Flaky(Sink):
        made: list["Flaky"] = []

        def prepare(self) -> None:
            self.made.append(self)
            if len(self.made) < 3:
                raise OSError("not yet")

        def cleanup(self) -> None:
            self.cleaned = True

    spout = Numbers(3)
    run = play_run(chain(lambda: spout, Flaky))
    assert spout.acked == [0, 1, 2]
    assert [hasattr(bolt, "cleaned") for bolt in Flaky.made] == [False, False, True], "cleanup must not be called after a failed prepare"
    assert run.snapshot().components["bolt1"].restarts == 2


@pytest.mark.parametrize("on_error", ["fail", "restart"])
def test_background_work_that_raises_replaces_the_instance(on_error: str) -> None:
    class Background(Sink):
        made = 0

        def prepare(self) -> None:
            Background.made += 1
            self.context.create_task(self.work(Background.made))

        async def work(self, number: int) -> None:
            await asyncio.sleep(1)
            if number < 3:
                raise OSError("lost connection")

    async def main() -> None:
        async with running(chain(Endless, Background), on_error=on_error) as run:
            await asyncio.sleep(10)
            assert run.snapshot().components["bolt1"].restarts == 2
            assert run.snapshot().components["bolt1"].errors == 2
            assert {report.text for report in run.snapshot().errors} == {"OSError: lost connection"}

    play(main)
    assert Background.made == 3


@pytest.mark.guarantee("SV-3")
@pytest.mark.parametrize("concurrency", [1, 4])
def test_with_fail_running_calls_return_before_failed_background_work_replaces_the_instance(concurrency: int) -> None:
    """Given calls that take three seconds and background work that raises after one, then no call is cut short."""
    made: list[Bolt] = []
    cancelled: list[int] = []

    class Background(Bolt):
        async def prepare(self) -> None:  # type: ignore[override]
            made.append(self)
            self.closed_at = -1.0
            if len(made) == 1:
                self.context.create_task(self.work())

        async def work(self) -> None:
            await asyncio.sleep(1)
            raise OSError("lost connection")

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            try:
                await asyncio.sleep(3)
            except asyncio.CancelledError:
                cancelled.append(tup[0])
                raise
            self.collector.ack(tup)

        def cleanup(self) -> None:
            self.closed_at = loop().time()

    Background.concurrency = concurrency
    spout = Numbers(8)
    run = play_run(chain(lambda: spout, Background, max_spout_pending=concurrency))
    assert not cancelled
    assert sorted(spout.acked) == list(range(8))
    assert len(made) == 2
    assert made[0].closed_at == 3  # type: ignore[attr-defined]
    assert run.snapshot().components["bolt1"].restarts == 1
    assert [report.text for report in run.snapshot().errors] == ["OSError: lost connection"]


@pytest.mark.parametrize("on_error", ["restart", "stop"])
def test_in_other_modes_failed_background_work_cancels_the_running_call(on_error: Any) -> None:
    cancelled: list[float] = []

    class Background(Bolt):
        def prepare(self) -> None:
            self.context.create_task(self.work())

        async def work(self) -> None:
            await asyncio.sleep(1)
            raise OSError("lost connection")

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cancelled.append(loop().time())
                raise

    error = ends_with_component_error(chain(lambda: Numbers(1), Background), Config(on_error=on_error, max_task_restarts=0))
    assert isinstance(error.error, OSError)
    assert cancelled == [1]


def test_background_work_is_cancelled_with_its_instance() -> None:
    alive: list[int] = []

    class Background(Poisoned):
        instances = []

        def prepare(self) -> None:
            self.context.create_task(self.work(len(self.instances)))

        async def work(self, number: int) -> None:
            alive.append(number)
            try:
                await asyncio.sleep(1000)
            finally:
                alive.remove(number)

    spout = Numbers(6)

    async def main() -> None:
        async with running(chain(lambda: spout, Background), max_spout_pending=1, on_error="restart") as run:
            await asyncio.sleep(0)
            await run.completed()

    play(main)
    assert len(Background.instances) == 2
    assert not alive
