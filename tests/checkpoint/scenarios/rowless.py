"""Scenarios of failed inputs that belong to no row of a source (EO-6)."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from engine import BasicBolt, StatefulBolt, TopologyBuilder, Tuple
from engine.checkpoint.rowless import FailedInput, RowlessInputs
from engine.state import KeyValueState
from engine.testing import run_topology
from tests.checkpoint.scenarios.kit import FAST, Numbers, Tally, Told

Patch = pytest.MonkeyPatch


class Windows(StatefulBolt):
    """Passes on each row at once, and each window of ten rows un-anchored, with a time that differs in each pass."""

    output_fields = {"rows": "n", "windows": ("n", "at")}

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.state.put("rows", self.state.get("rows", 0) + 1)
        self.collector.emit((tup["n"],), anchors=tup, stream="rows")
        self.collector.ack(tup)

    def pre_prepare(self, txid: int) -> None:
        done = self.state.get("windows", 0)
        while self.state.get("rows", 0) >= (done + 1) * 10:
            self.collector.emit((1000 + done, self.context.clock.now()), stream="windows")
            done += 1
        self.state.put("windows", done)


class Sink(BasicBolt):
    """Passes on rows and windows, and fails the window 1002: always, or only once."""

    output_fields = "n"
    failed: list[int]
    always = True

    def execute(self, tup: Tuple) -> tuple[Any, ...]:
        if tup["n"] == 1002 and (self.always or not self.failed):
            self.failed.append(tup["n"])
            raise ValueError("a bad window")
        return (tup["n"],)


def windows(sink: Any) -> Counter[Any]:
    """Count what a sink of rows and windows passes on."""
    told, builder = Told(), TopologyBuilder("scenario")
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.1))
    builder.set_bolt("windows", Windows).shuffle_grouping("numbers")
    builder.set_bolt("sink", sink).shuffle_grouping("windows", "rows").shuffle_grouping("windows", "windows")
    builder.set_bolt("count", partial(Tally, told)).shuffle_grouping("sink")
    run_topology(builder.build(), FAST, limit_secs=600.0)
    return told.counts()


def a_window_always_fails() -> Counter[Any]:
    return windows(type("Always", (Sink,), {"failed": []}))


def a_window_fails_once() -> Counter[Any]:
    return windows(type("Once", (Sink,), {"failed": [], "always": False}))


def inputs_are_known_by_values(patch: Patch) -> None:
    add = RowlessInputs._add

    def add_by_values(self: RowlessInputs, failed: FailedInput) -> None:
        add(self, failed._replace(place=(*failed.place[:2], repr(failed.row.row[0]))))

    patch.setattr(RowlessInputs, "_add", add_by_values)


def nobody_reports_them(patch: Patch) -> None:
    patch.setattr(RowlessInputs, "note_failed", lambda *args: None)
