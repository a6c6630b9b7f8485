"""The inputs that tasks have taken and not settled, oldest first (ACK-15)."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Fields, TopologyBuilder, Tuple, UsageError
from tests.runtime.stage import Endless, EverySecond, Keeper, Numbers, chain, play, running

pytestmark = pytest.mark.guarantee("ACK-15")


def test_owed_acks_are_shown_with_their_age_oldest_first() -> None:
    async def main() -> None:
        async with running(chain(lambda: EverySecond(10), Keeper)) as run:
            await asyncio.sleep(4.5)
            owed = run.owed_acks()
            assert [(ack.component_id, ack.task_id) for ack in owed] == [("bolt1", 2)] * 4
            assert [ack.tuple_text for ack in owed] == [f"<Tuple ({number},) from source[1] on default>" for number in range(4)]
            assert [ack.age_secs for ack in owed] == pytest.approx([3.5, 2.5, 1.5, 0.5], abs=0.01)
            assert run.owed_acks(2) == owed[:2]
            assert run.owed_acks(0) == ()

    play(main)


def test_the_oldest_of_all_tasks_come_first() -> None:
    class KeepsThirds(Keeper):
        def execute(self, tup: Tuple) -> None:
            if tup[0] % 3 == self.context.task_index:
                super().execute(tup)
            else:
                self.collector.ack(tup)

    builder = TopologyBuilder("thirds")
    builder.set_spout("source", lambda: EverySecond(30))
    builder.set_bolt("keep", KeepsThirds, parallelism=3).all_grouping("source")

    async def main() -> None:
        async with running(builder.build()) as run:
            await asyncio.sleep(12.5)
            assert [ack.task_id for ack in run.owed_acks(5)] == [2, 3, 4, 2, 3]

    play(main)


def test_running_async_calls_are_owed_and_ticks_are_not() -> None:
    class Hangs(BasicBolt):
        concurrency = 3

        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(1000)

    class Ticked(Bolt):
        def execute(self, tup: Tuple) -> None:
            pass

    async def main() -> None:
        async with running(chain(lambda: Numbers(10), Hangs)) as run:
            await asyncio.sleep(2)
            assert len(run.owed_acks()) == 3
        builder = TopologyBuilder("ticks")
        builder.set_spout("source", Endless)
        builder.set_bolt("ticked", Ticked, tick_tuple_freq_secs=1).shuffle_grouping("source")
        async with running(builder.build()) as run:
            await asyncio.sleep(5)
            assert run.snapshot().components["ticked"].executed >= 4
            assert run.owed_acks() == ()

    play(main)


def test_settled_inputs_are_not_owed() -> None:
    class Settles(Bolt):
        """Settles in another order than it takes: keeps six, then settles the first, the last and one between."""

        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            self.kept.append(tup)
            if len(self.kept) == 6:
                for index, settle in ((0, self.collector.ack), (5, self.collector.fail), (3, self.collector.ack)):
                    settle(self.kept[index])

    async def main() -> None:
        async with running(chain(lambda: Numbers(6), Settles)) as run:
            await asyncio.sleep(1)
            assert [ack.tuple_text[:9] for ack in run.owed_acks()] == [f"<Tuple ({number}" for number in (1, 2, 4)]

    play(main)


def test_no_tuple_is_kept_alive() -> None:
    class Value:
        def __repr__(self) -> str:
            raise ValueError("hostile")

    values: list[weakref.ref[Value]] = []

    class Source(Numbers):
        output_fields = Fields("value")

        def next_tuple(self) -> None:
            number = self.waiting.popleft() if self.waiting else None
            if number is not None:
                value = Value()
                values.append(weakref.ref(value))
                self.collector.emit((value,), number)

    async def main() -> None:
        bolts: list[Keeper] = []

        def make() -> Keeper:
            bolts.append(Keeper())
            return bolts[-1]

        async with running(chain(lambda: Source(1), make)) as run:
            await asyncio.sleep(1)
            [owed] = run.owed_acks()
            assert "repr raised ValueError" in owed.tuple_text
            bolts[-1].kept.clear()
            gc.collect()
            assert values[0]() is None
            await asyncio.sleep(1)
            assert run.owed_acks() == ()

    play(main)


@pytest.mark.parametrize("most", [-1, 1.5, "3", None, True])
def test_a_wrong_number_is_a_usage_error(most: Any) -> None:
    async def main() -> None:
        async with running(chain(Endless, Keeper)) as run:
            with pytest.raises(UsageError, match="owed_acks"):
                run.owed_acks(most)

    play(main)
