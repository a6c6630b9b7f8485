"""A run in this process's terminal: its end, and its cleanup."""

import asyncio
import gc
import signal
import sys
import warnings
from typing import Any

import pytest

from engine.api import Bolt, Fields, Spout, SpoutExhausted
from engine.cli import Outcome, run_in_terminal
from engine.cli.run_views import SilentView
from engine.config import Config
from engine.errors import ComponentError, ConfigError, TopologyError, UsageError
from engine.installation import install_command
from engine.runtime.error_report import ErrorReport
from engine.runtime.snapshot import Snapshot
from engine.topology import Topology, TopologyBuilder


class Numbers(Spout):
    """Emits the numbers below `end`, or all of them."""

    output_fields = Fields("number")

    def __init__(self, end: int | None = None) -> None:
        self.end = end
        self.next = 0

    def next_tuple(self) -> None:
        if self.next == self.end:
            raise SpoutExhausted
        self.collector.emit((self.next,), message_id=self.next)
        self.next += 1


class Take(Bolt):
    def execute(self, tup: Any) -> None:
        self.collector.ack(tup)


class NeverReady(Take):
    def prepare(self) -> None:
        raise ConnectionError("no database")


class Noted(SilentView):
    """A view that records its calls."""

    def __init__(self, interval_secs: float = 3600.0) -> None:
        self.interval_secs = interval_secs
        self.told: list[str] = []
        self.reports: list[ErrorReport] = []
        self.shown: list[Snapshot] = []
        self.outcome: Outcome | None = None

    def show(self, before: Snapshot | None, now: Snapshot) -> None:
        assert before is (self.shown[-1] if self.shown else None)
        self.shown.append(now)

    def report(self, report: ErrorReport) -> None:
        self.reports.append(report)

    def note(self, text: str) -> None:
        self.told.append(text)

    def end(self, outcome: Outcome) -> None:
        self.outcome = outcome


def topology(spout: Any, bolt: Any = Take, **settings: Any) -> Topology:
    builder = TopologyBuilder("numbers")
    builder.set_spout("numbers", spout, max_spout_pending=100)
    builder.set_bolt("take", bolt, **settings).shuffle_grouping("numbers")
    return builder.build()


@pytest.mark.guarantee("RUN-4")
def test_a_complete_run_is_status_0() -> None:
    view = Noted()
    outcome = run_in_terminal(topology(lambda: Numbers(1000)), view=view)
    assert (outcome.exit_status, outcome.error) == (0, None)
    assert outcome.snapshot is not None
    assert (outcome.snapshot.state, outcome.snapshot.components["take"].acked) == ("complete", 1000)
    assert view.outcome is outcome
    assert outcome.summary().endswith(": 1,000 emitted, 1,000 acked, 0 failed")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.guarantee("RUN-4")
def test_a_run_drains_after_its_time(loop: str) -> None:
    view = Noted(interval_secs=0.02)
    outcome = run_in_terminal(topology(Numbers), Config(event_loop=loop), view=view, for_secs=0.1)  # type: ignore[arg-type]
    assert outcome.exit_status == 0
    assert outcome.snapshot is not None
    assert outcome.snapshot.state == "drained"
    assert outcome.snapshot.components["numbers"].pending == 0
    assert view.told == ["0.1 s have passed, draining: open trees have 30 s to finish; Ctrl-C again stops at once"]
    assert [now.state for now in view.shown][:1] == ["running"]


@pytest.mark.guarantee("RUN-4")
def test_a_component_that_fails_for_good_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    view = Noted()
    outcome = run_in_terminal(topology(Numbers, NeverReady), Config(max_task_restarts=0), view=view)
    assert outcome.exit_status == 1
    assert isinstance(outcome.error, ComponentError)
    assert "Error: 'take' (task 2): " in capsys.readouterr().err


@pytest.mark.guarantee("RUN-4")
def test_a_topology_that_does_not_fit_its_config_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    builder = TopologyBuilder("numbers")
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("take", Take, parallelism=64).fields_grouping("numbers", "number")
    outcome = run_in_terminal(builder.build(), Config(key_groups=8), view="silent")
    assert (outcome.exit_status, outcome.snapshot) == (2, None)
    assert isinstance(outcome.error, TopologyError)
    assert "key_groups (8)" in capsys.readouterr().err
    assert outcome.summary() == "the run did not start"


def test_a_loop_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    outcome = run_in_terminal(topology(lambda: Numbers(1)), Config(event_loop="uvloop"), view="silent")
    assert isinstance(outcome.error, ConfigError)
    assert outcome.exit_status == 2
    assert f"Run {install_command('uvloop')}, or set" in capsys.readouterr().err
    assert run_in_terminal(topology(lambda: Numbers(1)), Config(event_loop="auto"), view="silent").exit_status == 0


def test_errors_of_components_reach_the_view() -> None:
    class Picky(Take):
        on_error = "fail"

        def execute(self, tup: Any) -> None:
            if tup[0] == 3:
                raise KeyError("three")
            super().execute(tup)

    view = Noted()
    assert run_in_terminal(topology(lambda: Numbers(5), Picky), view=view).exit_status == 3
    assert [report.text for report in view.reports] == ["KeyError: 'three'"]


def test_without_a_reader_the_run_drains_silently(capsys: pytest.CaptureFixture[str]) -> None:
    class Deaf(Noted):
        def show(self, before: Snapshot | None, now: Snapshot) -> None:
            raise BrokenPipeError

    outcome = run_in_terminal(topology(Numbers), view=Deaf(interval_secs=0.01))
    assert outcome.exit_status == 0
    assert outcome.snapshot is not None
    assert outcome.snapshot.state == "drained"
    assert capsys.readouterr() == ("", "")


def test_a_view_that_fails_does_not_end_the_run(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Noted):
        def show(self, before: Snapshot | None, now: Snapshot) -> None:
            raise ValueError("no such color")

    outcome = run_in_terminal(topology(Numbers), view=Broken(interval_secs=0.01), for_secs=0.1)
    assert outcome.exit_status == 0
    assert "no such color" in caplog.text


@pytest.mark.guarantee("RUN-4")
def test_a_signal_before_the_first_step_leaves_no_task_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: asyncio.Runner, *_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(asyncio.Runner, "run", interrupted)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert run_in_terminal(topology(Numbers), view="silent").exit_status == 130
        gc.collect()
    assert not [each for each in warned if "never awaited" in str(each.message)]


def test_signal_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    during: list[Any] = []

    class Looks(Take):
        def prepare(self) -> None:
            during.append(signal.getsignal(signal.SIGINT))

    run_in_terminal(topology(lambda: Numbers(1), Looks), view="silent")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert during[0] not in before


async def test_inside_an_event_loop_the_error_names_the_alternative() -> None:
    with pytest.raises(UsageError, match=r"async with engine\.run"):
        run_in_terminal(topology(Numbers), view="silent")
