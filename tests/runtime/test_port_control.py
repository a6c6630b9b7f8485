"""The task port: control tuples, and trees with their own timeout."""

import asyncio
from typing import Any

import pytest

from engine import Bolt, Failure, Fields, TopologyBuilder, Tuple
from engine.errors import ROLLBACK
from tests.runtime.ports import BARRIER, Marks, Notes, marked
from tests.runtime.stage import Endless, LogLines, Sink, play, play_run, running


class KeepsControl(Notes):
    """Acks its inputs, and keeps control tuples."""

    def prepare(self) -> None:
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)

    def on_control(self, tup: Tuple) -> None:
        self.kept.append(tup)


@pytest.mark.parametrize("capacity", [2, 32768])
def test_a_control_tuple_reaches_every_subscribing_task_after_earlier_tuples(capacity: int) -> None:
    spout = Marks(50)
    topology, diary = marked(spout)

    async def main() -> None:
        async with running(topology, executor_receive_buffer_size=capacity) as run:
            await run.completed()

    play(main)
    assert sorted(diary) == [2, 3, 4, 5]
    for task in (2, 3):
        barriers = [entry for entry in diary[task] if isinstance(entry, tuple)]
        assert barriers == [(BARRIER, number) for number in (10, 20, 30, 40, 50)]
        for number in (10, 20, 30, 40, 50):
            before = diary[task][: diary[task].index((BARRIER, number))]
            assert all(entry < number for entry in before if isinstance(entry, int)), "a later tuple came before the control tuple"
        assert all(entry >= 40 for entry in diary[task][diary[task].index((BARRIER, 40)) + 1 :] if isinstance(entry, int))
    for task in (4, 5):
        barriers = [entry for entry in diary[task] if isinstance(entry, tuple)]
        assert sorted(barriers) == sorted([(BARRIER, number) for number in (10, 20, 30, 40, 50)] * 2), "each upstream task sends one"
    assert [barrier[:2] for barrier in spout.barriers] == [("acked", number) for number in (10, 20, 30, 40, 50)]


def test_a_control_tuple_enters_a_full_mailbox_and_does_not_stop_its_sender() -> None:
    spout = Marks(1000)

    class Slow(Notes):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            self.collector.ack(tup)

    class OnlyControl(Marks):
        def next_tuple(self) -> None:
            while self.number < 100:
                self.number += 1
                self.port.emit_control((BARRIER, self.number), None, "control")

    builder = TopologyBuilder("full")
    builder.set_spout("source", lambda: spout)
    other = OnlyControl(0)
    builder.set_spout("other", lambda: other)
    bolt = builder.set_bolt("slow", Slow)
    bolt.shuffle_grouping("source").shuffle_grouping("source", stream="control").shuffle_grouping("other", stream="control")

    async def main() -> None:
        async with running(builder.build(), executor_receive_buffer_size=10) as run:
            await asyncio.sleep(0.5)
            waiting = run.snapshot().components["slow"].waiting
            assert 100 <= waiting <= 115
            assert other.number == 100
            assert run.snapshot().components["other"].status == "polling"

    play(main)


def test_a_bolt_without_a_control_handler_acks_control_tuples() -> None:
    class Plain(Bolt):
        output_fields = {"default": Fields("number"), "control": Fields("what", "number")}

        def execute(self, tup: Tuple) -> None:
            assert len(tup) == 1
            self.collector.ack(tup)

    spout = Marks(20)
    topology, _ = marked(spout, first=Plain)
    play_run(topology)
    assert [barrier[:2] for barrier in spout.barriers] == [("acked", 10), ("acked", 20)]


def test_control_tuples_are_not_counted() -> None:
    spout = Marks(20)
    topology, _ = marked(spout)
    run = play_run(topology)
    first = run.snapshot().components["first"]
    assert (first.executed, first.acked, first.emitted) == (20, 20, 20)


def test_a_failed_control_tuple_fails_its_tree() -> None:
    class Refuses(Notes):
        def on_control(self, tup: Tuple) -> None:
            if self.context.task_index == 1:
                self.port.settle_control(tup, Failure(ROLLBACK, self.context.component_id, self.context.task_id))
            else:
                self.port.settle_control(tup)

    spout = Marks(20)
    topology, _ = marked(spout, first=Refuses)
    play_run(topology)
    assert [barrier[:2] for barrier in spout.barriers] == [("failed", 10), ("failed", 20)]
    assert spout.failures == [Failure("rollback", "first", 3)] * 2


def test_settling_a_control_tuple_twice_does_nothing() -> None:
    class Twice(Notes):
        def on_control(self, tup: Tuple) -> None:
            self.port.settle_control(tup)
            self.port.settle_control(tup, Failure(ROLLBACK))

    spout = Marks(10)
    topology, _ = marked(spout, first=Twice)
    play_run(topology)
    assert [barrier[:2] for barrier in spout.barriers] == [("acked", 10)]


@pytest.mark.parametrize("timeouts", [True, False])
def test_a_control_tree_has_its_own_clock(timeouts: bool) -> None:
    """The timeout is 5 s or 300 s, independent of message_timeout_secs and enable_message_timeouts."""

    for secs in (5.0, 300.0):
        spout = Marks(10, timeout_secs=secs)
        topology, _ = marked(spout, first=KeepsControl)

        async def main(topology: Any = topology) -> None:
            async with running(topology, message_timeout_secs=30, enable_message_timeouts=timeouts) as run:
                await run.completed()

        play(main)
        ((what, _, at),) = spout.barriers
        assert what == "failed"
        assert secs <= at <= secs * 1.01 + 0.1
        assert spout.failures[0].reason == "timeout"


def test_an_ack_of_part_of_a_control_tree_restarts_its_clock() -> None:
    class Delays(Notes):
        async def on_control(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(4 if self.context.task_index == 0 else 8)
            self.port.settle_control(tup)

    spout = Marks(10, timeout_secs=5)
    topology, _ = marked(spout, first=Delays)
    play_run(topology)
    assert spout.barriers == [("acked", 10, 8.0)]


def test_many_own_clocks_run_at_once() -> None:
    class Keeps(Notes):
        def on_control(self, tup: Tuple) -> None:
            self.diary.setdefault(-1, []).append(tup)

        def execute(self, tup: Tuple) -> None:
            self.collector.ack(tup)

    class Paced(Marks):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.1)
            self.timeout_secs = 20 - self.number / 10
            Marks.next_tuple(self)

    spout = Paced(100)
    topology, _ = marked(spout, first=Keeps)

    async def main() -> None:
        async with running(topology, acker_executors=3) as run:
            await run.completed()

    play(main)
    assert sorted(number for _, number, _ in spout.barriers) == list(range(10, 101, 10))
    for what, number, at in spout.barriers:
        due = number / 10 + 20 - (number - 1) / 10
        assert what == "failed"
        assert due - 0.01 <= at <= due + 0.1


def test_the_own_clock_of_a_dead_spout_has_no_effect() -> None:
    spouts: list[Marks] = []

    class Dies(Marks):
        def __init__(self) -> None:
            super().__init__(10, timeout_secs=5)
            spouts.append(self)

    builder = TopologyBuilder("dies")
    builder.set_spout("source", Dies)
    builder.set_spout("endless", Endless)
    builder.set_bolt("keeps", KeepsControl).shuffle_grouping("source").shuffle_grouping("source", stream="control")

    async def main() -> None:
        async with running(builder.build(), enable_message_timeouts=False) as run:
            await asyncio.sleep(1)
            run.kill_task(1)
            await asyncio.sleep(70)
            assert run.snapshot().components["__acker"].pending == 0

    with LogLines():
        play(main)
    assert not spouts[0].barriers
    assert [barrier[:2] for barrier in spouts[1].barriers] == [("failed", 10)]


@pytest.mark.parametrize("how", ["raises", "killed in the call", "killed later", "cancelled error"])
def test_a_control_tuple_that_an_instance_took_fails_with_it_at_once(how: str) -> None:
    made: list[Any] = []

    class Takes(Notes):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)
            self.kept: list[Tuple] = []

        async def on_control(self, tup: Tuple) -> None:  # type: ignore[override]
            self.kept.append(tup)
            if len(made) > 1:
                self.port.settle_control(tup)
            elif how == "raises":
                raise ValueError("at the barrier")
            elif how == "cancelled error":
                raise asyncio.CancelledError
            elif how == "killed in the call":
                await asyncio.sleep(1000)

    spout = Marks(10, timeout_secs=600)
    builder = TopologyBuilder("takes")
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("takes", Takes).shuffle_grouping("source").shuffle_grouping("source", stream="control")
    builder.set_bolt("end", Sink).shuffle_grouping("takes")

    async def main() -> None:
        async with running(builder.build()) as run:
            await asyncio.sleep(1)
            if how.startswith("killed"):
                run.kill_task(2)
            await run.completed()

    play(main)
    ((what, number, at),) = spout.barriers
    assert (what, number, at) == ("failed", 10, 1.0 if how.startswith("killed") else 0.0)
    assert spout.failures[0].reason == ("error" if how in ("raises", "cancelled error") else "task_died")
    assert len(made) == 2
