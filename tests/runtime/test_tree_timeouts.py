"""A tree without progress fails between T and 1.25 T, a waiting one does not (ACK-8). The failure names the owing task."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

import engine
from engine import Bolt, BurstSpout, Config, Failure, Fields, Run, SpoutExhausted, TopologyBuilder, Tuple
from engine.testing import Capture, Feeder, Finished, run_topology
from tests.patience import PATIENCE_SECS
from tests.runtime.stage import loop

pytestmark = pytest.mark.guarantee("ACK-8")
Script = Callable[[Run], Awaitable[object]]


def run_feeder(feeder: Feeder, bolt: Any, script: Script, *, parallelism: int = 1, **settings: Any) -> Finished:
    builder = TopologyBuilder("timeouts")
    builder.set_spout("feed", feeder)
    builder.set_bolt("work", bolt, parallelism=parallelism).shuffle_grouping("feed")
    return run_topology(builder.build(), Config(**settings), during=script)


def died_at(feeder: Feeder) -> dict[object, float]:
    """Return the time of each timeout by message id. Any other verdict, or a second one, fails the test."""
    assert [verdict.failure.reason for verdict in feeder.verdicts if verdict.failure] == ["timeout"] * len(feeder.verdicts)
    times = {verdict.message_id: verdict.secs for verdict in feeder.verdicts}
    assert len(times) == len(feeder.verdicts)
    return times


@pytest.mark.parametrize("timeout_secs", [0.5, 4, 30, 600])
@pytest.mark.parametrize("ackers", [1, 2, 5])
@pytest.mark.parametrize("timeout_from", ["progress", "emit"])
def test_a_taken_tuple_that_is_not_settled_times_out(timeout_secs: float, ackers: int, timeout_from: str) -> None:
    feeder, keeps, chance = Feeder("number"), Capture(settles=False), Random(1)

    async def script(run: Run) -> None:
        for number in range(40):
            await asyncio.sleep(chance.random() * timeout_secs / 10)
            feeder.feed((number,))
        feeder.close()

    run_feeder(feeder, keeps, script, parallelism=2, message_timeout_secs=timeout_secs, acker_executors=ackers, timeout_from=timeout_from)
    times = died_at(feeder)
    assert len(times) == len(keeps.arrivals) == 40
    for arrival in keeps.arrivals:
        assert timeout_secs <= times[arrival.tup[0] + 1] - arrival.secs <= 1.25 * timeout_secs


class Splits(Bolt):
    """Emits two children for each input."""

    output_fields = Fields("part")

    def execute(self, tup: Tuple) -> None:
        for part in range(2):
            self.collector.emit((part,), tup)
        self.collector.ack(tup)


@pytest.mark.parametrize("timeout_from", ["progress", "emit"])
@pytest.mark.parametrize("progress", ["ack", "reset_timeout"])
def test_progress_restarts_the_timeout_and_an_ack_counts_only_with_timeout_from_progress(timeout_from: str, progress: str) -> None:
    feeder, keeps, progressed = Feeder("number"), Capture(settles=False), [0.0]

    async def script(run: Run) -> None:
        feeder.feed((0,))
        feeder.close()
        await keeps.arrived(2)
        await asyncio.sleep(9)
        (keeps.ack if progress == "ack" else keeps.reset_timeout)(keeps.tuples[0])
        progressed[0] = asyncio.get_running_loop().time()

    builder = TopologyBuilder("progress")
    builder.set_spout("feed", feeder)
    builder.set_bolt("splits", Splits).shuffle_grouping("feed")
    builder.set_bolt("keeps", keeps, parallelism=2).shuffle_grouping("splits")
    run_topology(builder.build(), Config.from_mapping({"message_timeout_secs": 10, "timeout_from": timeout_from}), during=script)
    counts_from = 0.0 if (timeout_from, progress) == ("emit", "ack") else progressed[0]
    assert 10 <= died_at(feeder)[1] - counts_from <= 12.6


def test_a_tuple_whose_timeout_is_always_reset_does_not_time_out() -> None:
    feeder, keeps = Feeder("number"), Capture(settles=False)

    async def script(run: Run) -> None:
        feeder.feed((0,))
        feeder.close()
        await keeps.arrived(1)
        for _ in range(20):
            await asyncio.sleep(9.9)
            keeps.reset_timeout(keeps.tuples[0])
        keeps.ack(keeps.tuples[0])

    run_feeder(feeder, keeps, script, message_timeout_secs=10)
    assert feeder.acked == [1]


def test_timeouts_can_be_disabled() -> None:
    feeder, keeps = Feeder("number"), Capture(settles=False)

    async def script(run: Run) -> None:
        feeder.feed((0,))
        feeder.close()
        await asyncio.sleep(100)
        assert feeder.verdicts == []
        keeps.ack(keeps.tuples[0])

    run_feeder(feeder, keeps, script, message_timeout_secs=1, enable_message_timeouts=False)
    assert feeder.acked == [1]


# Waiting


class OneByOne(Bolt):
    """Sleeps `secs` for each tuple."""

    def __init__(self, secs: float) -> None:
        self.secs = secs

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(self.secs)
        self.collector.ack(tup)


@pytest.mark.guarantee("BP-3")
@pytest.mark.parametrize("mailbox", [2, 1000])
def test_a_tuple_that_waits_in_a_mailbox_does_not_time_out(mailbox: int) -> None:
    feeder = Feeder("number")
    feeder.feed_all([(number,) for number in range(30)])
    feeder.close()
    finished = run_feeder(feeder, lambda: OneByOne(8), nothing, message_timeout_secs=10, executor_receive_buffer_size=mailbox)
    assert finished.secs >= 240
    assert (len(feeder.acked), feeder.failed) == (30, [])


async def nothing(run: Run) -> None:
    """Sleep while the run goes on."""


def test_with_timeout_from_emit_a_waiting_tuple_times_out() -> None:
    feeder = Feeder("number")
    feeder.feed_all([(number,) for number in range(5)])
    feeder.close()
    run_feeder(feeder, lambda: OneByOne(8), nothing, message_timeout_secs=10, timeout_from="emit")
    assert feeder.acked == [1]
    assert all(10 <= verdict.secs <= 12.6 for verdict in feeder.verdicts if verdict.failure)
    failures = dict(feeder.failed)
    assert {failure.component_id for failure in failures.values()} == {"work"}
    assert why(failures[2]).startswith("it took <Tuple (1,) from feed[1] on default> ")
    assert why(failures[5]) == "<Tuple (4,) from feed[1] on default> is still in its mailbox"


def why(failure: Failure) -> str:
    assert failure.error is not None
    return failure.error


class SlowThenKeeps(Bolt):
    """Is busy with the first tuple for a while, and never settles the next one."""

    def __init__(self, secs: float, taken_at: list[float]) -> None:
        self.secs, self.taken_at = secs, taken_at
        self.kept: list[Tuple] = []

    async def execute(self, tup: Tuple) -> None:
        self.taken_at.append(self.context.clock.now())
        if tup[0] == 0:
            await asyncio.sleep(self.secs)
            self.collector.ack(tup)
        else:
            self.kept.append(tup)


@pytest.mark.parametrize("waited", [0.0, 4.9, 7.01, 7.3, 7.6, 7.99, 8.4, 9.2])
def test_a_tuple_that_waited_has_its_whole_timeout_after_it_is_taken(waited: float) -> None:
    feeder, taken_at = Feeder("number"), list[float]()
    feeder.feed_all([(0,), (1,)])
    feeder.close()
    run_feeder(feeder, lambda: SlowThenKeeps(waited, taken_at), nothing, message_timeout_secs=10)
    [failed] = [verdict for verdict in feeder.verdicts if verdict.failure]
    assert 10 <= failed.secs - taken_at[1] <= 12.6


def test_after_a_blocked_loop_no_tree_times_out_early() -> None:
    feeder, keeps, stood_until = Feeder("number"), Capture(settles=False), [0.0]

    async def script(run: Run) -> None:
        await asyncio.sleep(0.9)
        loop().advance(25)  # a call that held the loop; several rotations are overdue
        stood_until[0] = loop().time()
        feeder.feed((0,))
        await keeps.arrived(1)
        await asyncio.sleep(3.3)
        loop().advance(4)
        feeder.close()

    run_feeder(feeder, keeps, script, message_timeout_secs=10)
    assert 10 <= died_at(feeder)[1] - keeps.arrivals[0].secs <= 12.6 + 4


# Many at once


@pytest.mark.guarantee("BP-4")
def test_many_trees_that_time_out_at_once_stop_neither_the_loop_nor_the_acker() -> None:
    count, sent = 50_000, list[int]()

    class Many(BurstSpout):
        output_fields = Fields("number")
        emitted = 0

        def next_tuples(self, limit: int) -> None:
            if self.emitted == count:
                raise SpoutExhausted
            rows = range(self.emitted, min(self.emitted + limit, count))
            self.collector.emit_many([(row,) for row in rows], message_ids=list(rows))
            self.emitted = rows.stop

        def fail(self, message_id: object) -> None:
            sent.append(run._assembled.ackers[0].core.failed)

    builder = TopologyBuilder("many")
    builder.set_spout("many", Many)
    builder.set_bolt("keeps", Capture(settles=False)).shuffle_grouping("many")
    run = engine.run(builder.build(), Config(message_timeout_secs=1))

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_SECS), run:
            await run.completed()

    asyncio.run(main())  # on a real loop, whose time passes while the acker works
    assert len(sent) == count
    assert sent[0] < count / 10, "the first verdicts reach the spout while the acker looks for the reasons of the others"


# Trees that have ended


@pytest.mark.parametrize("late", ["ack", "fail"])
def test_settles_after_the_timeout_have_no_effect_and_are_forgotten(late: str) -> None:
    feeder, keeps, ledger = Feeder("number"), Capture(settles=False), list[Any]()

    async def script(run: Run) -> None:
        feeder.feed((0,))
        await feeder.settled()
        getattr(keeps, late)(keeps.tuples[0])
        await asyncio.sleep(0.1)
        ledger.append(run.snapshot().components["__acker"].pending)
        await asyncio.sleep(13)
        ledger.append(run.snapshot().components["__acker"].pending)
        feeder.close()

    run_feeder(feeder, keeps, script, message_timeout_secs=10)
    assert list(died_at(feeder)) == [1]
    assert ledger == [1, 0]


@pytest.mark.guarantee("ACK-16")
@pytest.mark.parametrize("traced", [0.0, 1.0])
def test_a_timeout_names_the_task_that_owes_the_ack_and_a_trace_has_the_path(traced: float) -> None:
    feeder, prompt, keeps = Feeder("number"), Capture(), Capture(settles=False)
    feeder.feed((7,))
    feeder.close()
    builder = TopologyBuilder("owes")
    builder.set_spout("feed", feeder)
    builder.set_bolt("splits", Splits).shuffle_grouping("feed")
    builder.set_bolt("prompt", prompt).shuffle_grouping("splits")
    builder.set_bolt("keeps", keeps, parallelism=3).global_grouping("splits")
    run_topology(builder.build(), Config(message_timeout_secs=10, trace_sample_rate=traced))
    [(_, failure)] = feeder.failed
    assert (failure.reason, failure.component_id, failure.task_id) == ("timeout", "keeps", 4)
    owed, _, path = why(failure).partition("; its path: ")
    assert owed.startswith("it took <Tuple (0,) from splits[2] on default> 1")
    assert owed.endswith(" s ago and has neither acked nor failed it")
    assert 10 <= float(owed.split("> ")[1].split(" s ago")[0]) <= 12.6
    steps = [step.rsplit(" +", 1)[0] for step in path.split(", ")] if path else []
    assert steps[:2] == (["opened by feed[1]", "sent to splits[2]"] if traced else [])
    way = ["sent to prompt[3]", "sent to keeps[4]"] * 2 + ["acked by splits[2]", "acked by prompt[3]", "acked by prompt[3]"]
    assert sorted(steps[2:]) == (sorted(way) if traced else [])
    assert failure.describe().startswith("timed out; 'keeps' (task 4) still owes an ack: it took")
