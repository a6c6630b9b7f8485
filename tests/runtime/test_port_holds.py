"""The task port: tuples of a held source are put aside, and only that source is stopped."""

import asyncio
from random import Random
from typing import Any

import pytest

from engine import Bolt, Fields, TopologyBuilder, Tuple
from engine.topology.task_port import BoltPortUser
from tests.runtime.ports import Marks, Notes
from tests.runtime.stage import Endless, loop, play, play_run, running


class Aligner(BoltPortUser, Bolt):
    """Holds each source from its barrier until the barriers of all sources have come, like a checkpoint."""

    output_fields = {"default": Fields("number"), "control": Fields("what", "number")}

    def __init__(self, diary: list[Any], sources: int = 2) -> None:
        self.diary, self.sources = diary, sources

    def prepare(self) -> None:
        self.waiting: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.diary.append((tup.source_task, tup[0]))
        self.collector.ack(tup)

    def on_control(self, tup: Tuple) -> None:
        self.waiting.append(tup)
        if len(self.waiting) < self.sources:
            self.port.hold(tup.source_task)
            return
        self.diary.append(tup[1])
        waiting, self.waiting = self.waiting, []
        for each in waiting[:-1]:
            self.port.release(each.source_task)
        for each in waiting:
            self.port.settle_control(each)


class Paced(Marks):
    """Emits one number in each of its own intervals."""

    def __init__(self, count: int, secs: float) -> None:
        super().__init__(count)
        self.secs = secs

    async def next_tuple(self) -> None:  # type: ignore[override]
        if self.secs:
            await asyncio.sleep(self.secs)
        Marks.next_tuple(self)


def aligned(paces: list[float], count: int, *, through: bool = False, capacity: int = 32768, seed: int | None = None) -> list[Any]:
    """Run a bolt that aligns a fast and a slow source, and return its inputs."""
    diary: list[Any] = []
    spouts = [Paced(count, pace) for pace in paces]
    builder = TopologyBuilder("aligned")
    for index, spout in enumerate(spouts):
        builder.set_spout(f"source{index}", lambda spout=spout: spout)
        if through:
            declarer = builder.set_bolt(f"pass{index}", Notes).shuffle_grouping(f"source{index}")
            declarer.shuffle_grouping(f"source{index}", stream="control")
    aligner = builder.set_bolt("aligner", lambda: Aligner(diary, len(paces)))
    for index in range(len(paces)):
        before = f"pass{index}" if through else f"source{index}"
        aligner.shuffle_grouping(before).shuffle_grouping(before, stream="control")

    async def main() -> None:
        async with running(builder.build(), executor_receive_buffer_size=capacity) as run:
            await run.completed()

    play(main, shuffle=None if seed is None else Random(seed))
    for spout in spouts:
        assert sorted(number for what, number, _ in spout.verdicts if what == "acked" and isinstance(number, int)) == list(range(count))
        assert [what for what, _, _ in spout.barriers] == ["acked"] * (count // 10)
    return diary


@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("capacity", [2, 32768])
@pytest.mark.parametrize("paces", [[0.0, 0.0], [0.0, 0.1], [0.1, 0.0], [0.1, 0.07, 0.0]])
def test_tuples_behind_a_barrier_wait_for_the_barriers_of_other_sources(through: bool, capacity: int, paces: list[float]) -> None:
    diary = aligned(paces, 60, through=through, capacity=capacity, seed=1 if through else None)
    epoch = 0
    for entry in diary:
        if isinstance(entry, int):
            assert entry == epoch + 10
            epoch = entry
        else:
            assert epoch <= entry[1] < epoch + 10, diary
    per_source: dict[int, list[int]] = {}
    for entry in diary:
        if not isinstance(entry, int):
            per_source.setdefault(entry[0], []).append(entry[1])
    assert all(numbers == list(range(60)) for numbers in per_source.values())


def test_only_the_held_source_is_stopped_and_its_tuples_do_not_count_for_the_bound() -> None:
    quick, slow = Paced(100_000, 0), Paced(1000, 0.1)
    diary: list[Any] = []
    builder = TopologyBuilder("held")
    builder.set_spout("quick", lambda: quick)
    builder.set_spout("slow", lambda: slow)
    aligner = builder.set_bolt("aligner", lambda: Aligner(diary))
    for name in ("quick", "slow"):
        aligner.shuffle_grouping(name).shuffle_grouping(name, stream="control")

    async def main() -> None:
        async with running(builder.build(), executor_receive_buffer_size=50, burst=64) as run:
            await asyncio.sleep(0.95)
            snapshot = run.snapshot()
            assert snapshot.components["quick"].status == "full"
            assert snapshot.components["aligner"].waiting == 0, "held tuples are not in the mailbox"
            assert slow.number == 9
            emitted = quick.number
            assert 10 <= emitted <= 10 + 64
            await asyncio.sleep(0.1)
            assert quick.number > emitted

    play(main)


def test_a_source_that_is_held_again_before_its_released_tuples_are_taken_stays_held() -> None:
    """Given two barriers of one source in a mailbox, then tuples behind the second wait for it."""
    diary: list[Any] = []

    class Late(Notes):
        async def prepare(self) -> None:  # type: ignore[override]
            pass

    class SlowStart(Aligner):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            if not self.diary:
                await asyncio.sleep(5)
            Aligner.execute(self, tup)

    quick, slow = Paced(40, 0), Paced(40, 0.3)
    builder = TopologyBuilder("again")
    builder.set_spout("quick", lambda: quick)
    builder.set_spout("slow", lambda: slow)
    aligner = builder.set_bolt("aligner", lambda: SlowStart(diary))
    for name in ("quick", "slow"):
        aligner.shuffle_grouping(name).shuffle_grouping(name, stream="control")
    play_run(builder.build())
    epoch = 0
    for entry in diary:
        if isinstance(entry, int):
            epoch = entry
        else:
            assert epoch <= entry[1] < epoch + 10, diary


def test_held_tuples_survive_the_instance_and_do_not_time_out() -> None:
    made: list[Any] = []

    class Holds(BoltPortUser, Bolt):
        def __init__(self) -> None:
            made.append(self)
            self.got: list[int] = []
            self.restarted = False

        def on_restart(self) -> None:
            self.restarted = True

        def prepare(self) -> None:
            if self.restarted:
                self.context.create_task(self.release())

        async def release(self) -> None:
            await asyncio.sleep(200)
            self.port.release(1)

        def execute(self, tup: Tuple) -> None:
            self.got.append(tup[0])
            self.collector.ack(tup)

        def on_control(self, tup: Tuple) -> None:
            self.port.settle_control(tup)
            if not self.restarted:
                self.port.hold(tup.source_task)

    spout = Marks(30)
    builder = TopologyBuilder("holds")
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("holds", Holds).shuffle_grouping("source").shuffle_grouping("source", stream="control")

    async def main() -> None:
        async with running(builder.build()) as run:
            await asyncio.sleep(100)
            assert made[0].got == list(range(10))
            assert spout.number == 30
            run.kill_task(2)
            await run.completed()
            assert 300 <= loop().time() < 301

    play(main)
    assert made[1].got == list(range(10, 30))
    assert {what for what, _, _ in spout.verdicts} == {"acked"}
    assert [bolt.restarted for bolt in made] == [False, True]


def test_ticks_are_not_held_back() -> None:
    ticks: list[float] = []

    class Holds(BoltPortUser, Bolt):
        tick_tuple_freq_secs = 1.0

        def execute(self, tup: Tuple) -> None:
            if tup.is_tick:
                ticks.append(loop().time())
            self.collector.ack(tup)

        def on_control(self, tup: Tuple) -> None:
            self.port.settle_control(tup)
            self.port.hold(tup.source_task)

    builder = TopologyBuilder("holds")
    spout = Marks(30)
    builder.set_spout("source", lambda: spout)
    builder.set_spout("endless", Endless)
    builder.set_bolt("holds", Holds).shuffle_grouping("source").shuffle_grouping("source", stream="control")

    async def main() -> None:
        async with running(builder.build()):
            await asyncio.sleep(3.5)

    play(main)
    assert ticks == [1, 2, 3]
