"""The task port: deferred settles."""

import asyncio
from typing import Any

import pytest

from engine import Bolt, TopologyBuilder, Tuple
from engine.runtime.task_ports import SETTLES_PER_BURST
from tests.runtime.ports import Defers
from tests.runtime.stage import Endless, EverySecond, Numbers, Sink, chain, loop, play, play_run, running


def deferring(count: int, bolt: Bolt, *, endless: bool = True) -> tuple[Any, Numbers]:
    spout = Numbers(count)
    builder = TopologyBuilder("defers")
    builder.set_spout("source", lambda: spout)
    if endless:
        builder.set_spout("endless", Endless)
    builder.set_bolt("defers", lambda: bolt).shuffle_grouping("source")
    builder.set_bolt("sink", Sink).shuffle_grouping("defers")
    return builder.build(), spout


class TwoParts(Numbers):
    """Emits half of ten numbers at once, and the rest after a second."""

    def next_tuple(self) -> None:
        if len(self.waiting) > 5 or loop().time() >= 1:
            super().next_tuple()


def test_deferred_acks_are_sent_after_prepare_and_release() -> None:
    bolt = Defers()
    topology, spout = deferring(10, bolt)

    async def main() -> None:
        async with running(topology) as run:
            await asyncio.sleep(1)
            assert not spout.acked
            assert run.snapshot().components["defers"].acked == 10, "the task counts its acks at once"
            await bolt.port.release_settles()
            await asyncio.sleep(1)
            assert not spout.acked, "nothing is prepared"
            assert bolt.port.prepare_settles() == 10
            await bolt.port.release_settles()
            await asyncio.sleep(0.001)
            assert spout.acked == list(range(10))
            assert bolt.port.prepare_settles() == 0

    play(main)


def test_acks_after_a_prepare_wait_for_the_next_one() -> None:
    bolt = Defers()

    spout = EverySecond(10)

    async def main() -> None:
        async with running(chain(lambda: spout, lambda: bolt, Sink)) as run:
            await asyncio.sleep(3.5)
            assert bolt.port.prepare_settles() == 3
            await asyncio.sleep(2)
            assert bolt.port.prepare_settles() == 5, "two prepares add up until a release"
            await asyncio.sleep(1)
            await bolt.port.release_settles()
            await asyncio.sleep(1)
            assert spout.acked == [0, 1, 2, 3, 4]
            await asyncio.sleep(4)
            bolt.port.prepare_settles()
            await bolt.port.release_settles()
            await run.completed()

    play(main)
    assert spout.acked == list(range(10))


def test_deferred_acks_are_released_in_bursts_that_yield_to_others() -> None:
    bolt = Defers()
    count = SETTLES_PER_BURST * 2 + 100
    topology, spout = deferring(count, bolt)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        async with running(topology):
            await asyncio.sleep(1)
            assert bolt.port.prepare_settles() == count
            counting = asyncio.ensure_future(count_turns())
            await bolt.port.release_settles()
            assert turns >= 2
            counting.cancel()
            await asyncio.sleep(1)

    play(main)
    assert sorted(spout.acked) == list(range(count))


@pytest.mark.guarantee("ACK-8")
@pytest.mark.parametrize("prepared", [True, False])
def test_trees_with_deferred_acks_do_not_time_out(prepared: bool) -> None:
    bolt = Defers()
    topology, spout = deferring(3000, bolt)

    async def main() -> None:
        async with running(topology, message_timeout_secs=10) as run:
            await asyncio.sleep(1)
            if prepared:
                bolt.port.prepare_settles()
            await asyncio.sleep(300)
            assert run.snapshot().components["source"].pending == 3000
            bolt.port.prepare_settles()
            await bolt.port.release_settles()
            await asyncio.sleep(1)

    play(main)
    assert sorted(spout.acked) == list(range(3000))


def test_deferred_acks_outlive_the_instance_and_its_taken_tuples_fail() -> None:
    made: list[Any] = []

    class Dies(Defers):
        def __init__(self) -> None:
            made.append(self)
            self.restarted = False

        def on_restart(self) -> None:
            self.restarted = True

        def execute(self, tup: Tuple) -> None:
            if tup[0] == 5 and len(made) == 1:
                raise ValueError("dies")
            super().execute(tup)

    spout = Numbers(10)

    async def main() -> None:
        async with running(chain(lambda: spout, Dies, Sink), on_error="restart") as run:
            await asyncio.sleep(1)
            assert spout.failed == [5]
            assert [bolt.restarted for bolt in made] == [False, True]
            assert made[1].port.prepare_settles() == 9
            await made[1].port.release_settles()
            await run.completed()

    play(main)
    assert sorted(spout.acked) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_a_fail_is_never_deferred() -> None:
    class Fails(Defers):
        def execute(self, tup: Tuple) -> None:
            self.collector.fail(tup)

    spout = Numbers(3)
    play_run(chain(lambda: spout, Fails, Sink))
    assert spout.failed == [0, 1, 2]


def test_a_deferred_ack_of_several_roots_balances() -> None:
    class Joins(Defers):
        def prepare(self) -> None:
            super().prepare()
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            self.kept.append(tup)
            if len(self.kept) == 4:
                self.collector.emit((0,), self.kept)
                for each in self.kept:
                    self.collector.ack(each)

    joins, second = Joins(), Defers()
    spout = Numbers(4)

    async def main() -> None:
        async with running(chain(lambda: spout, lambda: joins, lambda: second, Sink)) as run:
            await asyncio.sleep(1)
            assert joins.port.prepare_settles() == 4
            assert second.port.prepare_settles() == 4
            await joins.port.release_settles()
            await asyncio.sleep(1)
            assert not spout.acked
            await second.port.release_settles()
            await run.completed()

    play(main)
    assert sorted(spout.acked) == [0, 1, 2, 3]


def test_after_deferring_is_switched_off_settles_are_sent_at_once() -> None:
    bolt = Defers()
    spout = Numbers(10)

    spout = TwoParts(10)

    async def main() -> None:
        async with running(chain(lambda: spout, lambda: bolt, Sink)) as run:
            await asyncio.sleep(0.5)
            bolt.port.defer_settles(on=False)
            await asyncio.sleep(1)
            assert spout.acked == [5, 6, 7, 8, 9]
            bolt.port.prepare_settles()
            await bolt.port.release_settles()
            await run.completed()

    play(main)


@pytest.mark.guarantee("RUN-3")
def test_a_drain_waits_for_deferred_acks() -> None:
    bolt = Defers()
    topology, spout = deferring(5, bolt)

    async def main() -> None:
        async with running(topology) as run:
            await asyncio.sleep(1)
            draining = asyncio.ensure_future(run.drain())
            await asyncio.sleep(1)
            assert not draining.done()
            bolt.port.prepare_settles()
            await bolt.port.release_settles()
            await asyncio.wait_for(draining, 1)

    play(main)
    assert sorted(spout.acked) == [0, 1, 2, 3, 4]
