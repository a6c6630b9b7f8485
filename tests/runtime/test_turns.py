"""An actor yields to the loop after a burst of tuples or 5 ms. An idle run does nothing (BP-4)."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, Spout, SpoutExhausted, Tuple
from engine.api import Fields
from engine.testing import Capture
from engine.topology.task_port import SpoutPortUser
from tests.runtime.stage import AtOnce, Endless, Keeper, Numbers, Sink, chain, loop, play, running

pytestmark = pytest.mark.guarantee("BP-4")


class Turns:
    """Counts the turns of the loop, and the calls in each turn."""

    def __init__(self) -> None:
        self.turn = 0
        self.calls: Counter[int] = Counter()

    def called(self) -> None:
        self.calls[self.turn] += 1

    async def count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turn += 1


def run_counting(source: Callable[[], Spout], *bolts: Any, turns: Turns, **settings: Any) -> None:
    async def main() -> None:
        counting = asyncio.get_running_loop().create_task(turns.count())
        async with running(chain(source, *bolts), **settings) as run:
            await run.completed()
        counting.cancel()

    play(main)


def quick_bolt(kind: str, turns: Turns, secs: float = 0.0) -> type[Bolt] | type[BasicBolt]:
    def note() -> None:
        turns.called()
        loop().advance(secs)

    class Plain(Bolt):
        def execute(self, tup: Tuple) -> None:
            note()
            self.collector.ack(tup)

    class Async(Bolt):
        async def execute(self, tup: Tuple) -> None:
            note()
            self.collector.ack(tup)

    class Basic(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            note()

    class AsyncBasic(BasicBolt):
        async def execute(self, tup: Tuple) -> None:
            note()

    class ReturnsAwaitable(BasicBolt):
        def execute(self, tup: Tuple) -> Any:
            async def work() -> None:
                note()

            return work()

    return {"plain": Plain, "async": Async, "basic": Basic, "async basic": AsyncBasic, "awaitable": ReturnsAwaitable}[kind]


KINDS = ["plain", "async", "basic", "async basic", "awaitable"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("burst", [16, 256])
def test_a_bolt_takes_at_most_one_burst_in_a_turn(kind: str, burst: int) -> None:
    turns = Turns()
    run_counting(lambda: AtOnce(3000), quick_bolt(kind, turns), turns=turns, burst=burst)
    assert turns.calls.total() == 3000
    assert max(turns.calls.values()) <= burst


@pytest.mark.parametrize("kind", KINDS)
def test_a_bolt_yields_after_5_ms(kind: str) -> None:
    turns = Turns()
    run_counting(lambda: AtOnce(200), quick_bolt(kind, turns, secs=0.0011), turns=turns)
    assert turns.calls.total() == 200
    assert max(turns.calls.values()) <= 5


@pytest.mark.parametrize("secs_behind", [0.0, 0.002])
def test_a_bolt_continues_in_the_same_turn_after_a_short_suspended_call(secs_behind: float) -> None:
    turns = Turns()
    begun: list[int] = []
    ended: list[int] = []

    class Suspends(Bolt):
        async def execute(self, tup: Tuple) -> None:
            begun.append(turns.turn)
            loop().advance(0.003)
            await asyncio.sleep(0)  # the loop has had its turn
            loop().advance(secs_behind)
            ended.append(turns.turn)
            self.collector.ack(tup)

    run_counting(lambda: AtOnce(50), Suspends, turns=turns)
    goes_on = [after == before for before, after in zip(ended[:-1], begun[1:], strict=True)]
    assert all(goes_on) if not secs_behind else not any(goes_on)


def test_quick_calls_before_slow_ones_do_not_extend_a_turn() -> None:
    """Given a lap that has grown on fast calls, when calls get slow, then few of them exceed 5 ms."""
    turns = Turns()

    class Slows(Bolt):
        def __init__(self) -> None:
            self.took: list[float] = []

        def execute(self, tup: Tuple) -> None:
            turns.called()
            loop().advance(0.00001 if tup[0] < 2000 else 0.002)
            self.collector.ack(tup)

    run_counting(lambda: AtOnce(2400), Slows, turns=turns)
    slow_turns = list(turns.calls.values())[-100:]
    assert max(slow_turns) <= 3


def test_a_spout_yields_after_a_burst_and_after_5_ms() -> None:
    turns = Turns()

    class Source(Numbers):
        secs = 0.0

        def next_tuple(self) -> None:
            turns.called()
            loop().advance(self.secs)
            if not self.waiting:
                raise SpoutExhausted
            self.collector.emit((self.waiting.popleft(),))

    class Slow(Source):
        secs = 0.002

    run_counting(lambda: Source(3000), Sink, turns=turns)
    assert max(turns.calls.values()) <= 256
    turns.calls.clear()
    run_counting(lambda: Slow(300), Sink, turns=turns)
    assert max(turns.calls.values()) <= 3


@pytest.mark.parametrize("slow", ["next_tuple", "ack"])
def test_slow_polls_among_quick_acks_do_not_extend_a_turn_and_vice_versa(slow: str) -> None:
    turns = Turns()

    class Source(Numbers):
        def next_tuple(self) -> None:
            if slow == "next_tuple":
                turns.called()
                loop().advance(0.002)
            super().next_tuple()

        def ack(self, message_id: Any) -> None:
            if slow == "ack":
                turns.called()
                loop().advance(0.002)
            super().ack(message_id)

    run_counting(lambda: Source(2000), Sink, turns=turns, max_spout_pending=40)
    assert turns.calls.total() >= 2000
    assert max(turns.calls.values()) <= 4


def test_acks_count_as_calls_of_a_spouts_turn() -> None:
    turns = Turns()

    class Source(AtOnce):
        def ack(self, message_id: Any) -> None:
            turns.called()
            super().ack(message_id)

    run_counting(lambda: Source(3000), Sink, turns=turns)
    assert turns.calls.total() == 3000
    assert max(turns.calls.values()) <= 256


def test_an_idle_spout_is_polled_after_1_to_64_ms() -> None:
    times: list[float] = []

    class Idle(Endless):
        def next_tuple(self) -> None:
            times.append(round(loop().time() * 1000, 3))

    async def main() -> None:
        async with running(chain(Idle, Sink)):
            await asyncio.sleep(0.4)

    play(main)
    pauses = [round(after - before) for before, after in pairwise(times)]
    assert pauses[:9] == [1, 2, 4, 8, 16, 32, 64, 64, 64]


@pytest.mark.parametrize("how", ["wake", "ack", "fail", "emit"])
def test_a_tuple_ends_the_pause_of_an_idle_spout_and_the_next_pause_starts_small(how: str) -> None:
    polls: list[float] = []

    class Idle(Spout):
        output_fields = Fields("number")

        def open(self) -> None:
            self.emits = False

        def next_tuple(self) -> None:
            polls.append(loop().time())
            if self.emits:
                self.collector.emit((1,), 1)
                self.emits = False

    spout, keeper = Idle(), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: spout, keeper)):
            spout.emits = True
            await asyncio.sleep(1.0301)
            polls.clear()
            before = loop().time()
            if how == "wake":
                spout.context.wake()
            elif how == "ack":
                keeper.settle_next()
            elif how == "fail":
                keeper.settle_next(ack=False)
            else:
                spout.emits = True
                spout.context.wake()
            await asyncio.sleep(0.0101)
            assert polls[0] == before
            gaps = [round((after - earlier) * 1000) for earlier, after in pairwise(polls)]
            assert gaps[:3] == ([0, 1, 2] if how == "emit" else [1, 2, 4])

    play(main)


@pytest.mark.parametrize("how", ["wake", "ack", "fail"])
def test_a_spout_that_waits_for_a_wake_is_not_polled_by_time(how: str) -> None:
    polls: list[float] = []

    class Waits(SpoutPortUser, Spout):
        output_fields = Fields("number")

        def next_tuple(self) -> None:
            polls.append(loop().time())
            if len(polls) == 1:
                self.collector.emit((1,), 1)
            elif len(polls) != 4:
                self.port.wait_for_wake()

    spout, keeper = Waits(), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: spout, keeper)):
            await asyncio.sleep(1)
            assert len(polls) == 2, "expected one poll that emits, and one that waits"
            if how == "wake":
                spout.context.wake()
            else:
                keeper.settle_next(ack=how == "ack")
            await asyncio.sleep(1)
            assert len(polls) == 3
            spout.context.wake()
            await asyncio.sleep(0.0005)
            assert len(polls) == 4
            await asyncio.sleep(1)
            assert len(polls) == 5, "the wait must hold for one poll only"
            assert polls[4] - polls[3] == pytest.approx(0.001)

    play(main)


def count_wakeups(secs: float, source: Callable[[], Spout], *bolts: Any, **settings: Any) -> int:
    """Return how often the loop woke within `secs`."""

    async def main() -> int:
        async with running(chain(source, *bolts), **settings):
            await asyncio.sleep(1)
            running_loop: Any = loop()
            turns, select = 0, running_loop._selector.turn

            def counted(timeout: float | None) -> Any:
                nonlocal turns
                turns += 1
                return select(timeout)

            running_loop._selector.turn = counted
            await asyncio.sleep(secs)
            running_loop._selector.turn = select
            return turns

    result = play(main)
    assert isinstance(result, int)
    return result


def test_an_idle_run_wakes_only_for_the_pause_of_its_spout() -> None:
    turns = count_wakeups(64, Endless, Sink)
    polls = 64 / 0.064
    assert turns < 4 * polls


@pytest.mark.parametrize("raises", [False, True])
def test_the_pause_of_a_spout_without_tuples_doubles_from_1_to_64_ms(raises: bool) -> None:
    polls: list[float] = []

    class Polled(Endless):
        def next_tuple(self) -> None:
            polls.append(loop().time())
            if raises:
                raise OSError("broken pipe")

    async def main() -> None:
        async with running(chain(Polled, Sink)):
            await asyncio.sleep(0.4)

    play(main)
    pauses = [after - before for before, after in pairwise(polls)]
    assert pauses[:9] == pytest.approx([0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.064, 0.064])


def test_a_run_sleeps_while_its_spout_waits_for_trees() -> None:
    turns = count_wakeups(1000, lambda: Numbers(10), Keeper, max_spout_pending=1, message_timeout_secs=5000)
    assert turns < 20


def test_a_burst_of_one_works() -> None:
    spout = Numbers(100)

    async def main() -> None:
        async with running(chain(lambda: spout, Sink), burst=1) as run:
            await run.completed()

    play(main)
    assert spout.acked == list(range(100))
    assert Config().burst == 256
