"""`@spout(burst=True)` in a run: no row is lost or doubled (BU-4)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from engine import Bolt, Burst, BurstBolt, ComponentError, Config, TopologyBuilder, Tuple, spout
from engine.testing import Capture
from tests.runtime.stage import Fails, Keeper, Sink, chain, play, play_run, running

pytestmark = pytest.mark.guarantee("BU-4")


def lists(count: int, size: int) -> Iterator[list[Any]]:
    for first in range(0, count, size):
        yield [(number,) for number in range(first, min(first + size, count))]


@spout("number", burst=True)
def plain(count: int, size: int) -> Iterator[Any]:
    yield from lists(count, size)


@spout("number", burst=True)
async def slow(count: int, size: int) -> AsyncIterator[Any]:
    for each in lists(count, size):
        await asyncio.sleep(1)
        yield each


@spout("number", burst=True)
async def ready(count: int, size: int) -> AsyncIterator[Any]:
    for each in lists(count, size):
        yield each


SOURCES = [plain, slow, ready]


@pytest.mark.guarantee("RUN-2", "GRP-4", "ACK-9")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("size", "settings"),
    [
        (1, {}),
        (7, {"max_spout_pending": 1}),
        (300, {"max_spout_pending": 5}),
        (3000, {}),
        (3000, {"burst": 2000}),
        (400, {"acker_executors": 0}),
        (1000, {"max_spout_pending": 1, "burst": 1}),
    ],
)
def test_each_row_is_emitted_once_and_in_order(source: Any, size: int, settings: dict[str, Any]) -> None:
    sink = Capture()
    run = play_run(chain(source(3000, size), sink), Config(**settings), limit_secs=10_000.0)
    assert run.state == "complete"
    assert sink.field(0) == list(range(3000))
    assert run.snapshot().components["source"].acked == 3000


@pytest.mark.guarantee("ACK-9")
def test_open_trees_stay_below_the_limit() -> None:
    keeper = Keeper()

    async def main() -> None:
        async with running(chain(plain(1000, 1000), lambda: keeper, max_spout_pending=3)):
            await asyncio.sleep(5)
            assert [tup[0] for tup in keeper.kept] == [0, 1, 2]

    play(main)


@pytest.mark.guarantee("BP-1")
def test_a_long_list_stops_at_a_full_mailbox() -> None:
    class Stuck(Bolt):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(1000)

    async def main() -> None:
        async with running(chain(plain(100_000, 100_000), Stuck), executor_receive_buffer_size=100) as run:
            await asyncio.sleep(5)
            assert run.snapshot().components["source"].emitted <= 100 + 256 + 1

    play(main)


class FailsSome(BurstBolt):
    """Fails each third number once."""

    def __init__(self) -> None:
        self.seen = Counter[int]()
        self.done = Counter[int]()

    def execute_many(self, burst: Burst) -> None:
        for tup, number in burst.items("number"):
            self.seen[number] += 1
            if number % 3 == 0 and self.seen[number] == 1:
                burst.fail(tup)
            else:
                self.done[number] += 1


@pytest.mark.guarantee("ACK-4")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("pending", [1, 10, None])
def test_failed_rows_are_replayed_alone(source: Any, pending: int | None) -> None:
    bolt = FailsSome()
    run = play_run(chain(source(1000, 350), lambda: bolt, max_spout_pending=pending))
    assert run.state == "complete"
    assert bolt.done == Counter(range(1000))
    assert sum(bolt.seen.values()) == 1000 + 334


def test_rows_are_given_up_after_their_retries() -> None:
    given_up: list[Any] = []

    @spout("number", burst=True, max_retries=2, on_give_up=lambda row, failure: given_up.append(row[0]))
    def numbers() -> Iterator[Any]:
        yield from lists(50, 20)

    run = play_run(chain(numbers, Fails))
    assert sorted(given_up) == list(range(50))
    assert run.snapshot().components["source"].failed == 150


def test_a_row_with_a_key_that_cannot_be_hashed_is_skipped_alone() -> None:
    given_up: list[Any] = []

    @spout("key", "number", burst=True, on_give_up=lambda row, failure: given_up.append(row[1]))
    def numbers() -> Iterator[Any]:
        yield [(object() if number in (0, 17, 99) else "key", number) for number in range(100)]

    sink = Capture()
    builder = TopologyBuilder("keys")
    builder.set_spout("source", numbers)
    builder.set_bolt("sink", sink).fields_grouping("source", "key")
    play_run(builder.build())
    assert given_up == [0, 17, 99]
    assert sink.field(1) == [number for number in range(100) if number not in given_up]


@pytest.mark.guarantee("RUN-3")
@pytest.mark.parametrize("source", [plain, ready])
@pytest.mark.parametrize("paused", [False, True])
def test_a_drain_emits_the_rest_of_a_list(source: Any, paused: bool) -> None:
    bolt = Capture(settles=False)

    async def main() -> None:
        async with running(chain(source(100, 50), bolt, max_spout_pending=4)) as run:
            await asyncio.sleep(1)
            if paused:
                await run.deactivate()
            draining = asyncio.create_task(run.drain(1000))
            while not draining.done():
                await asyncio.sleep(0.01)
                while bolt.unsettled:
                    bolt.settle_next()
            await draining
            assert run.state == "drained"

    play(main)
    numbers = bolt.field(0)
    assert numbers == list(range(50 if source is plain else 100))


@pytest.mark.guarantee("RUN-3")
@pytest.mark.parametrize("burst", [False, True])
def test_a_drain_emits_all_that_an_async_generator_has_taken_and_takes_no_more(burst: bool) -> None:
    queue, taken, sink = asyncio.Queue[int](), list[int](), Capture(settles=False)

    @spout("number", burst=burst)
    async def numbers() -> AsyncIterator[Any]:
        while True:
            taken.append(await queue.get())
            yield [(taken[-1],)] if burst else (taken[-1],)

    async def main() -> None:
        async with running(chain(numbers, sink, max_spout_pending=2)) as run:
            for number in range(10):
                queue.put_nowait(number)
            await asyncio.sleep(1)
            draining = asyncio.create_task(run.drain(1000))
            await asyncio.sleep(1)
            queue.put_nowait(10)
            while not draining.done():
                await asyncio.sleep(0.01)
                while sink.unsettled:
                    sink.settle_next()
            await draining

    play(main)
    assert sink.field(0) == taken == list(range(10))
    assert queue.qsize() == 1


@pytest.mark.guarantee("RUN-3", "ACK-13")
@pytest.mark.parametrize("is_async", [False, True])
def test_a_drain_raises_the_error_behind_the_rows_that_it_emits(is_async: bool) -> None:
    rows, sink = [*((number,) for number in range(20)), ("a", "bad row"), (20,)], Capture(settles=False)

    @spout("number", burst=True)
    def plain_rows() -> Iterator[Any]:
        yield rows

    @spout("number", burst=True)
    async def async_rows() -> AsyncIterator[Any]:
        yield rows

    async def main() -> None:
        async with running(chain(async_rows if is_async else plain_rows, sink, max_spout_pending=2)) as run:
            await asyncio.sleep(1)
            draining = asyncio.create_task(run.drain(1000))
            while not draining.done():
                await asyncio.sleep(0.01)
                while sink.unsettled:
                    sink.settle_next()
            await draining

    with pytest.raises(ComponentError, match=r"a list whose row \d+ is \('a', 'bad row'\)"):
        play(main)
    assert sink.field(0) == list(range(20))


@pytest.mark.guarantee("RUN-3")
def test_a_drain_does_not_retry_and_does_not_wait_for_failed_rows() -> None:
    pulled: list[int] = []

    @spout("number", burst=True, max_retries=None)
    def numbers() -> Iterator[Any]:
        for each in lists(100, 50):
            pulled.append(len(each))
            yield each

    class FailsLate(Bolt):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            self.collector.fail(tup)

    async def main() -> None:
        async with running(chain(numbers, FailsLate, max_spout_pending=4)) as run:
            await asyncio.sleep(0.5)
            await run.drain(1000)
            assert run.state == "drained"
            assert run.snapshot().components["source"].emitted == 50

    play(main)
    assert pulled == [50]


@pytest.mark.parametrize("source", [plain, ready])
def test_a_pause_keeps_the_rest_of_a_list(source: Any) -> None:
    bolt = Capture(settles=False)

    async def main() -> None:
        async with running(chain(source(100, 50), bolt, max_spout_pending=4)) as run:
            for _ in range(10):
                await asyncio.sleep(1)
                await run.deactivate()
                while bolt.unsettled:
                    bolt.settle_next()
                before = len(bolt.field(0))
                await asyncio.sleep(1)
                assert len(bolt.field(0)) == before
                await run.activate()
            while run.state == "running":
                await asyncio.sleep(0.1)
                while bolt.unsettled:
                    bolt.settle_next()

    play(main)
    assert bolt.field(0) == list(range(100))


@pytest.mark.guarantee("ACK-13")
@pytest.mark.parametrize("source", [plain, ready])
def test_a_new_instance_starts_the_generator_again_without_rows_of_the_old_one(source: Any) -> None:
    bolt = Capture(settles=False)

    async def main() -> None:
        async with running(chain(source(100, 50), bolt, max_spout_pending=4)) as run:
            await asyncio.sleep(1)
            assert bolt.field(0) == [0, 1, 2, 3]
            run.kill_task(1)
            while run.state == "running":
                await asyncio.sleep(0.1)
                while bolt.unsettled:
                    bolt.settle_next()

    play(main)
    assert bolt.field(0) == [0, 1, 2, 3, *range(100)]


def test_a_restartable_generator_that_raises_is_renewed_with_restart() -> None:
    runs: list[int] = []

    @spout("number", burst=True, restartable=True)
    def flaky() -> Iterator[Any]:
        runs.append(len(runs))
        yield [(number,) for number in range(10)]
        if len(runs) < 3:
            raise OSError("gone")
        yield [(number,) for number in range(10, 20)]

    sink = Capture()
    for on_error in ("fail", "restart"):
        runs.clear()
        run = play_run(chain(flaky, sink, on_error=on_error))
        assert run.state == "complete"
        assert runs == [0, 1, 2]
    assert Counter(sink.field(0)) == Counter([*range(10)] * 6 + [*range(10, 20)] * 2)


def test_a_slow_list_is_pulled_once_per_turn() -> None:
    """Given lists that take long to make, then a bolt gets its turn between two lists."""
    events: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        @spout("number", burst=True)
        def numbers() -> Iterator[Any]:
            for number in range(5):
                loop.advance(0.02)  # type: ignore[attr-defined]
                events.append(f"list {number}")
                yield [(number,)]

        class Notes(Sink):
            def execute(self, tup: Tuple) -> None:
                events.append(f"row {tup[0]}")
                super().execute(tup)

        async with running(chain(numbers, Notes)) as run:
            await run.completed()

    play(main)
    assert events == [text for number in range(5) for text in (f"list {number}", f"row {number}")]
