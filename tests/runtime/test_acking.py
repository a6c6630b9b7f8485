"""One verdict for each tree: acks, fails, double settles, and the same results for any number of ackers (ACK-3, 4, 5, 7)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, FailTuple, Fields, Run, TopologyBuilder, Tuple
from engine.testing import Capture, Feeder, Finished, run_topology

Script = Callable[[Run], Awaitable[object]]


class Splits(Bolt):
    """Emits three children for each input."""

    output_fields = Fields("number", "part")

    def execute(self, tup: Tuple) -> None:
        for part in range(3):
            self.collector.emit((tup[0], part), tup)
        self.collector.ack(tup)


def run_chain(feeder: Feeder, *bolts: Any, script: Script | None = None, parallelism: int = 1, **settings: Any) -> Finished:
    """Run the feeder and a chain of bolts behind it."""
    builder, before = TopologyBuilder("acking"), "feed"
    builder.set_spout("feed", feeder)
    for number, bolt in enumerate(bolts, 1):
        builder.set_bolt(f"bolt{number}", bolt, parallelism=parallelism).shuffle_grouping(before)
        before = f"bolt{number}"
    return run_topology(builder.build(), Config(**settings), during=script)


def fed(count: int) -> Feeder:
    feeder = Feeder("number")
    feeder.feed_all((number,) for number in range(count))
    return feeder


class Unhashable(list[int]):
    """A message id without a hash, which is equal to others."""


@pytest.mark.guarantee("ACK-3", "ACK-6")
def test_a_message_id_may_be_any_object_but_none_and_is_passed_back() -> None:
    ids = [0, "", False, (), Unhashable(), Unhashable(), float("nan"), object()]
    acked: list[object] = []

    class Ids(Feeder):
        def take_next(self, task_id: int) -> Any:
            row = super().take_next(task_id)
            if row is not None:
                values, message_id, stream = row
                assert isinstance(message_id, int)
                self._open[task_id].pop(message_id)
                self._unsettled.pop(message_id)
                return values, ids[message_id - 1], stream
            return None

        def add_verdict(self, verdict: Any) -> None:
            acked.append(verdict.message_id)

    feeder = Ids("number")
    feeder.feed_all((number,) for number in range(len(ids)))
    feeder.close()
    run_chain(feeder, Capture())
    assert [id(one) for one in acked] == [id(one) for one in ids]


@pytest.mark.guarantee("ACK-3", "ACK-4")
@pytest.mark.parametrize("ackers", [1, 2, 5])
def test_a_fail_fails_the_tree_at_once_and_later_acks_have_no_effect(ackers: int) -> None:
    feeder, leaves = fed(1), Capture(settles=False)

    async def script(run: Run) -> None:
        await leaves.arrived(3)
        failed_at = asyncio.get_running_loop().time()
        leaves.fail(leaves.tuples[1])
        await feeder.settled()
        assert feeder.verdicts[0].secs - failed_at < 0.01
        leaves.ack(leaves.tuples[0])
        leaves.fail(leaves.tuples[2])
        await asyncio.sleep(100)
        feeder.close()

    run_chain(feeder, Splits, leaves, script=script, acker_executors=ackers)
    [(message_id, failure)] = feeder.failed
    assert (message_id, failure.reason, failure.component_id, failure.task_id, feeder.acked) == (1, "failed", "bolt2", 3, [])


@pytest.mark.guarantee("ACK-4")
def test_a_fail_in_the_same_turn_as_the_last_ack_wins() -> None:
    class FailsTheInputOfItsChild(Bolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> None:
            self.collector.emit((tup[0],), tup)
            self.collector.fail(tup)

    feeder = fed(5)
    feeder.close()
    run_chain(feeder, FailsTheInputOfItsChild, Capture())
    assert sorted(str(message_id) for message_id, _ in feeder.failed) == ["1", "2", "3", "4", "5"]
    assert feeder.acked == []


@pytest.mark.guarantee("ACK-3")
def test_a_bolt_may_settle_later_and_in_any_order() -> None:
    class Later(Bolt):
        def prepare(self) -> None:
            self.waiting: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            self.waiting.append(tup)
            if len(self.waiting) == 5:
                self.context.create_task(self.settle())

        async def settle(self) -> None:
            while self.waiting:
                await asyncio.sleep(1)
                self.collector.ack(self.waiting.pop(0 if len(self.waiting) % 2 else -1))

    feeder = fed(5)
    feeder.close()
    run_chain(feeder, Later)
    assert feeder.acked == [1, 5, 2, 4, 3]


# Settled twice


class Settles(Bolt):
    """Settles each input as its list of words says."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def execute(self, tup: Tuple) -> None:
        for word in self.words:
            getattr(self.collector, word)(tup)


@pytest.mark.guarantee("ACK-5")
@pytest.mark.parametrize("first", ["ack", "fail"])
@pytest.mark.parametrize("second", ["ack", "fail"])
@pytest.mark.parametrize("ackers", [1, 2, 5])
def test_the_first_settle_counts_and_the_second_is_counted(first: str, second: str, ackers: int) -> None:
    feeder = fed(4)
    feeder.close()
    finished = run_chain(feeder, lambda: Settles(first, second, second), acker_executors=ackers)
    assert (len(feeder.acked), len(feeder.failed)) == ((4, 0) if first == "ack" else (0, 4))
    bolt = finished.snapshot.components["bolt1"]
    assert (bolt.settled_twice, bolt.acked + bolt.failed) == (8, 4)


@pytest.mark.guarantee("ACK-5")
def test_a_double_ack_does_not_replace_the_ack_of_a_sibling() -> None:
    feeder, leaves = fed(1), Capture(settles=False)

    async def script(run: Run) -> None:
        await leaves.arrived(3)
        for _ in range(3):
            leaves.ack(leaves.tuples[0])
        leaves.ack(leaves.tuples[1])
        await asyncio.sleep(1)
        assert feeder.verdicts == []
        leaves.ack(leaves.tuples[2])
        await feeder.settled()
        feeder.close()

    run_chain(feeder, Splits, leaves, script=script)
    assert feeder.acked == [1]


@pytest.mark.guarantee("ACK-5")
def test_a_double_settle_logs_one_warning_per_task(caplog: pytest.LogCaptureFixture) -> None:
    feeder = fed(40)
    feeder.close()
    with caplog.at_level(logging.WARNING):
        run_chain(feeder, lambda: Settles("ack", "ack"), parallelism=3)
    warnings = [record.getMessage() for record in caplog.records if "settled a tuple twice" in record.getMessage()]
    assert len(warnings) == 3
    assert "bolt 'bolt1' settled a tuple twice; the second ack or fail was ignored" in warnings[0]


# Any number of ackers


class Erratic(Bolt):
    """Acts on each input by its number alone, so that all runs have the same result."""

    output_fields = Fields("number")

    def prepare(self) -> None:
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        number = tup[0]
        if number % 11 == 3:
            raise ValueError(number)
        if number % 11 == 5:
            return  # forgotten
        for _ in range(number % 3):
            self.collector.emit((number // 2,), [tup, *self.kept[-2:]])
        if number % 11 == 7:
            self.collector.fail(tup)
        elif number % 13 == 9:
            self.kept.append(tup)  # never settled
        else:
            self.collector.ack(tup)
            if number % 7 == 1:
                self.collector.ack(tup)


def verdicts_of_an_erratic_run(ackers: int, seed: int) -> dict[object, str]:
    feeder = fed(150)
    feeder.close()
    builder = TopologyBuilder("erratic")
    builder.set_spout("feed", feeder)
    builder.set_bolt("one", Erratic, on_error="fail").shuffle_grouping("feed")
    builder.set_bolt("two", Erratic, on_error="fail").shuffle_grouping("one")
    builder.set_bolt("sink", Capture()).shuffle_grouping("two")
    run_topology(builder.build(), Config(acker_executors=ackers, message_timeout_secs=5), seed=seed)
    found = {verdict.message_id: "acked" if verdict.failure is None else verdict.failure.reason for verdict in feeder.verdicts}
    assert len(found) == len(feeder.verdicts) == 150
    return found


@pytest.mark.guarantee("ACK-4", "ACK-7")
def test_the_verdicts_do_not_depend_on_the_number_of_ackers() -> None:
    one = verdicts_of_an_erratic_run(1, seed=0)
    assert set(one.values()) == {"acked", "failed", "error", "forgotten", "timeout"}
    for ackers, seed in ((2, 0), (5, 0), (5, 1), (64, 2)):
        other = verdicts_of_an_erratic_run(ackers, seed)
        assert acked(other) == acked(one)


def acked(verdicts: dict[object, str]) -> set[object]:
    return {message_id for message_id, verdict in verdicts.items() if verdict == "acked"}


# Settles of BasicBolts


@pytest.mark.guarantee("ACK-11", "ACK-16")
def test_a_basic_bolt_fails_its_input_by_raising_and_acks_it_otherwise() -> None:
    class Picky(BasicBolt):
        output_fields = Fields("number")

        def execute(self, tup: Tuple) -> Any:
            yield (tup[0],)
            if tup[0] == 1:
                raise FailTuple("odd")
            if tup[0] == 2:
                raise FailTuple("even", report=True)

    feeder, sink = fed(4), Capture()
    feeder.close()
    finished = run_chain(feeder, Picky, sink)
    assert feeder.acked == [1, 4]
    why = [(message_id, failure.reason, failure.error) for message_id, failure in feeder.failed]
    assert why == [(2, "failed", "odd"), (3, "failed", "even")]
    assert [report.text for report in finished.errors] == ["FailTuple: even"]
    assert finished.snapshot.components["bolt1"].restarts == 0
