"""A tuple that its bolt drops unsettled fails at once. All open inputs of a dead instance fail (ACK-15)."""

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, Fields, Inlet, TopologyBuilder, Tuple
from engine.kernel import BoltCore, Signal
from engine.testing import Capture, Feeder, run_topology
from tests.native.stage import bolt_with_words, signals_to_acker, take_next
from tests.patience import PATIENCE_SECS
from tests.runtime.stage import Forgets, Keeper, LogLines, Numbers, chain, loop, play, play_run, running

pytestmark = pytest.mark.guarantee("ACK-15")


class Timed(Numbers):
    """Records the times at which its trees fail."""

    def open(self) -> None:
        super().open()
        self.failed_at: list[float] = []

    def fail(self, message_id: Any) -> None:
        super().fail(message_id)
        self.failed_at.append(loop().time())


class ForgetsOdd(Bolt):
    """Acks even numbers only."""

    def execute(self, tup: Tuple) -> None:
        if tup[0] % 2 == 0:
            self.collector.ack(tup)


class AsyncForgets(Bolt):
    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0)
        if tup[0] % 2 == 0:
            self.collector.ack(tup)


class WideForgets(AsyncForgets):
    concurrency = 3


@pytest.mark.parametrize("form", [ForgetsOdd, AsyncForgets, WideForgets])
def test_a_forgotten_tuple_fails_at_once_and_its_bolt_is_logged_once(form: type[Bolt]) -> None:
    spout = Timed(10)
    with LogLines() as log:
        run = play_run(chain(lambda: spout, form))
    assert sorted(spout.failed) == [1, 3, 5, 7, 9]
    assert {failure.reason for failure in spout.failures} == {"forgotten"}
    assert {failure.component_id for failure in spout.failures} == {"bolt1"}
    assert set(spout.failed_at) == {0}
    assert len(log.having("bolt 'bolt1' dropped a tuple without ack or fail")) == 1
    assert run.snapshot().components["bolt1"].forgotten == 5


def test_each_forgetful_task_is_logged_once() -> None:
    builder = TopologyBuilder("two")
    builder.set_spout("source", lambda: Numbers(20))
    builder.set_bolt("forgets", ForgetsOdd, parallelism=2).all_grouping("source")
    with LogLines() as log:
        play_run(builder.build())
    warnings = [record for record in log.records if "dropped a tuple" in record.getMessage()]
    assert len(warnings) == 2


def test_with_wait_a_forgotten_tuple_fails_by_its_timeout() -> None:
    spout = Timed(4)
    with LogLines() as log:
        play_run(chain(lambda: spout, ForgetsOdd), Config(forgotten_ack="wait"))
    assert sorted(spout.failed) == [1, 3]
    assert {failure.reason for failure in spout.failures} == {"timeout"}
    assert all(30 <= at <= 37.5 for at in spout.failed_at)
    assert len(log.having("its trees wait for their timeout")) == 1


def test_a_tuple_that_is_dropped_later_fails_then() -> None:
    spout, keeper = Timed(3), Keeper()

    async def main() -> None:
        async with running(chain(lambda: spout, lambda: keeper)) as run:
            await asyncio.sleep(5)
            assert not spout.failed
            keeper.kept.pop(1)
            await asyncio.sleep(0)
            await asyncio.sleep(1)
            assert (spout.failed, spout.failed_at) == ([1], [5])
            for tup in keeper.kept:
                keeper.collector.ack(tup)
            await run.completed()

    play(main)


def test_a_tuple_in_a_reference_cycle_fails_when_the_cycle_is_collected() -> None:
    class Cycles(Bolt):
        def execute(self, tup: Tuple) -> None:
            holder: dict[str, Any] = {"tup": tup}
            holder["self"] = holder

    spout = Timed(1)

    async def main() -> None:
        async with running(chain(lambda: spout, Cycles)) as run:
            await asyncio.sleep(1)
            gc.collect()
            await run.completed()

    gc.disable()
    try:
        play(main)
    finally:
        gc.enable()
    assert spout.failures[0].reason == "forgotten"


@pytest.mark.parametrize("real", [False, True])
def test_a_tuple_that_is_dropped_on_another_thread_fails_on_the_loops_thread(real: bool) -> None:
    """The deallocation only queues the tuple. The verdict comes on the loop's thread."""
    threads: list[int] = []

    class Source(Numbers):
        def fail(self, message_id: Any) -> None:
            super().fail(message_id)
            threads.append(threading.get_ident())

    spout, keeper = Source(200), Keeper()

    async def main() -> None:
        async with running(chain(lambda: spout, lambda: keeper)) as run:
            while len(keeper.kept) < 200:  # noqa: ASYNC110 - the loop may be real
                await asyncio.sleep(0.001)
            await asyncio.get_running_loop().run_in_executor(None, keeper.kept.clear)
            await run.completed()

    if real:
        asyncio.run(asyncio.wait_for(main(), PATIENCE_SECS))
    else:
        play(main)
    assert sorted(spout.failed) == list(range(200))
    assert set(threads) == {threading.get_ident()}


def test_a_tuple_that_is_dropped_on_another_thread_is_queued_before_the_loop_is_woken() -> None:
    """A wake lets another thread run. The loop must find the tuple then, since no other wake follows."""
    bolts: list[BoltCore] = []
    stage, _, bolt = bolt_with_words("a", "b", on_forgotten=lambda: bolts[0].flush_forgotten())
    bolts.append(bolt)
    for _ in range(2):
        tup = take_next(bolt)
        (root,) = tup.roots
        del tup
        assert signals_to_acker(stage)[-1] == (Signal.FAIL, root)


def test_a_tuple_that_is_dropped_while_the_run_closes_is_not_logged() -> None:
    class Forgetful(Keeper):
        def cleanup(self) -> None:
            self.kept.clear()

    spout = Numbers(5)

    async def main() -> None:
        async with running(chain(lambda: spout, Forgetful)) as run:
            await asyncio.sleep(1)
        assert run.snapshot().components["bolt1"].forgotten == 0

    with LogLines() as log:
        play(main)
    assert not log.having("let go")
    assert not spout.failed


def test_a_tuple_may_outlive_its_run() -> None:
    keeper = Keeper()

    async def main() -> None:
        async with running(chain(lambda: Numbers(5), lambda: keeper)):
            await asyncio.sleep(1)

    play(main)
    assert [tup.values for tup in keeper.kept] == [(0,), (1,), (2,), (3,), (4,)]
    keeper.kept[0].is_settled  # type: ignore[attr-defined]
    keeper.kept.clear()
    gc.collect()


def test_all_tuples_of_a_dead_instance_fail_even_if_still_referenced() -> None:
    held: list[Tuple] = []

    class Dies(Bolt):
        def execute(self, tup: Tuple) -> None:
            held.append(tup)
            if tup[0] == 4:
                raise ValueError("dies")

    spout = Timed(5)
    play_run(chain(lambda: spout, Dies), Config(on_error="restart"))
    assert sorted(spout.failed) == [0, 1, 2, 3, 4]
    assert set(spout.failed_at) == {0}
    reasons = dict(zip(spout.failed, (failure.reason for failure in spout.failures), strict=True))
    assert reasons == {0: "task_died", 1: "task_died", 2: "task_died", 3: "task_died", 4: "error"}


def test_settles_and_anchors_with_tuples_of_a_dead_instance_are_ignored() -> None:
    held: list[Tuple] = []

    class Dies(Bolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> None:
            if tup[0] == 0:
                held.append(tup)
                return
            if tup[0] == 1:
                raise ValueError("dies")
            for old in held:
                self.collector.emit((old[0],), old)
                self.collector.ack(old)
                self.collector.fail(old)
                self.collector.reset_timeout(old)
            self.collector.ack(tup)

    spout, sink = Numbers(4), Capture()
    with LogLines() as log:
        run = play_run(chain(lambda: spout, Dies, sink), Config(on_error="restart"))
    assert sorted(spout.failed) == [0, 1]
    assert spout.acked == [2, 3]
    assert sink.field(0) == [0, 0]
    assert run.snapshot().components["bolt1"].settled_twice == 0
    assert not log.having("twice")


def test_a_report_keeps_no_tuple_alive() -> None:
    """Given a bolt that raises, when only a local variable holds a tuple, then the call frees it."""

    class Raises(Bolt):
        on_error = "fail"

        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            self.kept.append(tup)
            if len(self.kept) == 2:
                first = self.kept.pop(0)
                raise ValueError(f"while holding {first[0]}")

    spout = Timed(2)
    play_run(chain(lambda: spout, Raises))
    assert sorted(spout.failed) == [0, 1]
    assert set(spout.failed_at) == {0}


def test_a_tuple_with_several_roots_that_is_forgotten_fails_them_all() -> None:
    class Joins(Bolt):
        output_fields = Fields("number")

        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            self.kept.append(tup)
            if len(self.kept) == 4:
                self.collector.emit((0,), self.kept)
                for each in self.kept:
                    self.collector.ack(each)

    spout = Timed(4)
    play_run(chain(lambda: spout, Joins, Forgets))
    assert sorted(spout.failed) == [0, 1, 2, 3]
    assert {failure.reason for failure in spout.failures} == {"forgotten"}


def test_an_untracked_tuple_may_be_forgotten() -> None:
    class Untracked(Numbers):
        def next_tuple(self) -> None:
            if self.waiting:
                self.collector.emit((self.waiting.popleft(),))
            else:
                super().next_tuple()

    with LogLines() as log:
        run = play_run(chain(lambda: Untracked(5), ForgetsOdd))
    assert run.snapshot().components["bolt1"].forgotten == 0
    assert not log.having("let go")


def test_a_forgotten_tuple_of_several_trees_counts_as_one_failed_tuple() -> None:
    class Join(Bolt):
        output_fields = Fields("number")

        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            self.kept.append(tup)
            if len(self.kept) == 3:
                self.collector.emit((1,), self.kept)
                while self.kept:
                    self.collector.ack(self.kept.pop())

    feeder, builder = Feeder("number"), TopologyBuilder("several")
    feeder.feed_all([(number,) for number in range(3)])
    feeder.close()
    builder.set_spout("feed", feeder)
    builder.set_bolt("join", Join).shuffle_grouping("feed")
    builder.set_bolt("forget", Forgets).shuffle_grouping("join")
    forget = run_topology(builder.build()).snapshot.components["forget"]

    assert (forget.executed, forget.failed, forget.forgotten) == (1, 1, 1)
    assert len(feeder.failed) == 3


def test_a_future_that_gets_the_error_of_its_own_call_is_freed() -> None:
    """Given a bolt that passes errors to a future in its input, then no request outlives its answer: its traceback refers to the tuple."""

    class PassesErrors(BasicBolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> None:
            try:
                raise ValueError("too long")
            except ValueError as error:
                tup["answer"].set_exception(error)

    seen: list[weakref.ref[asyncio.Future[None]]] = []

    async def main() -> None:
        builder = TopologyBuilder("passes errors")
        builder.set_spout("in", lambda: Inlet("answer"))
        builder.set_bolt("work", PassesErrors).shuffle_grouping("in")
        async with running(builder.build()) as run:
            for _ in range(10):
                answer: asyncio.Future[None] = loop().create_future()
                seen.append(weakref.ref(answer))
                await run.inlet("in").send((answer,))
                with pytest.raises(ValueError, match="too long"):
                    await answer
                del answer
            gc.collect()
            assert [answer() for answer in seen] == [None] * 10

    play(main)
