"""Sources whose positions are in the checkpoint: what delays, fails or repeats around a barrier or a rollback (EO-1, EO-3, EO-5)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest

from engine import (
    BasicBolt,
    Bolt,
    Config,
    Run,
    Spout,
    SpoutExhausted,
    StatefulBasicBolt,
    Topology,
    TopologyBuilder,
    Tuple,
    bolt,
)
from engine.checkpoint.alignment import Barrier
from engine.checkpoint.barrier_handler import BarrierHandler
from engine.testing import KillTask, run_topology

FAST = Config(state_checkpoint_interval_ms=100)


class Rows(Spout):
    """Emits the numbers from its position on."""

    output_fields = "number"
    rows: ClassVar[int] = 5
    told: list[int]

    def open(self) -> None:
        self.told = []

    def seek(self, position: int | None) -> None:
        self.next = position or 0

    def position(self) -> int:
        return self.next

    def committed(self, position: int) -> None:
        self.told.append(position)

    def next_tuple(self) -> None:
        if self.next >= self.rows:
            raise SpoutExhausted
        self.next += 1
        self.collector.emit((self.next - 1,))


class Counted:
    """Makes bolts that count numbers in their states, and keeps the last count of each number."""

    def __init__(self) -> None:
        self.of: Counter[int] = Counter()

    def __call__(self) -> StatefulBasicBolt:
        counted = self

        class Count(StatefulBasicBolt):
            def execute(self, tup: Tuple) -> None:
                number = tup["number"]
                self.state.put(number, self.state.get(number, 0) + 1)

            def cleanup(self) -> None:
                if hasattr(self, "state"):
                    counted.of = Counter(dict(self.state.items()))

        return Count()


def chain(spout: Callable[[], Spout], bolts: Mapping[str, Any], count: Counted) -> Topology:
    builder, before = TopologyBuilder("rewinds"), "rows"
    builder.set_spout("rows", spout)
    for name, each in bolts.items():
        builder.set_bolt(name, each).shuffle_grouping(before)
        before = name
    builder.set_bolt("count", count).fields_grouping(before, "number")
    return builder.build()


def once(rows: int) -> Counter[int]:
    return Counter(range(rows))


@bolt("number")
def passes(tup: Tuple) -> tuple[int]:
    return (tup["number"],)


@pytest.mark.guarantee("EO-3")
def test_a_poll_that_is_awaited_for_ever_does_not_delay_a_checkpoint() -> None:
    made: list[Rows] = []

    class Waits(Rows):
        """Waits for a row that never comes."""

        async def next_tuple(self) -> None:  # type: ignore[override]
            if self.next == 3:
                await asyncio.Event().wait()
            super().next_tuple()

    def make() -> Waits:
        made.append(Waits())
        return made[-1]

    async def script(run: Run) -> None:
        await asyncio.sleep(1)
        checkpoint = run.snapshot().checkpoint
        assert checkpoint is not None
        assert (checkpoint.step, checkpoint.committed > 0) == ("idle", True)
        assert made[-1].position() == 3
        await run.stop()

    run_topology(chain(make, {}, Counted()), FAST, during=script)


@pytest.mark.guarantee("EO-3", "EO-6")
def test_a_row_that_fails_during_an_awaited_poll_is_retried() -> None:
    count, tries = Counted(), Counter[int]()

    class Waits(Rows):
        """Waits for a row that never comes."""

        async def next_tuple(self) -> None:  # type: ignore[override]
            if self.next == 3:
                await asyncio.Event().wait()
            super().next_tuple()

    class FailsOnce(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> tuple[int]:
            tries[tup["number"]] += 1
            if tup["number"] == 1 and tries[1] == 1:
                raise ValueError("the first time")
            return (tup["number"],)

    finished = run_topology(chain(Waits, {"fails": FailsOnce}, count), FAST, until=3)
    assert count.of == once(3)
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries == 0


@pytest.mark.guarantee("EO-3")
@pytest.mark.parametrize("survives", [False, True])
def test_a_bolt_that_settles_its_inputs_at_a_tick_gets_ticks_before_it_forwards_the_barrier(survives: bool) -> None:
    count = Counted()

    class AtTick(Bolt):
        output_fields = "number"
        survives_rollback = survives

        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            if not tup.is_tick:
                self.kept.append(tup)
                return
            for kept in self.kept:
                self.collector.emit((kept["number"],), kept)
                self.collector.ack(kept)
            self.kept.clear()

    builder = TopologyBuilder("ticks")
    builder.set_spout("rows", Rows)
    builder.set_bolt("at_tick", AtTick, tick_tuple_freq_secs=1).shuffle_grouping("rows")
    builder.set_bolt("count", count).fields_grouping("at_tick", "number")
    finished = run_topology(builder.build(), FAST, limit_secs=20)
    assert count.of == once(5)
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries == 0


class Buffers(Bolt):
    """Forgets its rows in a rollback, and else settles them a second later."""

    output_fields = "number"
    forget_secs: ClassVar[float] = 0.0
    made: ClassVar[int] = 0

    def prepare(self) -> None:
        type(self).made += 1
        self.kept: list[Tuple] = []
        self.context.create_task(self.settle())

    async def settle(self) -> None:
        while True:
            await asyncio.sleep(1)
            for kept in self.kept:
                self.collector.emit((kept["number"],), kept)
                self.collector.ack(kept)
            self.kept.clear()

    async def pre_rollback(self) -> None:
        await asyncio.sleep(self.forget_secs)
        self.kept.clear()

    def execute(self, tup: Tuple) -> None:
        self.kept.append(tup)


@pytest.mark.guarantee("EO-5")
def test_a_barrier_that_waited_for_inputs_does_not_outlive_a_rollback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a bolt that waits with a barrier and survives, then this barrier is not sent behind a rollback that takes long."""
    count, rounds = Counted(), list[int]()

    class Buffering(Buffers):
        made = 0

    class Slow(Rows):
        async def close(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.5)

    forward = BarrierHandler._forward

    def noted(handler: BarrierHandler, barrier: Barrier) -> None:
        rounds.append(barrier.round)
        forward(handler, barrier)

    monkeypatch.setattr(BarrierHandler, "_forward", noted)
    finished = run_topology(chain(Slow, {"buffers": Buffering}, count), FAST, faults=[KillTask("count", at_secs=0.4)], limit_secs=30)
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries == 1
    assert (Buffering.made, count.of) == (1, once(5))
    assert rounds == [rounds[0], rounds[0]], "each bolt has sent the one barrier of after the rollback"


@pytest.mark.guarantee("EO-5")
def test_a_pre_rollback_may_take_longer_than_the_pause_between_two_cancellations() -> None:
    count = Counted()

    class SlowlyForgets(Buffers):
        made = 0
        forget_secs = 3.0

    topology = chain(Rows, {"buffers": SlowlyForgets}, count)
    finished = run_topology(topology, FAST, faults=[KillTask("count", at_secs=0.5)], limit_secs=30)
    assert finished.state == "complete"
    assert SlowlyForgets.made == 1, "the instance has stayed"
    assert count.of == once(5)


@pytest.mark.guarantee("EO-5", "ACK-12")
def test_background_work_that_raises_before_a_rollback_is_reported_and_ends_its_instance(caplog: pytest.LogCaptureFixture) -> None:
    """Given a call that keeps the instance from being replaced at once, then a rollback in the meantime does not forget the error."""
    count, made = Counted(), list[Any]()

    class Works(BasicBolt):
        output_fields = "number"
        survives_rollback = True

        def prepare(self) -> None:
            made.append(self)
            if len(made) == 1:
                self.context.create_task(self.work())

        async def work(self) -> None:
            await asyncio.sleep(0.2)
            raise ValueError("the background work")

        async def execute(self, tup: Tuple) -> tuple[int]:
            await asyncio.sleep(1000 if len(made) == 1 else 0)
            return (tup["number"],)

    topology = chain(Rows, {"works": Works}, count)
    run_topology(topology, FAST, faults=[KillTask("count", at_secs=0.5)], limit_secs=60)
    assert "the background work" in caplog.text
    assert len(made) == 2
    assert count.of == once(5)


class InBackground(Rows):
    """Emits its rows by background work, which no pause of the polls stops."""

    def seek(self, position: int | None) -> None:
        super().seek(position)
        self.context.create_task(self.work())

    async def work(self) -> None:
        while self.next < self.rows:
            super().next_tuple()
            await asyncio.sleep(0)

    def next_tuple(self) -> None:
        if self.next >= self.rows:
            raise SpoutExhausted


class FailsAtFirst(BasicBolt):
    """Fails each number in the first tries."""

    output_fields = "number"
    tries: ClassVar[Counter[int]] = Counter()
    fails: ClassVar[int] = 2

    def execute(self, tup: Tuple) -> tuple[int]:
        self.tries[tup["number"]] += 1
        if self.tries[tup["number"]] <= self.fails and tup["number"] % 2:
            raise ValueError("one of the first tries")
        return (tup["number"],)


@pytest.mark.guarantee("EO-3")
def test_a_row_that_fails_before_the_first_recovery_is_done_is_not_forgotten() -> None:
    class Fails(FailsAtFirst):
        tries = Counter()
        fails = 1

    count = Counted()
    config = Config(state_provider="tests.checkpoint.test_lost_tasks:SlowProvider", state_checkpoint_interval_ms=100, max_retries=None)
    run_topology(chain(InBackground, {"fails": Fails}, count), config, limit_secs=600)
    assert count.of == once(5)


@pytest.mark.guarantee("EO-5")
def test_a_row_that_fails_before_a_rollback_is_done_is_not_forgotten() -> None:
    """Given a bolt that is prepared slowly, then rows of the next pass fail while the rollback still waits for it."""

    class Fails(FailsAtFirst):
        tries = Counter()

    class SlowlyPrepared(BasicBolt):
        output_fields = "number"

        async def prepare(self) -> None:  # type: ignore[override]
            await asyncio.sleep(1)

        def execute(self, tup: Tuple) -> tuple[int]:
            return (tup["number"],)

    count = Counted()
    config = Config(state_checkpoint_interval_ms=100, max_retries=None)
    run_topology(chain(InBackground, {"fails": Fails, "slow": SlowlyPrepared}, count), config, limit_secs=600)
    assert count.of == once(5)
