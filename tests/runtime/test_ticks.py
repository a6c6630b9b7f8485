"""Ticks: untracked, at most one waiting, and not counted."""

import asyncio
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Fields, Tuple
from engine.testing import Capture
from tests.runtime.stage import Endless, LogLines, Numbers, Sink, chain, loop, play, play_run, running


class Ticking(Bolt):
    """Records the times of its ticks, and acks its inputs."""

    output_fields = Fields("number")
    tick_tuple_freq_secs = 2.0

    def __init__(self) -> None:
        self.ticks: list[float] = []
        self.tuples: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        if tup.is_tick:
            self.ticks.append(loop().time())
            self.tuples.append(tup)
        else:
            self.collector.ack(tup)


def test_ticks_have_the_frequency_of_the_bolt() -> None:
    ticking, quiet = Ticking(), Capture()

    async def main() -> None:
        async with running(chain(Endless, lambda: ticking, quiet)):
            await asyncio.sleep(9)

    play(main)
    assert ticking.ticks == [2, 4, 6, 8]
    tick = ticking.tuples[0]
    assert (len(tick), tick.values, list(tick), tick.is_tick) == (0, (), [], True)
    assert tick.source_component.startswith("__")
    assert not quiet.field(0)


def test_set_bolt_may_set_the_frequency_of_ticks() -> None:
    from engine import TopologyBuilder

    class Plain(Ticking):
        tick_tuple_freq_secs = None  # type: ignore[assignment]

    ticking = Plain()
    builder = TopologyBuilder("ticks")
    builder.set_spout("source", Endless)
    builder.set_bolt("plain", lambda: ticking, tick_tuple_freq_secs=0.5).shuffle_grouping("source")

    async def main() -> None:
        async with running(builder.build()):
            await asyncio.sleep(1.9)

    play(main)
    assert ticking.ticks == [0.5, 1, 1.5]


def test_at_most_one_tick_waits() -> None:
    class Slow(Ticking):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            Ticking.execute(self, tup)
            await asyncio.sleep(7)

    ticking = Slow()

    async def main() -> None:
        async with running(chain(Endless, lambda: ticking, Sink)):
            await asyncio.sleep(24)

    play(main)
    assert ticking.ticks == [2, 9, 16, 23]


@pytest.mark.parametrize("form", ["plain", "async", "concurrent", "basic", "threads"])
def test_settling_a_tick_does_nothing_and_a_tick_is_not_an_anchor(form: str) -> None:
    class Settles(Ticking):
        def execute(self, tup: Tuple) -> None:
            super().execute(tup)
            if tup.is_tick:
                self.collector.emit((len(self.ticks),), tup)
                self.collector.emit((len(self.ticks),), [tup, tup])
                self.collector.reset_timeout(tup)
                self.collector.ack(tup)
                self.collector.ack(tup)
                self.collector.fail(tup)

    class AsyncSettles(Settles):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            Settles.execute(self, tup)

    class ConcurrentSettles(AsyncSettles):
        concurrency = 3

    class Basic(BasicBolt):
        output_fields = Fields("number")
        tick_tuple_freq_secs = 2.0

        def execute(self, tup: Tuple) -> Any:
            return ((1,) for _ in range(2)) if tup.is_tick else None

    class Threads(Basic):
        threads = 2

    forms = {"plain": Settles, "async": AsyncSettles, "concurrent": ConcurrentSettles, "basic": Basic, "threads": Threads}
    sink = Capture()

    async def main() -> None:
        with LogLines() as log:
            async with running(chain(Endless, forms[form], sink)) as run:
                await asyncio.sleep(5)
                components = run.snapshot().components
                assert components["bolt1"].acked == components["bolt1"].failed == 0
                assert components["bolt1"].settled_twice == components["bolt1"].forgotten == 0
                assert components["__acker"].acked == components["__acker"].failed == components["__acker"].pending == 0
        assert not log.lines

    play(main)
    assert len(sink.arrivals) == 4


def test_a_tick_among_other_anchors_is_ignored() -> None:
    class Mixed(Ticking):
        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            if tup.is_tick:
                self.collector.emit((0,), [*self.kept, tup])
                for each in self.kept:
                    self.collector.ack(each)
                self.kept.clear()
            else:
                self.kept.append(tup)

    spout, sink = Numbers(3), Capture()
    play_run(chain(lambda: spout, Mixed, sink))
    assert spout.acked == [0, 1, 2]
    assert sink.field(0) == [0]


@pytest.mark.guarantee("RUN-2")
def test_ticks_do_not_keep_a_run_open() -> None:
    class Often(Ticking):
        tick_tuple_freq_secs = 0.001

    spout, ticking = Numbers(100), Often()
    run = play_run(chain(lambda: spout, lambda: ticking, Sink))
    assert run.state == "complete"
    assert spout.acked == list(range(100))


def test_a_forgotten_tick_logs_no_warning() -> None:
    class Drops(Bolt):
        tick_tuple_freq_secs = 1.0

        def execute(self, tup: Tuple) -> None:
            return None

    async def main() -> None:
        async with running(chain(Endless, Drops)) as run:
            await asyncio.sleep(5)
            assert run.snapshot().components["bolt1"].forgotten == 0

    with LogLines() as log:
        play(main)
    assert not log.lines


@pytest.mark.guarantee("ACK-12")
def test_a_tick_that_raises_is_reported_and_the_next_one_is_sent() -> None:
    class Raises(Ticking):
        on_error = "fail"

        def execute(self, tup: Tuple) -> None:
            super().execute(tup)
            if tup.is_tick and len(self.ticks) == 1:
                raise ValueError("first tick")

    ticking = Raises()

    async def main() -> None:
        async with running(chain(Endless, lambda: ticking, Sink)) as run:
            await asyncio.sleep(5)
            (report,) = run.snapshot().errors
            assert report.text == "ValueError: first tick"
            assert report.tuple_text == "<Tuple () from __system[0] on $tick>"

    play(main)
    assert ticking.ticks == [2, 4]


def test_ticks_are_sent_only_between_prepare_and_cleanup() -> None:
    class SlowToPrepare(Ticking):
        tick_tuple_freq_secs = 0.5

        async def prepare(self) -> None:
            await asyncio.sleep(2)
            self.ready_at = loop().time()

        async def cleanup(self) -> None:
            self.cleaned_at = loop().time()
            await asyncio.sleep(3)

    ticking = SlowToPrepare()

    async def main() -> None:
        async with running(chain(Endless, lambda: ticking, Sink)):
            await asyncio.sleep(2)

    play(main)
    assert ticking.ticks
    assert min(ticking.ticks) > ticking.ready_at
    assert max(ticking.ticks) <= ticking.cleaned_at


def test_a_tick_enters_a_full_mailbox_and_does_not_stop_its_sender() -> None:
    class Slow(Ticking):
        tick_tuple_freq_secs = 1.0

        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            if not tup.is_tick:
                await asyncio.sleep(0.1)
            Ticking.execute(self, tup)

    ticking, spout = Slow(), Numbers(100)

    async def main() -> None:
        async with running(chain(lambda: spout, lambda: ticking, Sink), executor_receive_buffer_size=2) as run:
            await run.completed()

    play(main)
    assert len(ticking.ticks) == 9 or len(ticking.ticks) == 10
    assert spout.acked == list(range(100))


def test_ticks_continue_after_a_death() -> None:
    made: list[Ticking] = []

    class Dies(Ticking):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def execute(self, tup: Tuple) -> None:
            super().execute(tup)
            if len(made) == 1 and len(self.ticks) == 2:
                raise ValueError("second tick")

    async def main() -> None:
        async with running(chain(Endless, Dies, Sink), on_error="restart"):
            await asyncio.sleep(9)

    play(main)
    assert [bolt.ticks for bolt in made] == [[2, 4], [6, 8]]
