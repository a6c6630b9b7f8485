"""`concurrency = n`: several calls of an async bolt run at once (ACK-10)."""

import asyncio
from random import Random
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Fields, Tuple
from engine.testing import Capture
from tests.runtime.stage import Endless, Numbers, Sink, chain, loop, play, play_run, running

pytestmark = pytest.mark.guarantee("ACK-10")


class Slow(Bolt):
    """Takes a second for each input, and counts how many are in flight."""

    def __init__(self) -> None:
        self.in_flight = self.most = 0
        self.done: list[tuple[int, float]] = []

    async def execute(self, tup: Tuple) -> None:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(1)
        finally:
            self.in_flight -= 1
        self.done.append((tup[0], loop().time()))
        self.collector.ack(tup)


@pytest.mark.parametrize(("width", "secs"), [(1, 12), (4, 3), (12, 1), (50, 1)])
def test_at_most_n_inputs_are_in_flight(width: int, secs: int) -> None:
    spout, bolt = Numbers(12), Slow()
    bolt.concurrency = width
    run = play_run(chain(lambda: spout, lambda: bolt))
    assert bolt.most == min(width, 12)
    assert max(at for _, at in bolt.done) == pytest.approx(secs, abs=0.1)
    assert sorted(spout.acked) == list(range(12))
    assert run.state == "complete"


def test_a_concurrency_of_one_keeps_the_order() -> None:
    class Uneven(Slow):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(1 / (1 + tup[0]))
            self.done.append((tup[0], 0.0))
            self.collector.ack(tup)

    bolt = Uneven()
    play_run(chain(lambda: Numbers(10), lambda: bolt))
    assert [number for number, _ in bolt.done] == list(range(10))


class Picky(Slow):
    """Raises at 3, after the other calls of its round have begun."""

    concurrency = 4

    async def execute(self, tup: Tuple) -> None:
        if tup[0] == 3:
            await asyncio.sleep(0.5)
            raise ValueError("three")
        await super().execute(tup)


def test_with_fail_the_other_calls_continue() -> None:
    class Kept(Picky):
        on_error = "fail"

    spout, bolt = Numbers(8), Kept()
    play_run(chain(lambda: spout, lambda: bolt))
    assert spout.failed == [3]
    assert spout.failures[0].reason == "error"
    assert sorted(spout.acked) == [0, 1, 2, 4, 5, 6, 7]


def test_with_restart_the_other_calls_are_cancelled_and_fail() -> None:
    cancelled: list[int] = []
    made: list[Bolt] = []

    class Dies(Picky):
        on_error = "restart"

        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        async def execute(self, tup: Tuple) -> None:
            try:
                await super().execute(tup)
            except asyncio.CancelledError:
                cancelled.append(tup[0])
                raise

    spout = Numbers(8)
    play_run(chain(lambda: spout, Dies))
    assert sorted(cancelled) == [0, 1, 2]
    assert sorted(spout.failed) == [0, 1, 2, 3]
    reasons = dict(zip(spout.failed, (failure.reason for failure in spout.failures), strict=True))
    assert reasons == {0: "task_died", 1: "task_died", 2: "task_died", 3: "error"}
    assert sorted(spout.acked) == [4, 5, 6, 7]
    assert len(made) == 2


def test_with_restart_several_simultaneous_exceptions_count_as_one_death() -> None:
    class AllDie(Bolt):
        concurrency = 4
        on_error = "restart"

        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(1)
            if tup[0] < 4:
                raise ValueError(tup[0])
            self.collector.ack(tup)

    spout = Numbers(8)
    run = play_run(chain(lambda: spout, AllDie))
    assert sorted(spout.failed) == [0, 1, 2, 3]
    assert sorted(spout.acked) == [4, 5, 6, 7]
    assert run.snapshot().components["bolt1"].restarts == 1


def test_a_settle_after_the_death_of_the_instance_is_ignored() -> None:
    """Given a call that catches its cancellation, when it acks afterwards, then the tree stays failed."""

    class Stubborn(Bolt):
        concurrency = 2
        on_error = "restart"

        async def execute(self, tup: Tuple) -> None:
            if tup[0] == 1:
                raise ValueError("dies")
            try:
                await asyncio.sleep(0 if tup[0] else 10)
            except asyncio.CancelledError:
                self.collector.ack(tup)
                raise
            self.collector.ack(tup)

    spout = Numbers(4)
    run = play_run(chain(lambda: spout, Stubborn))
    assert sorted(spout.failed) == [0, 1]
    assert sorted(spout.acked) == [2, 3]
    assert run.snapshot().components["bolt1"].settled_twice == 0


def test_a_basic_bolts_emits_are_anchored_to_the_input_of_their_own_call() -> None:
    """Given calls that interleave, when a child fails, then the tree of its own input fails, and no other."""

    class Interleaved(BasicBolt):
        output_fields = Fields("number", "part")
        concurrency = 5

        async def execute(self, tup: Tuple) -> None:
            for part in range(3):
                await asyncio.sleep(0.01 * ((tup[0] * 7 + part * 3) % 5))
                self.collector.emit((tup[0], part))

    class Judge(Bolt):
        def execute(self, tup: Tuple) -> None:
            (self.collector.fail if tup.values == (6, 1) else self.collector.ack)(tup)

    spout = Numbers(20)
    run = play_run(chain(lambda: spout, Interleaved, Judge))
    assert spout.failed == [6]
    assert sorted(spout.acked) == [number for number in range(20) if number != 6]
    assert run.snapshot().components["bolt2"].executed == 60


def test_helpers_started_by_a_call_emit_for_that_call() -> None:
    class Gathering(BasicBolt):
        output_fields = Fields("number")
        concurrency = 3

        async def execute(self, tup: Tuple) -> None:
            await asyncio.gather(*(self.part(tup[0], i) for i in range(3)))

        async def part(self, number: int, i: int) -> None:
            await asyncio.sleep(i)
            self.collector.emit((number * 10 + i,))

    class Judge(Bolt):
        def execute(self, tup: Tuple) -> None:
            (self.collector.fail if tup[0] == 21 else self.collector.ack)(tup)

    spout = Numbers(5)
    play_run(chain(lambda: spout, Gathering, Judge))
    assert spout.failed == [2]


def test_an_emit_outside_of_a_call_raises() -> None:
    raised: list[BaseException] = []

    class Late(BasicBolt):
        output_fields = Fields("number")

        def prepare(self) -> None:
            self.context.create_task(self.emit_later())

        async def emit_later(self) -> None:
            await asyncio.sleep(1)
            try:
                self.collector.emit((1,))
            except Exception as error:
                raised.append(error)

        async def execute(self, tup: Tuple) -> None: ...

    async def main() -> None:
        async with running(chain(Endless, Late, Sink)):
            await asyncio.sleep(2)

    play(main)
    assert "outside execute()" in str(raised[0])


@pytest.mark.parametrize("seed", range(4))
def test_many_calls_in_flight_lose_no_tuple(seed: int) -> None:
    class Jittery(BasicBolt):
        output_fields = Fields("number")
        concurrency = 16

        async def execute(self, tup: Tuple) -> Any:
            await asyncio.sleep(self.context.random.random())
            return (tup[0],)

    spout, sink = Numbers(500), Capture()
    play_run(chain(lambda: spout, Jittery, sink), shuffle=Random(seed))
    assert sorted(sink.field(0)) == sorted(spout.acked) == list(range(500))
