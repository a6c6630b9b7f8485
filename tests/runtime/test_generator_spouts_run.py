"""`@spout` in a run: plain and async generators, replays, tuples that are given up, and the end."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import uvloop

from engine import Bolt, Config, Failure, Tuple, spout
from engine.testing import Capture
from tests.patience import PATIENCE_SECS
from tests.runtime.stage import Fails, Keeper, LogLines, chain, play, play_run, running, strict


@spout("number")
def plain(count: int) -> Iterator[Any]:
    for number in range(count):
        yield (number,)


@spout("number")
async def slow(count: int) -> AsyncIterator[Any]:
    for number in range(count):
        await asyncio.sleep(1)
        yield (number,)


@spout("number")
async def ready(count: int) -> AsyncIterator[Any]:
    for number in range(count):
        yield (number,)


SOURCES = [plain, slow, ready]


class FailsTwice(Bolt):
    """Fails every number twice before it acks it."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.done: list[int] = []

    def execute(self, tup: Tuple) -> None:
        self.seen[tup[0]] = self.seen.get(tup[0], 0) + 1
        if self.seen[tup[0]] > 2:
            self.done.append(tup[0])
            self.collector.ack(tup)
        else:
            self.collector.fail(tup)


@pytest.mark.guarantee("RUN-2")
@pytest.mark.parametrize("source", SOURCES)
def test_each_item_is_emitted_and_the_run_completes(source: Any) -> None:
    sink = Capture()
    run = play_run(chain(source(300), sink))
    assert run.state == "complete"
    assert sink.field(0) == list(range(300))


@pytest.mark.parametrize("source", SOURCES)
def test_a_failed_tuple_is_replayed_from_memory(source: Any) -> None:
    bolt = FailsTwice()
    run = play_run(chain(source(20), lambda: bolt))
    assert sorted(bolt.done) == list(range(20))
    assert set(bolt.seen.values()) == {3}
    assert run.state == "complete"


def test_a_tuple_that_fails_too_often_is_given_up() -> None:
    given_up: list[tuple[Any, Failure]] = []

    @spout("number", max_retries=2, on_give_up=lambda row, failure: given_up.append((row, failure)))
    def numbers() -> Iterator[Any]:
        yield from ((number,) for number in range(3))

    class FailsOne(Bolt):
        def execute(self, tup: Tuple) -> None:
            (self.collector.fail if tup[0] == 1 else self.collector.ack)(tup)

    run = play_run(chain(numbers, FailsOne))
    assert given_up == [((1,), Failure("failed", "bolt1", 2))]
    assert run.snapshot().components["source"].failed == 3
    assert run.state == "complete"


def test_without_a_listener_a_given_up_tuple_is_reported() -> None:
    @spout("number", max_retries=0)
    def numbers() -> Iterator[Any]:
        yield (1,)

    with LogLines() as log:
        play_run(chain(numbers, Fails))
    assert log.having("gave up (1,) after 1 emit")


def test_a_slow_async_generator_does_not_block_the_run() -> None:
    """Given a generator that is silent for minutes, when a tree is settled meanwhile, then its verdict comes at once."""
    keeper = Capture(settles=False)

    @spout("number")
    async def silent() -> AsyncIterator[Any]:
        yield (1,)
        await asyncio.sleep(300)
        yield (2,)

    async def main() -> None:
        async with running(chain(silent, keeper), enable_message_timeouts=False) as run:
            await asyncio.sleep(1)
            keeper.settle_next()
            await asyncio.sleep(0.001)
            assert run.snapshot().components["source"].acked == 1
            await asyncio.sleep(300)
            assert [tup[0] for tup in keeper.unsettled] == [2]
            keeper.settle_next()
            await run.completed()

    with LogLines() as log:
        play(main)
    assert not log.lines, "no warning of a slow call"


def test_an_async_generator_does_not_run_far_ahead() -> None:
    pulled = 0

    @spout("number")
    async def numbers() -> AsyncIterator[Any]:
        nonlocal pulled
        for number in range(10_000):
            pulled += 1
            yield (number,)

    async def main() -> None:
        async with running(chain(numbers, Keeper, max_spout_pending=5)):
            await asyncio.sleep(5)
            assert pulled <= 5 + 256 + 1

    play(main)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_the_finally_of_a_generator_runs_when_its_run_ends(how: str) -> None:
    ends: list[str] = []

    @spout("number")
    def endless() -> Iterator[Any]:
        try:
            number = 0
            while True:
                number += 1
                yield (number,)
        finally:
            ends.append("plain")

    @spout("number")
    async def async_endless() -> AsyncIterator[Any]:
        try:
            while True:
                await asyncio.sleep(1)
                yield (1,)
        finally:
            await asyncio.sleep(0.5)
            ends.append("async")

    async def main(source: Any) -> None:
        async with running(chain(source, Keeper, max_spout_pending=2)) as run:
            await asyncio.sleep(2.5)
            if how == "kill":
                run.kill_task(1)
                await asyncio.sleep(3)

    play(lambda: main(endless))
    play(lambda: main(async_endless))
    assert set(ends) == {"plain", "async"}


def test_an_async_generator_that_raises_is_reported_after_its_yields_are_emitted() -> None:
    from engine import ComponentError

    @spout("number")
    async def breaks() -> AsyncIterator[Any]:
        for number in range(5):
            yield (number,)
        raise OSError("gone")

    sink = Capture()

    async def main() -> None:
        with pytest.raises(ComponentError) as caught:
            async with running(chain(breaks, sink)) as run:
                await run.completed()
        assert isinstance(caught.value.error, OSError)

    play(main)
    assert sink.field(0) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("source", [plain, ready])
def test_generator_spouts_work_on_real_loops(source: Any, loop_factory: Any) -> None:
    bolt = FailsTwice()

    async def main() -> None:
        async with running(chain(source(2000), lambda: bolt, max_spout_pending=100)) as run:
            await run.completed()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(strict(main)(), PATIENCE_SECS))
    assert sorted(bolt.done) == list(range(2000))


def test_without_ackers_no_tuple_is_kept_for_a_replay() -> None:
    sink = Capture()
    run = play_run(chain(plain(100), sink), Config(acker_executors=0))
    assert sink.field(0) == list(range(100))
    assert run.snapshot().components["source"].acked == 100


def test_the_finally_of_an_async_generator_with_a_full_buffer_ends_before_its_run() -> None:
    ends: list[str] = []

    @spout("number")
    async def endless() -> AsyncIterator[Any]:
        try:
            while True:
                yield (1,)
        finally:
            await asyncio.sleep(0.5)
            ends.append("closed")

    async def main() -> None:
        async with running(chain(endless, Keeper, max_spout_pending=2)):
            await asyncio.sleep(1)
        assert ends == ["closed"]

    play(main)


@pytest.mark.guarantee("BU-4")
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_yielded_none_means_that_there_is_nothing_now(kind: str) -> None:
    pulls: list[float] = []

    def rows() -> Any:
        for number in range(3):
            for _ in range(20):
                pulls.append(asyncio.get_running_loop().time())
                yield None
            yield (number,)

    async def later() -> Any:
        for row in rows():
            yield row

    sink = Capture()
    run = play_run(chain(spout("number")(rows if kind == "plain" else later), sink))
    assert run.state == "complete"
    assert sink.field(0) == [0, 1, 2]
    assert pulls[19] - pulls[0] > 0.5, "each None is followed by a pause, so that an idle source costs nothing"
