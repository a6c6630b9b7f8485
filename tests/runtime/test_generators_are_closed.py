"""Each generator of a `@spout` is closed once, and its `finally` runs to its end on every way out of a run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from engine import Run, Spout, TopologyBuilder, UsageError, bolt, spout
from engine.cancellation import BACKGROUND_END_SECS
from engine.errors import ComponentError
from tests.runtime.stage import LogLines, Sink, chain, loop, play, running

pytestmark = pytest.mark.guarantee("BU-4")
CLOSE_SECS = 5.0
"""Time that the `finally` of an async generator takes, such as to close a connection."""


class Source:
    """Makes a generator function that writes down its life."""

    def __init__(self, *, is_async: bool, restartable: bool = False, rows: Any = None) -> None:
        self.log: list[str] = []
        self.opened = 0
        self.rows = rows or (lambda number: (number,))
        self.component = spout("number", max_retries=0, restartable=restartable)(self._later() if is_async else self._now())

    def begin(self) -> None:
        self.opened += 1
        self.log.append(f"opened {self.opened}")

    def _now(self) -> Callable[[], Iterator[Any]]:
        def rows() -> Iterator[Any]:
            self.begin()
            mine = self.opened
            try:
                for number in range(10**6):
                    yield self.rows(number)
                    yield None
            finally:
                self.log.append(f"closed {mine}")

        return rows

    def _later(self) -> Callable[[], AsyncIterator[Any]]:
        async def rows() -> AsyncIterator[Any]:
            self.begin()
            mine = self.opened
            try:
                for number in range(10**6):
                    yield self.rows(number)
                    await asyncio.sleep(0.05)
            finally:
                self.log.append(f"closing {mine}")
                await asyncio.sleep(CLOSE_SECS)
                self.log.append(f"closed {mine}")

        return rows


async def drains(run: Run) -> None:
    await run.drain()


async def drains_late(run: Run) -> None:
    await run.drain(1)


async def stops(run: Run) -> None:
    await run.stop()


async def leaves(run: Run) -> None:
    return


async def restarts(run: Run) -> None:
    run.restart_task(1)
    await asyncio.sleep(CLOSE_SECS + 1)


def expected(source: Source, *, is_async: bool) -> list[str]:
    """Return the log of generators of which each is closed once, before the next one is opened."""
    one = ["opened {0}", "closing {0}", "closed {0}"] if is_async else ["opened {0}", "closed {0}"]
    return [line.format(number) for number in range(1, source.opened + 1) for line in one]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("end", [drains, drains_late, stops, leaves, restarts])
def test_the_finally_runs_to_its_end_once(end: Callable[[Run], Awaitable[None]], *, is_async: bool) -> None:
    source = Source(is_async=is_async)

    async def main() -> None:
        async with running(chain(source.component, Sink)) as run:
            await asyncio.sleep(0.2)
            await end(run)

    with LogLines() as log:
        play(main)
    assert source.log == expected(source, is_async=is_async)
    assert source.opened == (2 if end is restarts else 1)
    assert not log.having("raised")


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_generator_of_a_run_whose_bolt_fails_is_closed(*, is_async: bool) -> None:
    source = Source(is_async=is_async)

    @bolt()
    def fails(tup: Any) -> None:
        if tup["number"] == 3:
            raise ValueError("at three")

    async def main() -> None:
        with pytest.raises(ComponentError):
            async with running(chain(source.component, fails), on_error="stop") as run:
                await run.completed()

    play(main)
    assert source.log == expected(source, is_async=is_async)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_generator_is_closed_if_another_component_fails_to_start(*, is_async: bool) -> None:
    source = Source(is_async=is_async)

    class Refuses(Spout):
        output_fields = "number"

        async def open(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.2)
            raise ValueError("no source")

        def next_tuple(self) -> None:
            raise AssertionError

    builder = TopologyBuilder("two sources")
    builder.set_spout("a", source.component)
    builder.set_spout("b", Refuses)
    builder.set_bolt("sink", Sink).shuffle_grouping("a").shuffle_grouping("b")

    async def main() -> None:
        with pytest.raises(ComponentError):
            async with running(builder.build(), max_task_restarts=0):
                raise AssertionError

    play(main)
    assert source.log == expected(source, is_async=is_async)


@pytest.mark.guarantee("ACK-13")
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_restartable_generator_is_closed_before_the_next_one_begins(*, is_async: bool) -> None:
    source = Source(is_async=is_async, restartable=True, rows=lambda number: (number,) if number < 2 else "no row")

    async def main() -> None:
        async with running(chain(source.component, Sink)) as run:
            await asyncio.sleep(3 * CLOSE_SECS)
            await run.stop()

    with LogLines() as log:
        play(main)
    assert source.opened >= 2
    assert source.log == expected(source, is_async=is_async)
    assert log.having("yielded 'no row'")


@pytest.mark.parametrize("end", [drains, stops])
def test_an_error_of_the_finally_is_reported_once(end: Callable[[Run], Awaitable[None]]) -> None:
    @spout("number")
    async def rows() -> AsyncIterator[Any]:
        try:
            while True:
                yield (1,)
                await asyncio.sleep(0.05)
        finally:
            await asyncio.sleep(0.1)
            raise UsageError("the connection was gone")

    async def main() -> None:
        async with running(chain(rows, Sink)) as run:
            await asyncio.sleep(0.2)
            await end(run)

    with LogLines() as log:
        play(main)
    assert len(log.having("UsageError: the connection was gone")) == 1


@pytest.mark.guarantee("RUN-3")
def test_a_finally_that_never_ends_does_not_keep_the_run() -> None:
    @spout("number")
    async def rows() -> AsyncIterator[Any]:
        try:
            while True:
                yield (1,)
                await asyncio.sleep(0.05)
        finally:
            await asyncio.Event().wait()

    async def main() -> float:
        async with running(chain(rows, Sink)) as run:
            await asyncio.sleep(0.2)
            before = loop().time()
            await run.stop()
            return loop().time() - before

    assert play(main) == pytest.approx(BACKGROUND_END_SECS)
