"""A snapshot is read back from its JSON: the views show the same."""

import json
import math
from dataclasses import dataclass, replace

import pytest

from engine.checkpoint import CheckpointEntry, CheckpointSnapshot
from engine.cli.snapshot_text import state_texts
from engine.control import SnapshotEntry
from engine.control.feature import json_number
from engine.flow import FlowEntry
from engine.metrics import Distribution, TaskLabels, UserMetric
from engine.runtime.snapshot import EdgeSnapshot, Snapshot
from engine.runtime.snapshot_json import _field_value, _known, snapshot_from_dict
from engine.transactional import TransactionsEntry, TransactionsSnapshot
from tests.cli.snapshots import REPORT, entries, flow, snapshot

ENTRIES = (CheckpointEntry, FlowEntry, TransactionsEntry)


def read_back(now: Snapshot) -> Snapshot:
    return snapshot_from_dict(json.loads(json.dumps(now.to_dict())), ENTRIES)


def test_a_snapshot_survives_its_json() -> None:
    metrics = (
        UserMetric("lag", "gauge", TaskLabels("lines", 1), 3.5, {"partition": "1"}),
        UserMetric("endless", "gauge", TaskLabels("lines", 1), math.inf, {}),
        UserMetric("secs", "histogram", TaskLabels("count", 2), Distribution(1, 2.0, 2.0, 2.0, None, 2.0, ()), {}),
    )
    checkpoint = CheckpointSnapshot("commit", 1.5, 7, 1, waits_for=("count[3] waits",), last_ms=None)
    transactions = TransactionsEntry(TransactionsSnapshot("lines/coordinator", 3, 2, 1, {"saving": (4,), "processing": (5, 6)}))
    own = (*entries(flow(3), checkpoint=checkpoint), transactions)
    now = replace(snapshot(), user_metrics=metrics, entries=own, edges=(EdgeSnapshot("lines", "count", "default", 9),))
    found = read_back(now)
    assert found.components == now.components
    assert found.errors == (REPORT,)
    assert found.user_metrics == metrics
    assert found.entry(CheckpointEntry).value == checkpoint
    assert found.entry(FlowEntry).value == (flow(3),)
    assert found.entry(TransactionsEntry).value == transactions.value
    assert found.to_dict() == now.to_dict()


def test_a_run_without_features_survives_its_json() -> None:
    found = read_back(replace(snapshot(), entries=(*entries(), TransactionsEntry(None))))
    assert (found.checkpoint, found.flow, found.transactions) == (None, (), None)


def test_nan_survives() -> None:
    metric = UserMetric("lag", "gauge", TaskLabels("lines", 1), math.nan, {})
    value = read_back(replace(snapshot(), user_metrics=(metric,))).user_metrics[0].value
    assert isinstance(value, float)
    assert math.isnan(value)


def test_a_name_that_looks_like_a_number_stays_a_name() -> None:
    edge = EdgeSnapshot("inf", "nan", "-inf", 9)
    assert read_back(replace(snapshot(), edges=(edge,))).edges == (edge,)


def test_what_this_version_does_not_know_is_kept_or_left_out() -> None:
    values = snapshot().to_dict()
    values["weather"] = {"sun": True}
    values["components"]["lines"]["tasks"][0]["mood"] = "good"
    found = snapshot_from_dict(values, ENTRIES)
    assert found.weather == {"sun": True}
    assert found.components == snapshot().components


@pytest.mark.parametrize("values", [{}, {"topology": "x"}, {"topology": "x", "state": "s", "uptime_secs": 1, "components": 3}])
def test_other_values_are_no_snapshot(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no snapshot"):
        snapshot_from_dict(values)


def test_a_field_may_be_a_dataclass() -> None:
    @dataclass(frozen=True)
    class Inner:
        counts: tuple[int, ...]

    values = {"source": "a", "target": "b", "stream": "default", "tuples": 3}
    assert _known(EdgeSnapshot, {**values, "unknown": 1}) == EdgeSnapshot("a", "b", "default", 3)
    assert _field_value(Inner | None, {"counts": [1, 2]}) == Inner((1, 2))
    assert _field_value(Inner | None, None) is None
    assert _field_value(dict[str, int], {"timeout": 1}) == {"timeout": 1}


def test_floats_of_an_entry_have_six_decimal_places() -> None:
    assert [json_number(value) for value in (0.1234565, -1e-6, 1.0, 7, math.inf, None)] == [0.123456, -1e-06, 1.0, 7, "inf", None]


@dataclass(frozen=True)
class Weather(SnapshotEntry):
    """Entry of a feature that viewers do not know."""

    value: float
    name = "weather"

    def to_json(self) -> float:
        return self.value

    def text(self) -> str:
        return f"weather {self.value:g} degrees"


def test_an_entry_that_a_viewer_does_not_know_is_shown_by_its_text() -> None:
    now = replace(snapshot(), entries=(*entries(), TransactionsEntry(None), Weather(21.5)))
    found = read_back(now)
    assert state_texts(None, found) == state_texts(None, now)
    assert "weather 21.5 degrees" in state_texts(None, found)
    assert found.to_dict() == now.to_dict()
