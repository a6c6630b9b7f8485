"""Bolts and spouts that take and emit many tuples in one call (BU-1 to BU-3)."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from engine import (
    BasicBolt,
    Burst,
    BurstBolt,
    Config,
    FailTuple,
    Fields,
    TopologyBuilder,
    TopologyError,
    bolt,
)
from engine.testing import Capture, Feeder, Finished, run_topology
from tests.runtime.stage import Numbers, chain, play_run

NUMBERS = range(1, 11)


class Doubles(BurstBolt):
    """Emits each number twice. Notes the size of each burst."""

    output_fields = "number"

    def prepare(self) -> None:
        self.sizes: list[int] = []
        self.seen: list[int] = []

    def execute_many(self, burst: Burst) -> Any:
        self.sizes.append(len(burst))
        for tup, number in burst.items("number"):
            self.seen.append(number)
            self.collector.emit_each([number, number], anchors=tup)
            self.after(burst, tup, number)

    def after(self, burst: Burst, tup: Any, number: int) -> None:
        """Do something with a tuple after its emits."""


class Play:
    """A run of numbers -> bolt -> capture."""

    def __init__(self, bolt: Any, *, numbers: Any = NUMBERS, **config: Any) -> None:
        self.feeder, self.capture, self.bolts = Feeder("number"), Capture(), list[Any]()

        def make() -> Any:
            self.bolts.append(bolt())
            return self.bolts[-1]

        builder = TopologyBuilder("bursts")
        builder.set_spout("numbers", self.feeder)
        builder.set_bolt("bolt", make).shuffle_grouping("numbers")
        builder.set_bolt("capture", self.capture).shuffle_grouping("bolt")
        for number in numbers:
            self.feeder.feed((number,))
        self.feeder.close()
        self.finished: Finished = run_topology(builder.build(), Config(**config))

    @property
    def emitted(self) -> list[int]:
        return [values[0] for values in self.capture.values]

    @property
    def failed(self) -> list[Any]:
        return [message_id for message_id, _ in self.feeder.failed]

    @property
    def reports(self) -> list[str]:
        return [report.describe() for report in self.finished.errors]


def twice(numbers: Any) -> list[int]:
    return [number for number in numbers for _ in range(2)]


@pytest.mark.guarantee("BU-1", "BU-2", "GRP-4")
def test_one_call_takes_all_that_wait_in_their_order_and_acks_them() -> None:
    play = Play(Doubles)
    [bolt] = play.bolts
    assert bolt.sizes == [10]
    assert bolt.seen == list(NUMBERS)
    assert play.emitted == twice(NUMBERS)
    assert play.feeder.acked == list(NUMBERS)


@pytest.mark.guarantee("BU-2")
def test_a_call_takes_at_most_burst_rows() -> None:
    class Small(Doubles):
        burst_rows = 4

    play = Play(Small)
    assert play.bolts[0].sizes == [4, 4, 2]
    assert play.emitted == twice(NUMBERS)


@pytest.mark.guarantee("BU-1")
def test_a_failed_tuple_of_a_burst_fails_alone() -> None:
    class FailsFive(Doubles):
        def after(self, burst: Burst, tup: Any, number: int) -> None:
            if number == 5:
                burst.fail(tup, "five")

    play = Play(FailsFive)
    assert [(message_id, failure.error) for message_id, failure in play.feeder.failed] == [(5, "five")]
    assert play.feeder.acked == [number for number in NUMBERS if number != 5]
    assert play.bolts[0].sizes == [10]


@pytest.mark.guarantee("BU-1")
@pytest.mark.parametrize("error", [ValueError("bad"), FailTuple("bad")])
def test_if_a_call_raises_only_the_guilty_fail_and_nothing_is_sent_twice(error: Exception) -> None:
    class RaisesAtFive(Doubles):
        def after(self, burst: Burst, tup: Any, number: int) -> None:
            if number in (5, 8):
                raise error

    play = Play(RaisesAtFive)
    assert play.failed == [5, 8]
    assert play.feeder.acked == [number for number in NUMBERS if number not in (5, 8)]
    good = [number for number in play.emitted if number not in (5, 8)]
    assert good == twice(number for number in NUMBERS if number not in (5, 8))
    assert play.bolts[0].sizes == [10] + [1] * 10
    assert len(play.bolts) == 1
    assert ["input: <Tuple (5,)" in text for text in play.reports] == ([True] if isinstance(error, ValueError) else [])


@pytest.mark.guarantee("BU-1")
def test_an_acked_tuple_does_not_run_again_and_what_was_sent_before_stays() -> None:
    class AcksThree(Doubles):
        def after(self, burst: Burst, tup: Any, number: int) -> None:
            if number == 3 and len(burst) > 1:
                burst.ack(tup)
            elif number == 5 and len(burst) > 1:
                raise ValueError("five")

    play = Play(AcksThree)
    assert play.bolts[0].seen == [1, 2, 3, 4, 5, 1, 2, *range(4, 11)]
    assert sorted(play.feeder.acked) == list(NUMBERS)
    assert Counter(play.emitted)[3] == 2
    assert Counter(play.emitted)[1] == 4  # sent before the ack, and once more


@pytest.mark.guarantee("BU-1")
def test_an_error_that_no_tuple_repeats_is_reported() -> None:
    class RaisesOnce(Doubles):
        def after(self, burst: Burst, tup: Any, number: int) -> None:
            if number == 5 and len(burst) > 1:
                raise ConnectionError("away")

    play = Play(RaisesOnce)
    assert play.feeder.acked == list(NUMBERS)
    assert play.failed == []
    [report] = play.reports
    assert "ConnectionError: away" in report
    assert "its 10 inputs have run again one by one, and none of them raised" in report


@pytest.mark.guarantee("BU-1")
@pytest.mark.parametrize("is_reported", [False, True])
def test_a_fail_tuple_that_no_tuple_repeats_is_quiet_unless_it_asks_for_a_report(is_reported: bool) -> None:
    class RaisesOnce(Doubles):
        def after(self, burst: Burst, tup: Any, number: int) -> None:
            if number == 5 and len(burst) > 1:
                raise FailTuple("together", report=is_reported)

    play = Play(RaisesOnce)
    assert play.feeder.acked == list(NUMBERS)
    assert len(play.reports) == is_reported


@pytest.mark.guarantee("BU-1")
def test_an_error_after_all_is_settled_is_reported() -> None:
    class SettlesAll(Doubles):
        def execute_many(self, burst: Burst) -> None:
            for tup in burst:
                burst.ack(tup)
            if len(burst) > 1:
                raise ValueError("late")

    play = Play(SettlesAll)
    assert play.feeder.acked == list(NUMBERS)
    assert "ValueError: late" in play.reports[0]


@pytest.mark.guarantee("BU-1", "ACK-15")
def test_with_restart_all_that_the_instance_has_taken_fails() -> None:
    class RaisesAtFive(Doubles):
        on_error = "restart"

        def after(self, burst: Burst, tup: Any, number: int) -> None:
            if number == 5:
                raise ValueError("five")

    play = Play(RaisesAtFive)
    assert play.failed == list(NUMBERS)
    assert len(play.bolts) == 2


@pytest.mark.guarantee("BU-1")
def test_a_call_may_wait_and_then_its_emits_stay() -> None:
    class Waits(Doubles):
        async def execute_many(self, burst: Burst) -> None:
            self.sizes.append(len(burst))
            for tup, number in burst.items("number"):
                self.collector.emit((number,), anchors=tup)
                await asyncio.sleep(0.01)
                if number == 5:
                    raise ValueError("five")

    play = Play(Waits)
    assert play.bolts[0].sizes == [10] + [1] * 10
    assert play.failed == [5]
    assert sorted(play.feeder.acked) == [number for number in NUMBERS if number != 5]
    assert Counter(play.emitted)[1] == 2  # at least once
    assert Counter(play.emitted)[9] == 1


@pytest.mark.guarantee("BU-2")
def test_a_full_mailbox_stops_the_bolt_and_taken_back_tuples_make_room() -> None:
    class Floods(BurstBolt):
        output_fields = "number"
        raised = False

        def execute_many(self, burst: Burst) -> None:
            for tup, number in burst.items("number"):
                self.collector.emit_each([number] * 20, anchors=tup)
            if not self.raised:
                self.raised = True
                raise ValueError("full")

    play = Play(Floods, executor_receive_buffer_size=8)
    assert play.emitted == [number for number in NUMBERS for _ in range(20)]
    assert play.feeder.acked == list(NUMBERS)


@pytest.mark.guarantee("BU-2", "BU-3")
def test_a_tick_comes_alone() -> None:
    class Ticks(Doubles):
        tick_tuple_freq_secs = 0.5

        def prepare(self) -> None:
            super().prepare()
            self.ticks = 0

        def execute_many(self, burst: Burst) -> Any:
            if burst.is_tick:
                assert len(burst) == 1
                self.ticks += 1
                return None
            return super().execute_many(burst)

    feeder, capture, bolts = Feeder("number"), Capture(), list[Ticks]()

    class Slow(BasicBolt):
        output_fields = "number"

        async def execute(self, tup: Any) -> tuple[int]:
            await asyncio.sleep(0.3)
            return (tup["number"],)

    builder = TopologyBuilder("ticks")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("slow", Slow).shuffle_grouping("numbers")
    builder.set_bolt("bolt", lambda: bolts.append(Ticks()) or bolts[-1]).shuffle_grouping("slow")
    builder.set_bolt("capture", capture).shuffle_grouping("bolt")
    for number in NUMBERS:
        feeder.feed((number,))
    feeder.close()
    run_topology(builder.build())
    assert bolts[0].ticks == 6
    assert feeder.acked == list(NUMBERS)


@pytest.mark.guarantee("BU-3")
def test_a_function_yields_pairs_of_an_input_and_values() -> None:
    from engine import bolt

    @bolt("word", burst=True)
    def split(burst: Burst) -> Iterator[Any]:
        for tup, line in burst.items("line"):
            for word in line.split():
                yield tup, (word,)

    lines, words = Feeder("line"), Capture()
    builder = TopologyBuilder("split")
    builder.set_spout("lines", lines)
    builder.set_bolt("split", split).shuffle_grouping("lines")
    builder.set_bolt("words", words).shuffle_grouping("split")
    lines.feed(("to be",)), lines.feed(("or not",))
    lines.close()
    run_topology(builder.build())
    assert words.values == [("to",), ("be",), ("or",), ("not",)]
    assert lines.acked == [1, 2]


@pytest.mark.guarantee("BU-1")
def test_a_function_that_yields_something_else_is_told_what_to_yield() -> None:
    from engine import bolt

    @bolt("word", burst=True)
    def split(burst: Burst) -> Any:
        yield ("word",)

    play = Play(split.create)
    assert play.failed == list(NUMBERS)
    assert "yield pairs of an input and values" in play.reports[0]


@pytest.mark.guarantee("BU-1", "ACK-3")
@pytest.mark.parametrize("method", ["emit_many", "emit_each"])
def test_rows_of_a_generator_that_settles_its_anchor_are_refused(method: str) -> None:
    class AcksBetweenRows(BurstBolt):
        output_fields = "number"

        def execute_many(self, burst: Burst) -> None:
            for tup in burst:
                getattr(self.collector, method)(self.rows(burst, tup), anchors=tup)

        def rows(self, burst: Burst, tup: Any) -> Iterator[Any]:
            yield tup.values
            burst.ack(tup)
            yield tup.values

    play = Play(AcksBetweenRows)
    assert play.emitted == []
    assert "is settled already. Emit before ack() or fail()" in play.reports[0]


@pytest.mark.guarantee("BU-3")
@pytest.mark.parametrize(
    ("setting", "text"),
    [({"concurrency": 2}, "takes one burst at a time"), ({"threads": 2}, "a BurstBolt has no threads. Remove threads=2")],
)
def test_settings_of_single_calls_are_refused(setting: dict[str, Any], text: str) -> None:
    builder = TopologyBuilder("refused")
    builder.set_spout("numbers", Feeder("number"))
    builder.set_bolt("bolt", Doubles, **setting).shuffle_grouping("numbers")
    with pytest.raises(TopologyError, match=text):
        builder.build()


@pytest.mark.guarantee("BU-2")
@pytest.mark.parametrize("rows", [0, -1, "many", True, 2.5])
def test_a_wrong_number_of_burst_rows_is_refused(rows: Any) -> None:
    builder = TopologyBuilder("refused")
    builder.set_spout("numbers", Feeder("number"))
    builder.set_bolt("bolt", type("Wrong", (Doubles,), {"burst_rows": rows})).shuffle_grouping("numbers")
    with pytest.raises(TopologyError, match="burst_rows must be a whole number of at least 1"):
        builder.build()


def test_fields_of_a_burst_bolt_are_declared_as_usual() -> None:
    assert Fields("number") == Fields(*[Doubles.output_fields])


@pytest.mark.guarantee("BU-1")
def test_an_async_generator_of_a_burst_is_closed_if_a_pair_is_refused() -> None:
    closed: list[bool] = []

    @bolt("number", burst=True)
    async def odd(burst: Any) -> Any:
        try:
            yield "no pair"
        finally:
            await asyncio.sleep(0.01)
            closed.append(True)

    spout = Numbers(1)
    play_run(chain(lambda: spout, odd))
    assert closed == [True]
    assert spout.failed == [0]
