"""Samples: rates between two snapshots, and the parts of features."""

import json
import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from engine import BasicBolt, Inlet, TopologyBuilder
from engine.control import SnapshotEntry
from engine.metrics import Distribution, TaskLabels, UserMetric
from engine.runtime.error_report import ErrorReport
from engine.runtime.failure_snapshot import FailureSnapshot
from engine.runtime.owed_acks import OwedAck
from engine.runtime.snapshot import ComponentSnapshot, EdgeSnapshot, Snapshot, TaskSnapshot
from engine.transactional import TransactionsEntry, TransactionsSnapshot
from engine.web.encoding import encode_json, json_value
from engine.web.sample import Moment, make_point, make_sample
from engine.web.sample_metrics import MOST_METRICS
from engine.web.topology_layout import lay_out

MOMENT = Moment(seq=3, wall=1_700_000_000.1234, log_level="WARNING", user_components=frozenset({"lines", "count"}))


def snapshot(secs: float, times: int, **more: Any) -> Snapshot:
    spout = TaskSnapshot(1, 0, emitted=100 * times, acked=90 * times, failed=2 * times, pending=8, status="polling")
    bolt = TaskSnapshot(
        2,
        0,
        executed=80 * times,
        emitted=10,
        acked=80 * times,
        waiting=5,
        mailbox_capacity=10,
        busy_secs=0.5 * times,
        loop_secs=0.25 * times,
    )
    components = {
        "lines": ComponentSnapshot("lines", "spout", (spout,), 1.5, 20.0),
        "count": ComponentSnapshot("count", "bolt", (bolt,)),
        "__acker": ComponentSnapshot("__acker", "acker", (TaskSnapshot(3, 0),)),
    }
    edges = (EdgeSnapshot("lines", "count", "default", 100 * times),)
    return Snapshot("words", "running", secs, components, edges=edges, **more)


def test_rates_are_those_since_the_earlier_snapshot() -> None:
    made = make_sample(snapshot(10.0, 1), snapshot(12.0, 3), MOMENT)
    assert made["total"]["emitted_rate"] == 100.0
    assert made["total"]["acked_rate"] == 90.0
    assert (made["total"]["emitted"], made["total"]["open_trees"], made["total"]["p99_ms"]) == (300, 8, 20.0)
    lines, count, acker = made["components"]
    assert (lines["out_rate"], count["in_rate"]) == (100.0, 80.0)
    assert (count["fill"], count["loop_share"], count["capacity"]) == (0.5, 0.25, 0.5)
    assert count["task_rows"][0]["in_rate"] == 80.0
    assert [each["system"] for each in made["components"]] == [False, False, True]
    assert made["edges"] == [{"source": "lines", "target": "count", "stream": "default", "tuples": 300, "rate": 100.0}]
    assert acker["id"] == "__acker"


def test_the_first_sample_has_the_rates_since_the_start() -> None:
    assert make_sample(None, snapshot(10.0, 1), MOMENT)["total"]["emitted_rate"] == 10.0


def test_unknown_numbers_are_none() -> None:
    made = make_sample(None, Snapshot("words", "waiting", 0.0, {}), MOMENT)
    assert (made["total"]["emitted_rate"], made["total"]["p50_ms"], made["components"]) == (None, None, [])
    assert (made["checkpoint"], made["transactions"], made["jobs"], made["flow"], made["kafka"]) == (None, None, None, [], [])
    assert made["event_time"] == []
    assert make_point(None, Snapshot("words", "waiting", 0.0, {}), MOMENT.wall) == {
        "time": 1_700_000_000.123,
        **dict.fromkeys(("emitted_rate", "acked_rate", "failed_rate", "loop_busy", "p50_ms", "p99_ms")),
        "open_trees": 0,
    }


def test_counts_that_shrink_give_no_negative_rate() -> None:
    made = make_sample(snapshot(10.0, 3), snapshot(12.0, 1), MOMENT)
    assert made["total"]["emitted_rate"] == 0.0
    assert made["components"][1]["task_rows"][0]["capacity"] == 0.0


def test_failures_and_errors_are_newest_first() -> None:
    failures = tuple(FailureSnapshot(float(wall), "lines", 1, "7", "failed", "count", 2, None) for wall in range(30))
    errors = tuple(ErrorReport("count", 2, float(wall), "KeyError", None, "", "it goes on") for wall in range(3))
    made = make_sample(None, snapshot(1.0, 1, failures=failures, errors=errors), MOMENT)
    assert [failure["time"] for failure in made["failures"]] == [float(wall) for wall in range(29, 9, -1)]
    assert [error["time"] for error in made["errors"]] == [f"1970-01-01T00:00:0{wall}.000+00:00" for wall in (2, 1, 0)]


def test_owed_acks_and_traces_are_shown() -> None:
    moment = Moment(1, 0.0, "INFO", frozenset(), (OwedAck("count", 2, "<Tuple ('be',)>", 1.5),), ({"state": "open"},))
    made = make_sample(None, snapshot(1.0, 1), moment)
    assert made["owed"] == [{"component": "count", "task": 2, "tuple": "<Tuple ('be',)>", "age_secs": 1.5}]
    assert made["traces"] == [{"state": "open"}]


def transactions(committed: int) -> tuple[SnapshotEntry, ...]:
    return (TransactionsEntry(TransactionsSnapshot("lines/coordinator", 7, committed, 1, {"processing": (9, 10), "committing": (8,)})),)


def test_transactions_have_their_open_txids_by_phase() -> None:
    made = make_sample(snapshot(10.0, 1, entries=transactions(4)), snapshot(12.0, 3, entries=transactions(10)), MOMENT)
    assert made["transactions"] == {
        "component": "lines/coordinator",
        "committed_txid": 7,
        "committed_rate": 3.0,
        "open": 3,
        "failed": 1,
        "phases": {"processing": [9, 10], "committing": [8]},
    }
    assert make_sample(None, snapshot(12.0, 3, entries=(TransactionsEntry(None),)), MOMENT)["transactions"] is None


def gauge(name: str, value: float, task: int = 1, **labels: str) -> UserMetric:
    return UserMetric(name, "gauge", TaskLabels("lines", task), value, labels)


def test_kafka_metrics_are_grouped_by_partition() -> None:
    metrics = (
        *(gauge("kafka_lag", lag, partition=str(number), topic="t") for number, lag in ((10, 5.0), (2, 7.0))),
        *(gauge("kafka_lag", 3.0, task=2, partition="2", topic="t"), gauge("kafka_committed", math.nan, partition="2", topic="t")),
        *(
            gauge("kafka_component", 3.0, partition="2", topic="t"),
            gauge("kafka_buffered", 3.0),
            gauge("lag", 1.0, topic="t", partition="1"),
        ),
    )
    made = make_sample(None, snapshot(1.0, 1, user_metrics=metrics), MOMENT)
    assert made["kafka"] == [
        {"component": "lines", "topic": "t", "partition": "2", "lag": 10.0, "committed": None},
        {"component": "lines", "topic": "t", "partition": "10", "lag": 5.0},
    ]


def test_user_metrics_are_bounded_and_have_no_nan() -> None:
    histogram = UserMetric("secs", "histogram", TaskLabels("count", 2), Distribution(1, 2.0, 2.0, 2.0, 2.0, 2.0, ()), {})
    metrics = (gauge("unknown", math.nan), gauge("endless", math.inf), histogram, *(gauge("g", 1.0, shop=str(n)) for n in range(500)))
    made = make_sample(None, snapshot(1.0, 1, user_metrics=metrics), MOMENT)
    assert len(made["metrics"]) == MOST_METRICS
    assert [made["metrics"][0]["value"], made["metrics"][1]["value"], made["metrics"][2]["p99"]] == [None, "inf", 2.0]
    json.loads(encode_json(made), parse_constant=refuse)


def refuse(name: str) -> None:
    raise AssertionError(name)


def test_any_value_can_be_encoded() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    nested: list[Any] = []
    for _ in range(2000):
        nested = [nested]
    value = {
        "a": math.nan,
        "b": b"\xff",
        3: {
            1,
        },
        "c": Broken(),
        "d": nested,
        "e": "\ud800 <script>",
        "f": 2**70,
        "g": (True, None),
    }
    shown = json.loads(encode_json(value), parse_constant=refuse)
    assert (shown["a"], shown["b"], shown["3"], shown["f"], shown["g"]) == ("nan", "b'\\xff'", "{1}", str(2**70), [True, None])
    assert shown["c"] == "<Broken that cannot be shown: a value's repr raised RuntimeError>"
    assert json_value(-(2**53)) == str(-(2**53))
    assert b"\n" not in encode_json({"a": "x\ny\u2028"})


def test_a_value_that_contains_itself_twice_ends() -> None:
    value: list[object] = []
    value += [value, value]
    assert isinstance(json_value(value), list)


class Passing(BasicBolt):
    output_fields = ("number",)

    def execute(self, tup: Any) -> Any:
        return (tup["number"],)


@pytest.mark.guarantee("WEB-3")
@pytest.mark.parametrize("parents", [lambda number: (number - 1, 0), lambda number: (number - 1,), lambda number: (0,)])
def test_a_thousand_components_are_laid_out_in_no_time(parents: Callable[[int], tuple[int, ...]]) -> None:
    builder = TopologyBuilder("large")
    builder.set_spout("c0", lambda: Inlet("number"))
    for number in range(1, 1000):
        declarer = builder.set_bolt(f"c{number}", Passing)
        for parent in sorted(set(parents(number))):
            declarer.shuffle_grouping(f"c{parent}")
    described = builder.build()
    began = time.thread_time()
    layout = lay_out(described)
    assert time.thread_time() - began < 2, "it took 18 s"
    assert len(set(layout.centres.values())) == 1000
