"""`Feeder` emits, tracks and retries the tuples of a test, and keeps their verdicts."""

import asyncio
from pathlib import Path

import pytest

from engine import Config, Failure, Fields, Run, StatefulBasicBolt, Topology, TopologyBuilder, Tuple, UsageError
from engine.testing import Capture, Feeder, KillTask, run_topology


def topology(feeder: Feeder, sink: Capture, spouts: int = 1) -> Topology:
    builder = TopologyBuilder("fed")
    builder.set_spout("feed", feeder, parallelism=spouts)
    declarer = builder.set_bolt("sink", sink)
    for stream in feeder.output_fields:
        declarer.shuffle_grouping("feed", stream)
    return builder.build()


def test_fed_tuples_are_emitted_in_order_and_acked() -> None:
    feeder, sink = Feeder("a", "b"), Capture()
    assert feeder.feed_all([(1, 2), (3, 4)]) == [1, 2]
    assert feeder.feed((5, 6), message_id="mine") == "mine"
    feeder.close()
    run_topology(topology(feeder, sink))
    assert sink.values == [(1, 2), (3, 4), (5, 6)]
    assert feeder.acked == [1, 2, "mine"]
    assert feeder.failed == []
    assert feeder.unsettled == feeder.open == []


def test_an_untracked_tuple_has_no_verdict() -> None:
    feeder, sink = Feeder("a"), Capture()
    assert feeder.feed((1,), tracked=False) is None
    feeder.close()
    run_topology(topology(feeder, sink))
    assert sink.values == [(1,)]
    assert feeder.verdicts == []


def test_a_feeder_may_emit_on_several_streams() -> None:
    feeder, sink = Feeder(streams={"default": Fields("a"), "late": Fields("a", "hours")}), Capture()
    feeder.feed((1,))
    feeder.feed((2, 24), "late")
    feeder.close()
    run_topology(topology(feeder, sink))
    assert [(tup.stream, tup.values) for tup in sink.tuples] == [("default", (1,)), ("late", (2, 24))]


def test_a_fail_is_kept_with_its_reason() -> None:
    feeder, sink = Feeder("a"), Capture(settles=False)
    feeder.feed((1,))
    feeder.close()

    async def script(run: Run) -> None:
        await sink.arrived(1)
        sink.fail(sink.tuples[0])

    run_topology(topology(feeder, sink), during=script)
    assert feeder.failed == [(1, Failure("failed", "sink", 2))]
    assert feeder.acked == []


def test_a_failed_tuple_is_emitted_again_up_to_max_retries() -> None:
    feeder, sink = Feeder("a", max_retries=2), Capture(settles=False)
    feeder.feed((1,))
    feeder.close()

    async def script(run: Run) -> None:
        for number in range(3):
            await sink.arrived(number + 1)
            sink.fail(sink.tuples[number])
        await feeder.settled(1)

    finished = run_topology(topology(feeder, sink), during=script)
    assert finished.state == "complete"
    assert len(feeder.failed) == 3
    assert sink.values == [(1,)] * 3


def test_a_timeout_is_a_fail() -> None:
    feeder, sink = Feeder("a"), Capture(settles=False)
    feeder.feed((1,))
    feeder.close()
    run_topology(topology(feeder, sink), Config(message_timeout_secs=30))
    [verdict] = feeder.verdicts
    assert verdict.failure is not None
    assert verdict.failure.reason == "timeout"
    assert 30 <= verdict.secs <= 1.25 * 30


@pytest.mark.guarantee("ACK-13")
def test_open_tuples_of_a_dead_spout_are_lost_and_retried() -> None:
    feeder, sink = Feeder("a", max_retries=1), Capture(settles=False)
    feeder.feed((1,))
    feeder.close()

    async def script(run: Run) -> None:
        await sink.arrived(1)
        run.kill_task(1)
        await sink.arrived(2)
        sink.ack(sink.tuples[0])
        sink.ack(sink.tuples[1])

    run_topology(topology(feeder, sink), during=script)
    assert feeder.lost == [1]
    assert feeder.acked == [1]


def test_several_tasks_share_one_queue() -> None:
    feeder, sink = Feeder("a"), Capture()

    async def script(run: Run) -> None:
        for number in range(10):
            feeder.feed((number,))
            await asyncio.sleep(0.1)
        feeder.close()

    run_topology(topology(feeder, sink, spouts=3), during=script)
    assert sink.values == [(number,) for number in range(10)]
    assert len(feeder.acked) == 10


def test_a_fed_tuple_is_emitted_at_once() -> None:
    feeder, sink = Feeder("a"), Capture()
    delays: list[float] = []

    async def script(run: Run) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(3):
            await asyncio.sleep(100)
            began = loop.time()
            await feeder.settled(feeder.feed((1,)))
            delays.append(loop.time() - began)
        feeder.close()

    run_topology(topology(feeder, sink), during=script)
    assert max(delays) < 0.01


def test_wrong_uses_are_refused() -> None:
    feeder = Feeder("a")
    feeder.feed((1,), message_id=7)
    with pytest.raises(UsageError, match="fed already"):
        feeder.feed((2,), message_id=7)
    with pytest.raises(UsageError, match="an untracked tuple has no message id, but 8 was given"):
        feeder.feed((2,), message_id=8, tracked=False)
    feeder.close()
    with pytest.raises(UsageError, match="closed"):
        feeder.feed((3,))


class Counts:
    """Makes bolts that count numbers in their states, and keeps the counts."""

    def __init__(self, *, fails: dict[int, int] | None = None) -> None:
        """fails: number of times that a number fails, after it was counted."""
        self.fails = dict(fails or {})
        self.of: dict[int, int] = {}

    def __call__(self) -> StatefulBasicBolt:
        counts = self

        class Count(StatefulBasicBolt):
            def execute(self, tup: Tuple) -> None:
                self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
                if counts.fails.get(tup[0], 0):
                    counts.fails[tup[0]] -= 1
                    raise ValueError("fails")

            def cleanup(self) -> None:
                if hasattr(self, "state"):
                    counts.of.update(self.state.items())

        return Count()


def counting(feeder: Feeder, counts: Counts, spouts: int = 1) -> Topology:
    builder = TopologyBuilder("counted")
    builder.set_spout("feed", feeder, parallelism=spouts)
    builder.set_bolt("count", counts, parallelism=2).fields_grouping("feed", "a")
    return builder.build()


@pytest.mark.guarantee("EO-1", "EO-5")
@pytest.mark.parametrize("spouts", [1, 3])
def test_in_front_of_a_state_each_tuple_counts_once(spouts: int) -> None:
    feeder, counts = Feeder("a"), Counts(fails={17: 1, 30: 2})

    async def script(run: Run) -> None:
        for number in range(40):
            feeder.feed((number,), tracked=number % 5 > 0)
            await asyncio.sleep(0.1)
        feeder.close()
        await feeder.settled()

    faults = [KillTask("count", at_secs=1.25), KillTask("feed", at_secs=2.05)]
    run_topology(counting(feeder, counts, spouts), faults=faults, during=script)

    assert counts.of == dict.fromkeys(range(40), 1)
    assert feeder.unsettled == feeder.open == []
    assert set(feeder.acked) == set(range(1, 33))
    assert [failure.reason for _, failure in feeder.failed] == ["error"], "that of 17, because 30 has no message id"


@pytest.mark.guarantee("EO-6")
def test_a_tuple_that_is_given_up_in_front_of_a_state_is_settled() -> None:
    feeder, counts = Feeder("a"), Counts(fails={3: 1000})
    ids = feeder.feed_all((number,) for number in range(6))

    async def script(run: Run) -> None:
        await feeder.settled(*ids)
        feeder.close()

    finished = run_topology(counting(feeder, counts), during=script)

    assert finished.state == "complete"
    assert counts.of == {0: 1, 1: 1, 2: 1, 4: 1, 5: 1}
    assert [message_id for message_id, _ in feeder.failed] == [4, 4, 4], "once in each pass"


@pytest.mark.guarantee("EO-1")
def test_another_run_over_the_same_feeder_continues_where_the_store_says(tmp_path: Path) -> None:
    feeder, counts, config = Feeder("a"), Counts(), Config(state_provider=f"sqlite:///{tmp_path}/s.db")
    feeder.feed_all((number,) for number in range(10))

    async def stop_at_once(run: Run) -> None:
        await feeder.settled(*range(1, 11))
        feeder.feed_all((number,) for number in range(10, 15))
        await asyncio.sleep(0.001)
        await run.stop()

    run_topology(counting(feeder, counts), config, during=stop_at_once)
    feeder.feed((15,))
    feeder.close()
    run_topology(counting(feeder, counts), config)
    assert counts.of == dict.fromkeys(range(16), 1)

    another = Feeder("a")
    another.feed_all([(0,), (16,)])
    another.close()
    run_topology(counting(another, counts), config)
    assert counts.of == {0: 2} | dict.fromkeys(range(1, 17), 1), "another feeder begins with its first tuple"


def test_in_front_of_a_state_without_exact_sources_it_retries_by_itself() -> None:
    feeder, counts = Feeder("a", max_retries=2), Counts(fails={1: 1})
    feeder.feed((1,))
    feeder.close()

    run_topology(counting(feeder, counts), Config(processing_guarantee="at_least_once"))

    assert (len(feeder.failed), feeder.acked, counts.of) == (1, [1], {1: 1})
