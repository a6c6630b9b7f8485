"""The run ends and names the component even if a component hangs or raises while it is closed."""

import asyncio
from typing import Any

import pytest

from engine import Bolt, Fields, Tuple
from engine.cancellation import BACKGROUND_END_SECS
from tests.runtime.stage import Endless, LogLines, Numbers, Sink, chain, loop, play, running

pytestmark = pytest.mark.guarantee("RUN-3")
CLOSE_SECS = 30.0


def run_and_stop(*components: Any, at_secs: float = 1.0) -> tuple[float, list[str]]:
    """Stop a run after a while, and return the duration of the stop and the log."""

    async def main() -> float:
        async with running(chain(*components)):
            await asyncio.sleep(at_secs)
            before = loop().time()
        return loop().time() - before

    with LogLines() as log:
        secs = play(main)
    assert isinstance(secs, float)
    return secs, log.lines


closed: list[str] = []


@pytest.fixture(autouse=True)
def nothing_closed() -> None:
    closed.clear()


class Good(Sink):
    output_fields = Fields("number")

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup[0],), tup)
        super().execute(tup)

    def cleanup(self) -> None:
        closed.append(self.context.component_id)


@pytest.mark.parametrize("error", [ValueError("bad"), asyncio.CancelledError("own"), TimeoutError("own"), StopAsyncIteration()])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_cleanup_that_raises_is_reported_and_the_others_are_closed(error: BaseException, is_async: bool) -> None:
    class Raises(Good):
        def cleanup(self) -> None:
            raise error

    class RaisesLater(Good):
        async def cleanup(self) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            raise error

    secs, lines = run_and_stop(Endless, Good, RaisesLater if is_async else Raises, Good)
    assert closed == ["bolt1", "bolt3"]
    assert secs == is_async
    assert any("'bolt2' (task 3) raised" in line and type(error).__name__ in line for line in lines)


@pytest.mark.parametrize("error", [ValueError("bad"), asyncio.CancelledError("own")])
def test_a_close_that_raises_is_reported_and_the_others_are_closed(error: BaseException) -> None:
    class Raises(Endless):
        def close(self) -> None:
            raise error

    _, lines = run_and_stop(Raises, Good)
    assert closed == ["bolt1"]
    assert any("'source' (task 1) raised" in line for line in lines)


def test_a_cleanup_that_hangs_is_cancelled_after_a_while() -> None:
    class Hangs(Good):
        async def cleanup(self) -> None:  # type: ignore[override]
            await asyncio.sleep(10_000)

    secs, lines = run_and_stop(Endless, Good, Hangs, Good)
    assert secs == CLOSE_SECS
    assert closed == ["bolt1", "bolt3"]
    assert any("cleanup() did not return within 30 s" in line for line in lines)


def test_a_close_that_hangs_is_cancelled_after_a_while() -> None:
    class Hangs(Endless):
        async def close(self) -> None:  # type: ignore[override]
            await asyncio.sleep(10_000)

    secs, lines = run_and_stop(Hangs, Good)
    assert secs == CLOSE_SECS
    assert closed == ["bolt1"]
    assert any("close() did not return within 30 s" in line for line in lines)


class SwallowsOnce(Good):
    """Swallows a cancellation, as an error of the awaited call."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        try:
            await asyncio.sleep(1000)
        except BaseException:
            await asyncio.sleep(0)
        self.collector.ack(tup)


class SwallowsConcurrently(SwallowsOnce):
    concurrency = 2


class SpoutSwallows(Numbers):
    async def next_tuple(self) -> None:  # type: ignore[override]
        try:
            await asyncio.sleep(1000)
        except BaseException:
            await asyncio.sleep(0)


class BackgroundSwallows(Good):
    def prepare(self) -> None:
        self.context.create_task(self.work())

    async def work(self) -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(1000)
            except BaseException:
                await asyncio.sleep(0)


@pytest.mark.parametrize(
    "components", [(lambda: Numbers(5), SwallowsOnce), (lambda: Numbers(5), SwallowsConcurrently), (lambda: SpoutSwallows(5), Good)]
)
def test_a_call_that_swallows_its_cancellation_does_not_keep_the_run(components: tuple[Any, ...]) -> None:
    secs, _ = run_and_stop(*components, Sink)
    assert secs < 2


def test_background_work_that_swallows_a_cancellation_is_cancelled_again() -> None:
    secs, lines = run_and_stop(Endless, BackgroundSwallows, Good)
    assert secs == BACKGROUND_END_SECS
    assert closed == ["bolt1", "bolt2"]
    assert not lines


@pytest.mark.parametrize("where", ["execute", "background", "next_tuple"])
def test_a_component_that_never_ends_is_named_and_abandoned(where: str) -> None:
    release: list[bool] = []

    async def resist() -> None:
        while not release:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                await asyncio.sleep(0)

    class ResistsInExecute(Good):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await resist()

    class ResistsInBackground(Good):
        def prepare(self) -> None:
            self.context.create_task(resist())

    class ResistsInPoll(Endless):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await resist()

    bolt = {"execute": ResistsInExecute, "background": ResistsInBackground}.get(where, Good)

    async def main() -> None:
        async with running(chain(ResistsInPoll if where == "next_tuple" else (lambda: Numbers(3)), bolt, Good)):
            await asyncio.sleep(0.5)
        assert 30 <= loop().time() < 31
        release.append(True)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(1)

    with LogLines() as log:
        play(main)
    name = "spout 'source'" if where == "next_tuple" else "bolt 'bolt1'"
    assert any(f"of {name} did not end within 30 s" in line for line in log.lines), log.lines
    assert closed[-1] == "bolt2"


def test_a_stop_does_not_cancel_the_cleanup_of_a_dead_instance() -> None:
    class Dies(Bolt):
        def execute(self, tup: Tuple) -> None:
            raise ValueError("dies")

        async def cleanup(self) -> None:
            await asyncio.sleep(5)
            closed.append("flushed")

    async def main() -> None:
        async with running(chain(lambda: Numbers(1), Dies)):
            await asyncio.sleep(1)
        assert loop().time() == 5

    play(main)
    assert closed == ["flushed"]


def test_a_stop_while_a_new_instance_prepares_ends_at_once() -> None:
    made = 0

    class Dies(Bolt):
        async def prepare(self) -> None:
            nonlocal made
            made += 1
            if made > 1:
                await asyncio.sleep(1000)

        def execute(self, tup: Tuple) -> None:
            raise ValueError("dies")

        def cleanup(self) -> None:
            closed.append("cleanup")

    async def main() -> None:
        async with running(chain(lambda: Numbers(1), Dies), on_error="restart"):
            await asyncio.sleep(1)
        assert loop().time() == 1

    play(main)
    assert (made, closed) == (2, ["cleanup"])


def test_an_execute_that_a_stop_cancels_may_clean_up() -> None:
    class Tidy(Good):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(0.5)
                closed.append("tidied")

    secs, lines = run_and_stop(lambda: Numbers(1), Tidy, Good)
    assert secs == 0.5
    assert closed == ["tidied", "bolt1", "bolt2"]
    assert not lines
