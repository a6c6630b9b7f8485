"""A big emit_many does not hold the loop: it emits one slice of rows at each turn (BP-4)."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from engine import Bolt, Fields, Spout, SpoutExhausted, TopologyBuilder, Tuple
from engine.runtime.pending_rows import ROWS_PER_CHECK, ROWS_PER_TURN
from engine.testing import Capture
from tests.runtime.stage import AtOnce, LogLines, Numbers, Sink, chain, play, play_run, running

pytestmark = pytest.mark.guarantee("BP-4")
MANY = 20 * ROWS_PER_TURN + 7


class Once(Spout):
    """Calls `emits(spout)` at its first poll, and is exhausted then."""

    output_fields = Fields("number")

    def __init__(self, emits: Any) -> None:
        self.emits = emits
        self.acked: list[Any] = []
        self.failed: list[Any] = []
        self.polled = False

    def next_tuple(self) -> Any:
        if self.polled:
            raise SpoutExhausted
        self.polled = True
        return self.emits(self)

    def ack(self, message_id: Any) -> None:
        self.acked.append(message_id)

    def fail(self, message_id: Any) -> None:
        self.failed.append(message_id)


def rows(first: int, last: int) -> list[tuple[int]]:
    return [(number,) for number in range(first, last)]


async def begun(sink: Capture) -> None:
    """Wait for the first row."""
    while not sink.arrivals:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)


def test_every_row_arrives_in_order_and_is_acked_once() -> None:
    spout, sink = AtOnce(MANY), Capture()
    run = play_run(chain(lambda: spout, sink))
    assert sink.field(0) == list(range(MANY))
    assert sorted(spout.acked) == list(range(MANY))
    assert run.snapshot().components["source"].tasks[0].emitted == MANY


def test_other_tasks_run_between_slices() -> None:
    """Rows are executed while others are pending."""
    seen: list[int] = []

    class Looks(Sink):
        def execute(self, tup: Tuple) -> None:
            seen.append(run_now[0].snapshot().components["source"].tasks[0].emitted)
            super().execute(tup)

    run_now: list[Any] = []

    async def main() -> None:
        async with running(chain(lambda: AtOnce(MANY), Looks)) as run:
            run_now.append(run)
            await run.completed()

    play(main)
    assert seen[0] <= 3 * ROWS_PER_TURN
    assert seen[-1] == MANY
    assert len(set(seen)) > 10


def test_later_emits_arrive_later() -> None:
    sink = Capture()

    def emits(spout: Once) -> None:
        spout.collector.emit((-1,), "first")
        spout.collector.emit_many(rows(0, MANY), list(range(MANY)))
        spout.collector.emit((MANY,), MANY)
        spout.collector.emit_many(rows(MANY + 1, 2 * MANY))
        spout.collector.emit((2 * MANY,), "last")

    spout = Once(emits)
    play_run(chain(lambda: spout, sink))
    assert sink.field(0) == list(range(-1, 2 * MANY + 1))
    assert len(spout.acked) == MANY + 3


def test_the_spout_is_not_polled_before_all_rows_are_emitted() -> None:
    polls: list[int] = []

    class Polled(Numbers):
        def next_tuple(self) -> None:
            polls.append(len(sink.arrivals))
            if len(polls) > 2:
                raise SpoutExhausted
            self.collector.emit_many(rows(0, MANY))

    sink = Capture()
    run = play_run(chain(lambda: Polled(0), sink))
    assert len(sink.arrivals) == 2 * MANY
    assert polls[1] >= MANY - 4 * ROWS_PER_TURN
    assert run.state == "complete"


def test_the_rows_may_change_after_the_call() -> None:
    sink = Capture()

    def emits(spout: Once) -> None:
        mine, ids = rows(0, MANY), list(range(MANY))
        spout.collector.emit_many(mine, ids)
        mine.clear()
        ids.clear()

    spout = Once(emits)
    play_run(chain(lambda: spout, sink))
    assert sink.field(0) == sorted(spout.acked) == list(range(MANY))


def test_a_generator_of_rows_is_read_by_the_call() -> None:
    sink = Capture()
    pulled: list[int] = []

    def generated() -> Iterator[tuple[int]]:
        for number in range(MANY):
            pulled.append(number)
            yield (number,)

    def emits(spout: Once) -> None:
        spout.collector.emit_many(generated())  # type: ignore[arg-type]
        assert len(pulled) == MANY

    play_run(chain(lambda: Once(emits), sink))
    assert sink.field(0) == list(range(MANY))


@pytest.mark.guarantee("BP-1")
def test_the_bound_of_a_mailbox_is_exceeded_by_one_slice_at_most() -> None:
    waiting: list[int] = []

    class Slow(Bolt):
        async def execute(self, tup: Tuple) -> None:
            if tup[0] % 100 == 0:
                waiting.append(run_now[0].snapshot().components["bolt1"].tasks[0].waiting)
                await asyncio.sleep(0.001)
            self.collector.ack(tup)

    run_now: list[Any] = []

    async def main() -> None:
        async with running(chain(lambda: AtOnce(MANY), Slow), executor_receive_buffer_size=512) as run:
            run_now.append(run)
            await run.completed()

    play(main)
    assert max(waiting[11:]) <= 512 + ROWS_PER_CHECK
    assert max(waiting) <= 512 + ROWS_PER_TURN


@pytest.mark.guarantee("RUN-2")
@pytest.mark.guarantee("RUN-3")
def test_a_drain_emits_the_remaining_rows() -> None:
    sink = Capture()

    async def main() -> str:
        async with running(chain(lambda: AtOnce(MANY), sink)) as run:
            await begun(sink)
            assert len(sink.arrivals) < MANY
            await run.drain()
        return run.state

    assert play(main) == "drained"
    assert len(sink.arrivals) == MANY


def test_a_stop_drops_the_remaining_rows() -> None:
    sink = Capture()

    async def main() -> None:
        async with running(chain(lambda: AtOnce(MANY), sink)) as run:
            await begun(sink)
            await run.stop()
        await asyncio.sleep(1)

    play(main)
    assert len(sink.arrivals) < MANY


@pytest.mark.guarantee("ACK-13")
def test_the_remaining_rows_of_an_instance_that_dies_are_dropped() -> None:
    sink = Capture()
    made: list[AtOnce] = []

    def make() -> AtOnce:
        made.append(AtOnce(MANY, first=MANY * len(made)))
        return made[-1]

    async def main() -> None:
        async with running(chain(make, sink)) as run:
            await begun(sink)
            run.kill_task(run.task_ids("source")[0])
            await run.completed()

    play(main)
    assert len(made) == 2
    old = [number for number in sink.field(0) if number < MANY]
    assert len(old) < MANY
    assert [number for number in sink.field(0) if number >= MANY] == list(range(MANY, 2 * MANY))
    assert sorted(made[1].acked) == list(range(MANY, 2 * MANY))


def test_background_work_can_await_ready() -> None:
    sink = Capture()
    at_ready: list[int] = []

    class Fills(Spout):
        output_fields = Fields("number")
        done = False

        def open(self) -> None:
            self.context.create_task(self.fill())

        async def fill(self) -> None:
            for number in range(3):
                await self.collector.ready()
                at_ready.append(run_now[0].snapshot().components["source"].tasks[0].emitted)
                self.collector.emit_many(rows(number * MANY, (number + 1) * MANY))
            await self.collector.ready()
            self.done = True
            self.context.wake()

        def next_tuple(self) -> None:
            if self.done:
                raise SpoutExhausted

    run_now: list[Any] = []

    async def main() -> None:
        async with running(chain(Fills, sink)) as run:
            run_now.append(run)
            await run.completed()

    play(main)
    assert at_ready[1:] == [MANY, 2 * MANY]
    assert sink.field(0) == list(range(3 * MANY))


def test_rows_are_emitted_while_an_async_next_tuple_waits() -> None:
    sink = Capture()

    async def emits(spout: Once) -> None:
        spout.collector.emit_many(rows(0, MANY))
        await spout.collector.ready()
        await asyncio.sleep(1)
        assert len(sink.arrivals) == MANY

    run = play_run(chain(lambda: Once(emits), sink))
    assert run.state == "complete"
    assert not run.snapshot().errors


@pytest.mark.guarantee("ACK-6")
def test_without_ackers_each_row_is_acked_when_it_is_emitted() -> None:
    spout, sink = AtOnce(MANY), Capture()

    async def main() -> None:
        async with running(chain(lambda: spout, sink), acker_executors=0) as run:
            await run.completed()

    play(main)
    assert spout.acked == list(range(MANY))
    assert sink.field(0) == list(range(MANY))


@pytest.mark.guarantee("ACK-9")
def test_open_trees_may_exceed_their_bound_by_one_call() -> None:
    spout, sink = AtOnce(MANY), Capture()

    async def main() -> None:
        async with running(chain(lambda: spout, sink), max_spout_pending=1) as run:
            await run.completed()

    play(main)
    assert sorted(spout.acked) == list(range(MANY))


def test_a_direct_emit_keeps_its_order() -> None:
    class Directs(Once):
        output_fields = {"default": Fields("number"), "direct": Fields("number", direct=True)}

    sink = Capture()

    def emits(spout: Once) -> None:
        [task] = spout.context.task_ids("sink")
        spout.collector.emit_many(rows(0, MANY))
        spout.collector.emit_direct(task, (MANY,), stream="direct")
        spout.collector.emit((MANY + 1,))

    builder = TopologyBuilder("direct")
    builder.set_spout("source", lambda: Directs(emits))
    builder.set_bolt("sink", sink).shuffle_grouping("source").direct_grouping("source", "direct")
    play_run(builder.build())
    assert sink.field(0) == list(range(MANY + 2))


@pytest.mark.parametrize("seed", range(10))
def test_for_random_emits_and_kills_rows_arrive_in_order_with_one_verdict_each(seed: int) -> None:
    """All rows arrive once and in order, for any sequence of emits. Each tracked row has one verdict."""
    draws = random.Random(seed)
    sizes = [draws.choice([1, 5, ROWS_PER_CHECK, ROWS_PER_TURN - 1, ROWS_PER_TURN, ROWS_PER_TURN + 1, 5000]) for _ in range(12)]
    capacity = draws.choice([2, 100, 5000])

    class Mixes(Numbers):
        def next_tuple(self) -> None:
            if not sizes:
                raise SpoutExhausted
            for _ in range(min(len(sizes), draws.randrange(1, 4))):
                size, first = sizes.pop(), len(given)
                given.extend(range(first, first + size))
                if size == 1:
                    self.collector.emit((first,), first)
                else:
                    self.collector.emit_many(rows(first, first + size), list(range(first, first + size)))

    given: list[int] = []
    spout, sink = Mixes(0), Capture()

    async def main() -> None:
        async with running(chain(lambda: spout, sink), executor_receive_buffer_size=capacity) as run:
            await run.completed()

    with LogLines() as log:
        play(main)
    assert sink.field(0) == given
    assert sorted(spout.acked) == given
    assert not log.having("EngineBug")


def test_a_small_emit_many_is_complete_when_it_returns() -> None:
    def emits(spout: Once) -> None:
        spout.collector.emit_many(rows(0, ROWS_PER_TURN), list(range(ROWS_PER_TURN)))
        counts.append(spout.collector.rows_emitted)

    counts: list[int] = []
    play_run(chain(lambda: Once(emits), Sink))
    assert counts == [ROWS_PER_TURN]
