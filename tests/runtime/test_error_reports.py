"""Contents of error reports. Errors in making a report do not end a run (ACK-12)."""

from typing import Any

import pytest

import engine
from engine import BasicBolt, Bolt, Config, FailTuple, SpoutExhausted, Topology, TopologyBuilder, Tuple
from engine.runtime.error_report import ErrorReport
from tests.runtime.dying import poisoned
from tests.runtime.stage import EverySecond, LogLines, Numbers, Sink, chain, loop, play, play_run

pytestmark = pytest.mark.guarantee("ACK-12")


def reports_of(topology: Topology, **settings: Any) -> list[ErrorReport]:
    reports: list[ErrorReport] = []

    async def main() -> None:
        run = engine.run(topology, Config(**settings))
        run.on_report.append(reports.append)
        async with run:
            await run.completed()

    play(main)
    return reports


def test_a_report_has_component_task_input_traceback_and_the_consequence() -> None:
    with LogLines() as log:
        reports = reports_of(chain(lambda: Numbers(6), poisoned("fail")))
    (report,) = reports
    assert (report.component_id, report.task_id, report.text) == ("bolt1", 2, "ValueError: poison")
    assert report.tuple_text == "<Tuple (3,) from source[1] on default>"
    assert 'raise ValueError("poison")' in report.traceback
    assert "_native" not in report.traceback
    assert report.next_step == "only this input fails; the bolt continues"
    assert report.wall == 1_577_836_800.0
    assert log.having("'bolt1' (task 2) raised ValueError: poison")


def test_the_report_of_a_call_that_had_acked_its_input_says_that_no_input_fails() -> None:
    class AcksFirst(Bolt):
        def execute(self, tup: Tuple) -> None:
            self.collector.ack(tup)
            raise ValueError("too late")

    [report] = reports_of(chain(lambda: Numbers(1), AcksFirst))
    assert report.next_step == "no input fails; the bolt continues"


KINDS = [type(f"Error{letter}", (ValueError,), {}) for letter in "ABCDEFGH"]


def test_reports_are_limited_to_5_different_errors_in_10_s_per_task() -> None:
    class Fails(Sink):
        on_error = "fail"

        def execute(self, tup: Tuple) -> None:
            raise KINDS[tup[0] % 8](f"at {loop().time():g}")

    builder = TopologyBuilder("two")
    builder.set_spout("source", lambda: EverySecond(20))
    builder.set_bolt("bolt", Fails, parallelism=2).all_grouping("source")
    reports = reports_of(builder.build())
    times = [float(report.text.rpartition(" ")[2]) for report in reports if report.task_id == 2]
    assert times == [1, 2, 3, 4, 5, 14, 15, 16, 17, 18]
    left_out = [report.next_step for report in reports if report.task_id == 2 and report.text.endswith("at 14")]
    assert left_out == ["only this input fails; the bolt continues (3 more errors of this task were left out)"]
    assert len([report for report in reports if report.task_id == 3]) == 10


@pytest.mark.guarantee("SV-5")
def test_equal_errors_are_reported_once_and_then_counted() -> None:
    class Refused(Sink):
        def execute(self, tup: Tuple) -> None:
            raise ConnectionError(f"500 for order {tup[0]}")

    spout = Numbers(1234)
    with LogLines() as log:
        (report,) = reports_of(chain(lambda: spout, Refused), renew_after_failures=10_000)
    assert len(spout.failed) == 1234
    assert report.text == "ConnectionError: 500 for order 0"
    first, others = log.having("ConnectionError")
    assert "raise ConnectionError" in first
    assert "'bolt1' (task 2) raised the same 1,233 more times within 10 s; the last one: ConnectionError: 500 for order 1233" in others


@pytest.mark.guarantee("SV-5")
def test_continuing_equal_errors_are_counted_every_10_s() -> None:
    class Refused(Sink):
        def execute(self, tup: Tuple) -> None:
            raise ConnectionError(f"at {loop().time():g}")

    with LogLines() as log:
        reports = reports_of(chain(lambda: EverySecond(25), Refused))
    assert [report.text for report in reports] == [f"ConnectionError: at {secs}" for secs in (1, 11, 21)]
    assert len(log.having("raised the same 9 more times within 10 s; the last one: ConnectionError: at 10")) == 1
    assert len(log.having("raised the same 9 more times within 10 s; the last one: ConnectionError: at 20")) == 1
    assert len(log.having("raised the same 4 more times within 10 s; the last one: ConnectionError: at 25")) == 1


@pytest.mark.guarantee("SV-5")
def test_a_refusal_is_not_an_error_and_failures_are_counted_by_reason() -> None:
    class Picky(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            if tup[0] % 3 == 0:
                raise FailTuple("not a third one")
            if tup[0] % 3 == 1:
                raise ValueError("bad")

    spout = Numbers(9)
    with LogLines() as log:
        run = play_run(chain(lambda: spout, Picky))
    assert len(log.having("not a third one")) == 0
    assert spout.failures[0].error == "not a third one"
    components = run.snapshot().components
    assert components["bolt1"].failures == {"failed": 3, "error": 3}
    assert components["source"].failures == {"failed": 3, "error": 3}
    text = run.metrics_text()
    assert 'stormcell_failures_total{topology="chain",component="bolt1",task="2",reason="error"} 3' in text
    assert 'stormcell_failures_total{topology="chain",component="source",task="1",reason="failed"} 3' in text


@pytest.mark.guarantee("SV-5")
def test_timeouts_and_forgotten_tuples_are_counted_by_reason() -> None:
    class Loses(Bolt):
        def execute(self, tup: Tuple) -> None:
            if tup[0] == 0:
                self.kept = tup

    run = play_run(chain(lambda: Numbers(3), Loses))
    components = run.snapshot().components
    assert components["bolt1"].failures == {"forgotten": 2}
    assert components["source"].failures == {"forgotten": 2, "timeout": 1}


class Unprintable:
    """A value or error whose repr and text raise."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


class UnprintableError(Unprintable, Exception):
    pass


def test_an_error_without_a_printable_text_does_not_end_the_executor() -> None:
    class Source(Numbers):
        def next_tuple(self) -> None:
            if not self.waiting:
                raise SpoutExhausted
            number = self.waiting.popleft()
            self.collector.emit((Unprintable(),), number)

    class Fails(Sink):
        on_error = "fail"

        def execute(self, tup: Tuple) -> None:
            raise UnprintableError

    spout = Source(3)
    reports = reports_of(chain(lambda: spout, Fails))
    assert spout.failed == [0, 1, 2]
    assert "cannot be shown" in reports[0].text
    assert "cannot be shown" in (reports[0].tuple_text or "")


def test_a_timeout_of_an_unprintable_tuple_is_reported() -> None:
    class Source(Numbers):
        def next_tuple(self) -> None:
            if not self.waiting:
                raise SpoutExhausted
            self.collector.emit((Unprintable(),), self.waiting.popleft())

    class Keeps(Bolt):
        def execute(self, tup: Tuple) -> None:
            self.tup = tup

    spout = Source(1)
    play_run(chain(lambda: spout, Keeps))
    assert spout.failures[0].reason == "timeout"
    assert "cannot be shown" in (spout.failures[0].error or "")


def test_a_listener_that_raises_does_not_stop_the_component() -> None:
    spout = Numbers(6)
    heard: list[ErrorReport] = []

    async def main() -> None:
        run = engine.run(chain(lambda: spout, poisoned("fail")))
        run.on_report.append(lambda report: 1 / 0)  # type: ignore[arg-type, return-value]
        run.on_report.append(heard.append)
        async with run:
            await run.completed()

    with LogLines() as log:
        play(main)
    assert spout.acked == [0, 1, 2, 4, 5]
    assert len(heard) == 1
    assert log.having("a listener of on_report raised")


def test_an_error_that_is_its_own_cause_is_reported() -> None:
    class Fails(Sink):
        on_error = "fail"

        def execute(self, tup: Tuple) -> None:
            first, second = ValueError("first"), ValueError("second")
            first.__cause__, second.__cause__ = second, first
            try:
                raise second
            except ValueError:
                raise first  # noqa: B904

    reports = reports_of(chain(lambda: Numbers(1), Fails))
    assert reports[0].text == "ValueError: first"


def test_a_component_may_report_an_error_and_continue() -> None:
    class Reports(Sink):
        def execute(self, tup: Tuple) -> None:
            self.collector.report_error(ValueError("odd"))
            super().execute(tup)

    class ReportingSpout(Numbers):
        def open(self) -> None:
            super().open()
            self.collector.report_error(ValueError("opened"))

    spout = ReportingSpout(1)
    reports = reports_of(chain(lambda: spout, Reports))
    assert [report.text for report in reports] == ["ValueError: opened", "ValueError: odd"]
    assert [report.describe().splitlines()[0] for report in reports] == [
        "'source' (task 1) reported ValueError: opened",
        "'bolt1' (task 2) reported ValueError: odd",
    ]
    assert spout.acked == [0]
