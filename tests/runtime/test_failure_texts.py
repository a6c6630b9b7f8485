"""Texts of failures: the task that owes an ack, the path of a tuple, the frames of user code."""

import logging

import pytest

from engine import BasicBolt, Bolt, Config, Fields, TopologyBuilder, Tuple
from engine.api import BoltFactory
from engine.testing import Feeder, Finished, run_topology


class Hoards(Bolt):
    def prepare(self) -> None:
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.kept.append(tup)


class Forgets(Bolt):
    def execute(self, tup: Tuple) -> None:
        return


class SettlesTwice(Bolt):
    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)
        self.collector.ack(tup)


class TooFewValues(BasicBolt):
    output_fields = Fields("word", "length")

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["word"],))


def run_with(bolt: BoltFactory, config: Config | None = None) -> tuple[Feeder, Finished]:
    """Run one word through a bolt."""
    words, builder = Feeder("word"), TopologyBuilder("texts")
    builder.set_spout("words", words)
    builder.set_bolt("work", bolt).shuffle_grouping("words")
    words.feed(("storm",))
    words.close()
    return words, run_topology(builder.build(), config)


@pytest.mark.guarantee("ACK-15", "ACK-16")
def test_a_timeout_names_the_task_that_owes_the_ack_and_the_time() -> None:
    words, finished = run_with(Hoards)
    ((_, failure),) = words.failed
    assert (failure.reason, failure.component_id, failure.task_id) == ("timeout", "work", 2)
    assert failure.error is not None
    age = float(failure.error.split(" up ")[1].split(" s ago")[0])
    assert 30 <= age <= finished.secs + 0.1


def test_a_traced_timeout_lists_the_path_in_order() -> None:
    words, _ = run_with(Hoards, Config(trace_sample_rate=1.0))
    ((_, failure),) = words.failed
    assert failure.error is not None
    assert failure.error.endswith("its path: opened by words[1] +0.000 s, sent to work[2] +0.000 s")


@pytest.mark.guarantee("ACK-15")
def test_a_forgotten_ack_logs_a_warning_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run_with(Forgets)
    assert [record.message for record in caplog.records if "bolt 'work' dropped a tuple without ack or fail" in record.message]


@pytest.mark.guarantee("ACK-5")
def test_a_second_settle_logs_a_warning_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run_with(SettlesTwice)
    assert [record.message for record in caplog.records if "bolt 'work' settled a tuple twice" in record.message]


def test_a_report_shows_only_frames_of_user_code() -> None:
    _, finished = run_with(TooFewValues)
    (report,) = finished.errors
    assert 'self.collector.emit((tup["word"],))' in report.traceback
    assert "_native" not in report.traceback
    assert "engine/runtime" not in report.traceback
