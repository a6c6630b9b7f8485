"""Trees that are lost with an acker or with a spout (ACK-13)."""

import asyncio
from random import Random
from typing import Any

import pytest

import engine
from engine import Bolt, ComponentError, Config, Fields, Spout, TopologyBuilder, Tuple, spout
from engine.testing import Capture
from tests.runtime.stage import Endless, Keeper, LogLines, Numbers, PassOn, Sink, chain, failing, loop, play, play_run, running

pytestmark = pytest.mark.guarantee("ACK-13")


class Timed(Numbers):
    """Records the times at which its trees fail."""

    def fail(self, message_id: Any) -> None:
        super().fail(message_id)
        self.failed_at = loop().time()


@pytest.mark.parametrize("timeouts", [True, False])
@pytest.mark.parametrize("ackers", [1, 3])
def test_exactly_the_trees_of_a_dead_acker_fail_at_once(timeouts: bool, ackers: int) -> None:
    source, keeper = Timed(60), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: source, keeper), acker_executors=ackers, enable_message_timeouts=timeouts) as run:
            await asyncio.sleep(1)
            acker = run.task_ids("__acker")[0]
            lost = {tup[0] for tup in keeper.unsettled if tup.roots[0] % ackers == 0}  # type: ignore[attr-defined]
            run.kill_task(acker)
            await asyncio.sleep(0.001)
            assert set(source.failed) == lost
            assert len(lost) == 60 if ackers == 1 else 0 < len(lost) < 60
            assert {failure.reason for failure in source.failures} == {"task_died"}
            for tup in keeper.unsettled:
                keeper.ack(tup)
            await run.completed()
        assert run.snapshot().components["__acker"].restarts == 1

    play(main)
    assert sorted(source.acked + source.failed) == list(range(60)), "one verdict for each tree"


def test_a_new_tree_after_the_death_of_its_acker_is_tracked_by_the_next() -> None:
    source, keeper = Timed(10), Capture(settles=False)

    async def main() -> None:
        async with running(chain(lambda: source, keeper, max_spout_pending=2)) as run:
            await asyncio.sleep(1)
            run.kill_task(run.task_ids("__acker")[0])
            await asyncio.sleep(1)
            assert sorted(source.failed) == [0, 1]
            assert [tup[0] for tup in keeper.unsettled] == [0, 1, 2, 3]
            keeper.settle_next()
            keeper.settle_next()
            keeper.settle_next()
            await asyncio.sleep(1)
            assert source.acked == [2]
            run.kill_task(run.task_ids("__acker")[0])
            await asyncio.sleep(1)
            assert sorted(source.failed) == [0, 1, 3, 4]
            for _ in range(20):
                if keeper.unsettled:
                    keeper.settle_next()
                await asyncio.sleep(0.1)
            await run.completed()

    play(main)
    assert sorted(source.acked + source.failed) == list(range(10))


@pytest.mark.parametrize("seed", range(6))
def test_deaths_of_ackers_at_any_moment_give_one_verdict_per_tree_and_no_wrong_ack(seed: int) -> None:
    done: set[int] = set()

    class Judge(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(self.context.random.random() * 0.01)
            done.add(tup[0])
            self.collector.ack(tup)

    class Strict(Numbers):
        def ack(self, message_id: Any) -> None:
            assert message_id in done, "acked before its last tuple was"
            super().ack(message_id)

    source, random = Strict(400), Random(seed)

    async def main() -> None:
        async with running(chain(lambda: source, PassOn, Judge, max_spout_pending=20), acker_executors=2, seed=seed) as run:
            for _ in range(30):
                await asyncio.sleep(random.random() * 0.1)
                if run.state == "running":
                    run.kill_task(random.choice(run.task_ids("__acker")))
            await run.completed()

    play(main, shuffle=Random(seed))
    assert sorted(source.acked + source.failed) == list(range(400))
    assert source.failed
    assert source.acked


def test_a_dead_spout_instance_and_its_replacement_never_hear_of_its_trees() -> None:
    made: list[Numbers] = []
    keeper = Capture(settles=False)

    class Dies(Numbers):
        def __init__(self) -> None:
            super().__init__(4)
            made.append(self)

        def next_tuple(self) -> None:
            if len(made) == 1 and len(self.waiting) == 1:
                raise ValueError("dies")
            super().next_tuple()

    async def main() -> None:
        async with running(chain(Dies, keeper), on_error="restart") as run:
            await asyncio.sleep(1)
            assert [tup[0] for tup in keeper.unsettled] == [0, 1, 2, 0, 1, 2, 3]
            assert run.snapshot().components["source"].pending == 4
            assert run.snapshot().components["__acker"].pending == 4, "the acker must forget the trees of the dead instance"
            for index in range(7):
                keeper.settle_next(ack=index % 2 == 0)
            await run.completed()
            await asyncio.sleep(0)
            assert run.snapshot().components["__acker"].pending in (0, 3), "late acks of lost roots may wait for one rotation"

    play(main)
    assert not made[0].acked
    assert not made[0].failed
    assert sorted(made[1].acked + made[1].failed) == [0, 1, 2, 3]


@pytest.mark.parametrize("timeouts", [True, False])
def test_late_signals_for_lost_roots_do_not_leak(timeouts: bool) -> None:
    keeper = Capture(settles=False)
    source = Numbers(50)

    endless = TopologyBuilder("kept alive")
    endless.set_spout("source", lambda: source)
    endless.set_spout("other", Endless)
    endless.set_bolt("keeper", keeper).shuffle_grouping("source")

    async def main() -> None:
        async with running(endless.build(), enable_message_timeouts=timeouts) as run:
            await asyncio.sleep(1)
            run.kill_task(run.task_ids("__acker")[0])
            await asyncio.sleep(0.1)
            for index in range(50):
                keeper.settle_next(ack=index % 2 == 0)
            await asyncio.sleep(0.1)
            assert run.snapshot().components["__acker"].pending == 50
            await asyncio.sleep(60)
            assert run.snapshot().components["__acker"].pending == 0

    play(main)
    assert len(source.failed) == 50


def numbers_that_break(at: int, *, restartable: bool = False, tries: list[int] | None = None) -> Any:
    @spout("number", restartable=restartable, max_retries=1)
    def numbers() -> Any:
        if tries is not None:
            tries.append(1)
        for number in range(at + 3):
            if number == at and (tries is None or len(tries) < 3):
                raise OSError("source is gone")
            yield (number,)

    return numbers


@pytest.mark.parametrize("other", ["none", "endless", "finite"])
def test_a_generator_that_raises_drains_the_run_and_ends_it(other: str) -> None:
    got: list[int] = []

    class Slow(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(2)
            got.append(tup[0])
            self.collector.ack(tup)

    builder = TopologyBuilder("broken")
    builder.set_spout("source", numbers_that_break(5))
    builder.set_bolt("slow", Slow).shuffle_grouping("source")
    if other != "none":
        builder.set_spout("other", Endless if other == "endless" else (lambda: Numbers(0)))

    async def main() -> None:
        async with failing(running(builder.build())) as run:
            await asyncio.sleep(1)
            assert run.state == "draining"
            await run.completed()
        assert loop().time() == 10
        assert run.state == "failed"
        assert run.error is not None
        assert run.error.component_id == "source"
        assert isinstance(run.error.error, OSError)
        assert "restartable=True" in str(run.error)

    play(main)
    assert got == [0, 1, 2, 3, 4]


def test_the_drain_of_a_broken_generator_has_a_time_limit() -> None:
    async def main() -> None:
        async with failing(running(chain(numbers_that_break(5), Keeper), drain_timeout_secs=7)) as run:
            await run.completed()
        assert loop().time() == 7

    play(main)


def test_a_drain_of_the_host_while_a_broken_run_drains_ends_as_failed() -> None:
    async def main() -> None:
        async with failing(running(chain(numbers_that_break(5), Keeper), drain_timeout_secs=100)) as run:
            await asyncio.sleep(1)
            with pytest.raises(ComponentError, match="source") as drained:
                await run.drain(5)
            assert loop().time() == 6
            assert run.state == "failed"
            with pytest.raises(ComponentError) as completed:
                await run.completed()
            assert completed.value is drained.value is run.error

    play(main)


def test_a_stop_while_a_broken_run_drains_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with running(chain(numbers_that_break(5), Keeper), drain_timeout_secs=100) as run:
            await asyncio.sleep(1)
        assert run.state == "stopped"

    play(main)


def test_a_restartable_generator_starts_again() -> None:
    tries: list[int] = []
    sink = Capture()
    run = play_run(chain(numbers_that_break(3, restartable=True, tries=tries), sink))
    assert run.state == "complete"
    assert sink.field(0) == [0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4, 5]


def test_the_generator_of_a_killed_spout_starts_again_without_a_warning() -> None:
    """A kill is a death like any other: the replacement opens its source, and reads from the start."""
    made = 0

    @spout("number")
    def numbers() -> Any:
        nonlocal made
        made += 1
        yield from ((number,) for number in range(5))

    async def main() -> None:
        async with running(chain(numbers, Keeper)) as run:
            await asyncio.sleep(1)
            run.kill_task(run.task_ids("source")[0])
            await asyncio.sleep(1)

    play(main)
    assert made == 2


def test_the_death_of_an_acker_is_logged() -> None:
    async def main() -> None:
        async with running(chain(Endless, Sink)) as run:
            run.kill_task(run.task_ids("__acker")[0])
            await asyncio.sleep(1)

    with LogLines() as log:
        play(main)
    assert log.having("acker 0 died")


def test_full_deactivated_and_exhausted_spouts_learn_of_a_dead_acker() -> None:
    class Idle(Spout):
        output_fields = Fields("number")

        def open(self) -> None:
            self.emitted, self.failures = 0, list[str]()

        def next_tuple(self) -> None:
            if self.emitted >= 3:
                raise engine.SpoutExhausted
            self.emitted += 1
            self.collector.emit((1,), self.emitted)

        def fail(self, message_id: Any) -> None:
            assert self.context.failure is not None
            self.failures.append(self.context.failure.reason)

    full, inactive, exhausted = Idle(), Idle(), Idle()
    keeper = Capture(settles=False)
    builder = TopologyBuilder("three")
    declarer = builder.set_bolt("keeper", keeper)
    builder.set_spout("full", lambda: full, max_spout_pending=2)
    builder.set_spout("inactive", lambda: inactive)
    builder.set_spout("exhausted", lambda: exhausted)
    for name in ("full", "inactive", "exhausted"):
        declarer.shuffle_grouping(name)

    async def main() -> None:
        async with running(builder.build(), message_timeout_secs=1000) as run:
            await asyncio.sleep(1)
            await run.deactivate()
            run.kill_task(run.task_ids("__acker")[0])
            await asyncio.sleep(0)
            await asyncio.sleep(1)
            assert full.failures == ["task_died"] * 2
            assert inactive.failures == exhausted.failures == ["task_died"] * 3

    play(main)
    assert Config().acker_executors == 1
