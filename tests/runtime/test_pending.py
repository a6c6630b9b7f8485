"""max_spout_pending bounds the open trees of a spout task (ACK-9)."""

import asyncio

import pytest

from engine import Config, Fields, Spout, SpoutExhausted, TopologyBuilder
from engine.testing import Capture
from tests.runtime.stage import Numbers, Untracked, chain, play, play_run, running

pytestmark = pytest.mark.guarantee("ACK-9")


@pytest.mark.parametrize("by_config", [True, False])
@pytest.mark.parametrize("ack", [True, False])
def test_a_verdict_allows_one_more_tree(by_config: bool, ack: bool) -> None:
    spout, keeper = Numbers(100), Capture(settles=False)
    pending = {} if by_config else {"max_spout_pending": 3}
    topology = chain(lambda: spout, keeper, **pending)

    async def main() -> None:
        async with running(topology, max_spout_pending=3 if by_config else 50, drain_timeout_secs=0) as run:
            await asyncio.sleep(1)
            assert [tup[0] for tup in keeper.unsettled] == [0, 1, 2]
            assert run.snapshot().components["source"].status == "full"
            keeper.settle_next(ack=ack)
            await asyncio.sleep(1)
            assert [tup[0] for tup in keeper.unsettled] == [1, 2, 3]
            assert run.snapshot().components["source"].pending == 3

    play(main)


def test_the_bound_is_tested_before_each_poll_so_one_poll_may_exceed_it() -> None:
    class ByFive(Numbers):
        def next_tuple(self) -> None:
            self.polls += 1
            for _ in range(5):
                if not self.waiting:
                    raise SpoutExhausted
                number = self.waiting.popleft()
                self.collector.emit((number,), number)

    spout, keeper = ByFive(100), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: spout, keeper, max_spout_pending=6)):
            await asyncio.sleep(1)
            assert (spout.polls, len(keeper.unsettled)) == (2, 10)
            for _ in range(4):
                keeper.settle_next()
            await asyncio.sleep(1)
            assert (spout.polls, len(keeper.unsettled)) == (2, 6)
            keeper.settle_next()
            await asyncio.sleep(1)
            assert (spout.polls, len(keeper.unsettled)) == (3, 10)

    play(main)


def test_each_task_has_its_own_bound() -> None:
    keeper = Capture(settles=False)

    class Endless(Spout):
        output_fields = Fields("task")

        def next_tuple(self) -> None:
            self.collector.emit((self.context.task_index,), object())

    async def main() -> None:
        builder = TopologyBuilder("two tasks")
        builder.set_spout("source", Endless, parallelism=2, max_spout_pending=4)
        builder.set_bolt("keeper", keeper).shuffle_grouping("source")
        async with running(builder.build()):
            await asyncio.sleep(1)
            assert sorted(tup[0] for tup in keeper.unsettled) == [0] * 4 + [1] * 4

    play(main)


def test_untracked_tuples_are_not_bounded() -> None:
    spout, sink = Untracked(1000), Capture()
    play_run(chain(lambda: spout, sink), Config(max_spout_pending=1))
    assert len(sink.arrivals) == 1000


def test_a_full_spout_is_not_polled_and_uses_no_cpu() -> None:
    spout, keeper = Numbers(100), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: spout, keeper, max_spout_pending=3), enable_message_timeouts=False):
            await asyncio.sleep(3600)

    play(main, limit_secs=7200)
    assert spout.polls == 3
