"""Acks wait for nothing, and a spout that cannot rewind is told of them when their effects are committed (EO-4)."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from engine import (
    Bolt,
    Config,
    Inlet,
    Run,
    Spout,
    SpoutExhausted,
    StatefulBasicBolt,
    StatefulBolt,
    Topology,
    TopologyBuilder,
    Tuple,
    TupleFailed,
    UsageError,
)
from engine.checkpoint import barrier_wiring
from engine.runtime.run_port import LiveRunPort
from engine.testing import KillTask, run_topology
from tests.checkpoint.scenarios.kit import Numbers, Tally, Told, once
from tests.runtime.stage import loop, play, running

pytestmark = pytest.mark.guarantee("EO-4")

INTERVAL = Config(state_checkpoint_interval_ms=1000)


class Once(Spout):
    """Emits numbers once, and writes down when it is told of their acks and fails. The first checkpoint, of no rows, comes before them."""

    output_fields = "n"

    def __init__(self, rows: int, *, first_secs: float = 1.0) -> None:
        self.rows, self.next, self.first_secs = rows, 0, first_secs
        self.acked: dict[int, float] = {}
        self.failed: dict[int, str] = {}

    def next_tuple(self) -> None:
        if loop().time() < self.first_secs:
            return
        if self.next == self.rows:
            raise SpoutExhausted
        self.collector.emit((self.next,), self.next)
        self.next += 1

    def ack(self, message_id: Any) -> None:
        self.acked[message_id] = loop().time()

    def fail(self, message_id: Any) -> None:
        assert self.context.failure is not None
        self.failed[message_id] = self.context.failure.reason


class Rewinds(Once):
    """The same, and can rewind."""

    def seek(self, position: int | None) -> None:
        self.next = position or 0

    def position(self) -> int:
        return self.next


class Endless(Numbers):
    """Keeps a run going, with one row per second."""

    def __init__(self) -> None:
        super().__init__(1_000_000, pace_secs=1.0, first=1_000_000)


class Sink(Bolt):
    """Acks its inputs."""

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)


class Count(StatefulBasicBolt):
    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["n"], self.state.get(tup["n"], 0) + 1)


def beside_endless(spout: Any, bolt: Any = Count, **settings: Any) -> Topology:
    """Build `source` > `count`, beside a spout that never ends."""
    builder = TopologyBuilder("verdicts")
    builder.set_spout("source", lambda: spout, **settings)
    builder.set_spout("endless", Endless)
    builder.set_bolt("count", bolt).shuffle_grouping("source").shuffle_grouping("endless")
    return builder.build()


def test_a_spout_that_cannot_rewind_is_told_at_the_commit_and_one_that_can_at_once() -> None:
    def told(spout: Once) -> set[int]:
        async def main() -> None:
            async with running(beside_endless(spout), state_checkpoint_interval_ms=5000) as run:
                await asyncio.sleep(3)
                assert run.snapshot().components["count"].acked >= 10, "the bolt has acked them"
                await asyncio.sleep(5)
                await run.stop()

        play(main)
        assert len(spout.acked) == 10
        return {round(secs) for secs in spout.acked.values()}

    assert told(Once(10)) == {5}
    assert told(Rewinds(10)) == {1}


def test_a_spout_without_a_way_to_a_state_is_told_at_once() -> None:
    spout, builder = Once(10), TopologyBuilder("apart")
    builder.set_spout("source", lambda: spout)
    builder.set_spout("endless", Endless)
    builder.set_bolt("sink", Sink).shuffle_grouping("source")
    builder.set_bolt("count", Count).shuffle_grouping("endless")

    async def main() -> None:
        async with running(builder.build(), state_checkpoint_interval_ms=5000) as run:
            await asyncio.sleep(1.5)
            assert len(spout.acked) == 10
            await run.stop()

    play(main)


class Keeps(Bolt):
    """Keeps its input, over the barrier of the first checkpoint, and passes it on at a given time."""

    output_fields = "n"

    def execute(self, tup: Tuple) -> None:
        self.context.create_task(self.pass_on(tup))

    async def pass_on(self, tup: Tuple) -> None:
        await asyncio.sleep(2 - loop().time())
        self.collector.emit((tup["n"],), tup)
        self.collector.ack(tup)


class SlowToPrepare(Count):
    """Lets the first PREPARE take two seconds."""

    async def pre_prepare(self, txid: int) -> None:
        await asyncio.sleep(2)


def kept_over_a_barrier() -> tuple[Once, Told]:
    """Run `source` > `keep` > `count`. The row is counted after `count` has frozen its changes for the first checkpoint, and before that
    commits. Then the task of `count` dies.
    """
    spout, told, builder = Once(1, first_secs=0.0), Told(), TopologyBuilder("kept")
    builder.set_spout("source", lambda: spout)
    builder.set_spout("endless", Endless)
    builder.set_bolt("keep", Keeps).shuffle_grouping("source")
    builder.set_bolt("count", lambda: Tally(told)).shuffle_grouping("keep")
    builder.set_bolt("slow", SlowToPrepare).shuffle_grouping("endless")
    config = Config(state_checkpoint_interval_ms=1000, processing_guarantee="at_least_once")
    finished = run_topology(builder.build(), config, until=10.0, faults=[KillTask("count", at_secs=3.5)])
    assert finished.strikes
    return spout, told


def test_an_ack_that_arrives_during_a_prepare_waits_for_the_next_checkpoint() -> None:
    spout, told = kept_over_a_barrier()
    assert (spout.acked, spout.failed, told.counts()) == ({}, {0: "rollback"}, Counter())


def test_the_simpler_rule_that_a_commit_releases_all_acks_loses_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def release_all(port: LiveRunPort) -> None:
        for spout in port.spouts:
            spout.core.cut_acks()
            spout.core.release_acks()

    monkeypatch.setattr(LiveRunPort, "release_acks", release_all)
    spout, told = kept_over_a_barrier()
    assert (list(spout.acked), spout.failed, told.counts()) == ([0], {}, Counter()), "acked, and counted nowhere"


def test_a_held_ack_does_not_time_out() -> None:
    spout = Once(10)

    async def main() -> None:
        async with running(beside_endless(spout), state_checkpoint_interval_ms=60_000, message_timeout_secs=5) as run:
            await asyncio.sleep(50)
            assert not spout.acked
            assert not spout.failed
            assert run.snapshot().components["source"].pending == 10
            await asyncio.sleep(15)
            assert len(spout.acked) == 10
            await run.stop()

    play(main)


def test_a_full_window_begins_a_checkpoint_early_only_if_acks_wait_for_it() -> None:
    def commits(spout: Once) -> int:
        async def main() -> int:
            builder = TopologyBuilder("full")
            builder.set_spout("source", lambda: spout, max_spout_pending=10)
            builder.set_bolt("count", Count).shuffle_grouping("source")
            async with running(builder.build(), state_checkpoint_interval_ms=5000) as run:
                await run.completed()
                assert loop().time() < 30
            return run.snapshot().checkpoint.committed

        return int(play(main))

    assert commits(Once(100)) >= 10
    assert commits(Rewinds(100)) <= 2


def test_a_drain_does_not_wait_for_the_interval() -> None:
    spout = Once(10)

    async def main() -> None:
        async with running(beside_endless(spout), state_checkpoint_interval_ms=20_000) as run:
            await asyncio.sleep(2)
            assert not spout.acked
            began = loop().time()
            await run.drain()
            assert loop().time() - began < 1
        assert len(spout.acked) == 10

    play(main)


# Rollbacks


@pytest.mark.guarantee("EO-5")
def test_a_rollback_fails_what_is_held() -> None:
    spout = Once(10)

    async def main() -> None:
        async with running(beside_endless(spout), state_checkpoint_interval_ms=60_000) as run:
            await asyncio.sleep(2)
            assert not spout.acked
            run.restart_task(run.snapshot().components["count"].tasks[0].task_id)
            await asyncio.sleep(2)
            assert spout.failed == dict.fromkeys(range(10), "rollback")
            assert not spout.acked
            await run.stop()

    play(main)


@pytest.mark.guarantee("EO-5")
def test_a_rollback_after_the_decision_tells_of_the_acks_that_are_decided() -> None:
    """`pre_commit` fails for a while, and the task is restarted meanwhile."""

    class Hesitates(StatefulBolt):
        def init_state(self, state: Any) -> None:
            self.state = state

        def execute(self, tup: Tuple) -> None:
            self.state.put(tup["n"], 1)
            self.collector.ack(tup)

        async def pre_commit(self, txid: int) -> None:
            if loop().time() < 10:
                raise ValueError("not yet")

    spout = Once(10, first_secs=0.0)

    async def main() -> None:
        async with running(beside_endless(spout, Hesitates), state_checkpoint_interval_ms=1000) as run:
            await asyncio.sleep(5)
            assert not spout.acked
            run.restart_task(run.snapshot().components["count"].tasks[0].task_id)
            await asyncio.sleep(0.5)
            assert set(spout.acked) == set(range(10))
            assert not spout.failed
            await run.stop()

    play(main)


def asked(answers: Any = "committed") -> tuple[Counter[Any], list[int], list[tuple[int, str]]]:
    """Run an Inlet beside an exact source, and kill the task of `count` half a second behind a checkpoint.

    Return what was counted, the sends that were answered, and those that failed.
    """
    told, builder = Told(), TopologyBuilder("scenario")
    builder.set_spout("numbers", lambda: Numbers(40, pace_secs=0.1))
    builder.set_spout("in", lambda: Inlet("n", answers=answers))
    builder.set_bolt("count", lambda: Tally(told)).shuffle_grouping("numbers").shuffle_grouping("in")
    answered: list[int] = []
    failed: list[tuple[int, str]] = []

    async def send(run: Run, number: int) -> None:
        try:
            await run.inlet("in").send((number,))
            answered.append(number)
        except TupleFailed as error:
            failed.append((number, error.failure.reason))

    async def sends(run: Run) -> None:
        sending = []
        for number in range(1000, 1040):
            sending.append(asyncio.ensure_future(send(run, number)))
            await asyncio.sleep(0.1)
        await asyncio.gather(*sending)
        run.inlet("in").close()

    finished = run_topology(builder.build(), INTERVAL, during=sends, faults=[KillTask("count", at_secs=2.55)], limit_secs=600.0)
    assert finished.state == "complete"
    assert finished.strikes
    return told.counts(), answered, failed


def judge_sends(counts: Counter[Any], answered: list[int], failed: list[tuple[int, str]]) -> None:
    """Check that each row of the exact source is counted once, as is each answered send. A send whose changes were undone has failed."""
    assert Counter({n: count for n, count in counts.items() if n < 1000}) == once(40)
    assert sorted(n for n in counts if n >= 1000) == sorted(answered)
    assert failed
    assert {reason for _, reason in failed} == {"rollback"}
    assert sorted(answered + [number for number, _ in failed]) == list(range(1000, 1040))


@pytest.mark.guarantee("EO-1", "EO-5")
def test_an_inlet_beside_an_exact_source_is_answered_when_the_effect_is_committed() -> None:
    """Scenario 27."""
    judge_sends(*asked())


def test_the_simpler_rule_that_a_verdict_is_told_at_once_loses_answered_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier_wiring, "_holding", lambda topology, stateful: set())
    with pytest.raises(AssertionError):
        judge_sends(*asked())


def test_an_inlet_that_answers_when_the_tree_is_settled_may_lose_an_effect() -> None:
    counts, answered, failed = asked("settled")
    assert len(answered) + len(failed) == 40
    assert len(failed) <= 1, "only what was under way fails"
    assert 0 < len([n for n in answered if not counts[n]]) <= 10, "the sends since the last commit"
    assert Counter({n: count for n, count in counts.items() if n < 1000}) == once(40)


def test_an_inlet_that_answers_when_the_tree_is_settled_waits_for_no_checkpoint() -> None:
    builder = TopologyBuilder("settled")
    builder.set_spout("in", lambda: Inlet("n", answers="settled"))
    builder.set_bolt("count", Count).shuffle_grouping("in")

    async def main() -> None:
        async with running(builder.build(), state_checkpoint_interval_ms=5000) as run:
            await asyncio.sleep(0.1)
            began = loop().time()
            for number in range(10):
                await run.inlet("in").send((number,))
            assert loop().time() - began < 0.1
            assert run.snapshot().checkpoint.committed <= 1
            await run.stop()

    play(main)


def test_other_answers_are_refused() -> None:
    with pytest.raises(UsageError, match="answers is 'soon'"):
        Inlet("n", answers="soon")  # type: ignore[arg-type]
