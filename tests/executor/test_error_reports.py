"""What is told of an exception, and that nothing about telling it ends a run (ACK-12)."""

import asyncio
from typing import Any

import pytest

import engine
from engine import Bolt, Config, SpoutExhausted, Topology, TopologyBuilder, Tuple
from engine.executor.error_report import ErrorReport
from tests.executor.dying import poisoned
from tests.executor.stage import LogLines, Numbers, Sink, chain, loop, play, play_run

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


def test_a_report_names_component_task_input_traceback_and_what_happens_next() -> None:
    with LogLines() as log:
        reports = reports_of(chain(lambda: Numbers(6), poisoned("fail")))
    (report,) = reports
    assert (report.component_id, report.task_id, report.text) == ("bolt1", 2, "ValueError: poison")
    assert report.tuple_text == "<Tuple (3,) from source[1] on default>"
    assert 'raise ValueError("poison")' in report.traceback
    assert "_native" not in report.traceback
    assert report.next_step == "the input fails; the instance goes on"
    assert report.wall == 1_577_836_800.0
    assert log.having("'bolt1' (task 2) raised ValueError: poison")


def test_reports_are_limited_to_5_in_10_s_for_each_task() -> None:
    class Fails(Sink):
        on_error = "fail"

        def execute(self, tup: Tuple) -> None:
            raise ValueError(f"at {loop().time():g}")

    class Paced(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            Numbers.next_tuple(self)

    builder = TopologyBuilder("two")
    builder.set_spout("source", lambda: Paced(20))
    builder.set_bolt("bolt", Fails, parallelism=2).all_grouping("source")
    reports = reports_of(builder.build())
    times = [float(report.text.rpartition(" ")[2]) for report in reports if report.task_id == 2]
    assert times == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]
    left_out = [report.next_step for report in reports if report.task_id == 2 and report.text.endswith("at 11")]
    assert left_out == ["the input fails; the instance goes on (5 more errors of this task were left out)"]
    assert len([report for report in reports if report.task_id == 3]) == 10


class Unprintable:
    """A value, or an error, that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


class UnprintableError(Unprintable, Exception):
    pass


def test_what_cannot_be_printed_ends_no_executor() -> None:
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


def test_a_timeout_of_what_cannot_be_printed_is_told_all_the_same() -> None:
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


def test_a_component_may_report_and_go_on() -> None:
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
    assert spout.acked == [0]
