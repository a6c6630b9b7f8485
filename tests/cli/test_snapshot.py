"""Values of a snapshot: sums, weighted means, shares of time, and JSON."""

import json
import math
from dataclasses import replace

import pytest

from engine.metrics import TaskLabels, UserMetrics
from engine.runtime.latency_snapshot import LatencySnapshot
from engine.runtime.snapshot import ComponentSnapshot, Snapshot, TaskSnapshot, capacity, rate, task_capacities, weighted_mean
from tests.cli.snapshots import entries, flow, snapshot


def test_a_component_is_the_sum_of_its_tasks() -> None:
    count = snapshot().components["count"]
    assert (count.executed, count.acked, count.failed, count.waiting, count.errors) == (1_200_000, 1_000_000, 0, 70, 1)
    assert count.pending is None
    assert count.status == "waiting 1, running 1"
    assert count.queue_fill == 0.6  # of the fullest, not of all


def test_a_busy_task_weighs_more_in_the_mean() -> None:
    tasks = (TaskSnapshot(1, 0, executed=300, execute_ms=1.0), TaskSnapshot(2, 1, executed=100, execute_ms=5.0), TaskSnapshot(3, 2))
    assert ComponentSnapshot("count", "bolt", tasks).execute_ms == 2.0
    assert weighted_mean([(None, 3), (1.0, 0)]) is None


def test_capacity_is_the_busy_share_of_the_busiest_task_between_snapshots() -> None:
    before, after = snapshot(10.0), snapshot(20.0, times=2)
    assert capacity(before, after, "count") == pytest.approx(0.96)
    assert capacity(None, before, "count") == pytest.approx(0.96)
    assert capacity(before, before, "count") is None


def test_capacity_is_a_share_of_the_calls_that_may_run_at_once() -> None:
    tasks = (TaskSnapshot(1, 0, busy_secs=30.0, slots=8), TaskSnapshot(2, 1, busy_secs=60.0, slots=8))
    now = Snapshot("calls", "running", 10.0, {"calls": ComponentSnapshot("calls", "bolt", tasks)})
    assert capacity(None, now, "calls") == pytest.approx(0.75)
    assert task_capacities(None, now, "calls") == pytest.approx([0.375, 0.75])
    assert now.components["calls"].slots == 16


def test_rates_are_per_second_between_snapshots() -> None:
    before, after = snapshot(10.0), snapshot(12.0, times=3)
    assert rate(before, after, lambda now: now.components["lines"].emitted) == 1_200_000
    assert rate(before, before, lambda now: 7) is None


def test_a_snapshot_is_json_whatever_its_numbers() -> None:
    metrics = UserMetrics()
    metrics.gauge("level", TaskLabels("count", 2), {}).set(math.inf)
    metrics.histogram("size", TaskLabels("count", 2), {"of": "word"}).record(3)
    shown = snapshot()
    read = Snapshot(shown.topology_name, shown.state, shown.uptime_secs, shown.components, shown.errors, metrics.read())

    found = json.loads(json.dumps(read.to_dict(), allow_nan=False))

    assert found["components"]["count"]["executed"] == 1_200_000
    assert found["components"]["count"]["tasks"][1]["waiting"] == 60
    assert found["components"]["lines"]["complete_p99_ms"] == 38.12
    assert (found["components"]["count"]["loop_secs"], found["components"]["count"]["slots"]) == (0.9, 2)
    assert found["components"]["lines"]["tasks"][0]["complete_latency"] is None
    assert found["errors"][0]["time"] == "2023-11-14T22:13:20.500+00:00"
    assert found["errors"][0]["next_step"].startswith("the task is replaced")
    assert [metric.get("value", metric.get("p50")) for metric in found["user_metrics"]] == ["inf", 3.0]
    assert [(metric["component"], metric["task"], metric["labels"]) for metric in found["user_metrics"]] == [
        ("count", 2, {}),
        ("count", 2, {"of": "word"}),
    ]


def test_edges_latencies_and_the_time_of_the_loop_are_json_too() -> None:
    latency = LatencySnapshot(2, 0.5, (0,) * 27 + (2,))
    lines = ComponentSnapshot("lines", "spout", (TaskSnapshot(1, 0, complete_latency=latency),))
    found = json.loads(json.dumps(replace(snapshot(), components={"lines": lines}).to_dict(), allow_nan=False))
    assert found["edges"] == [{"source": "lines", "target": "count", "stream": "default", "tuples": 1_200_000}]
    assert found["loop_cpu_secs"] == 3.5
    assert found["components"]["lines"]["tasks"][0]["complete_latency"] == {"count": 2, "total_secs": 0.5, "below": [0] * 27 + [2]}


def test_the_latencies_of_a_component_are_those_of_its_tasks_together() -> None:
    first, second = LatencySnapshot(1, 0.1, (0,) * 20 + (1,) * 8), LatencySnapshot(2, 0.5, (2,) * 28)
    tasks = (TaskSnapshot(1, 0, complete_latency=first), TaskSnapshot(2, 1, complete_latency=second), TaskSnapshot(3, 2))
    both = ComponentSnapshot("lines", "spout", tasks).complete_latency
    assert both == LatencySnapshot(3, 0.6, (2,) * 20 + (3,) * 8)
    assert both.since(first) == LatencySnapshot(2, 0.5, (2,) * 28)
    assert (both.mean_secs, LatencySnapshot().mean_secs) == (pytest.approx(0.2), None)
    assert ComponentSnapshot("lines", "spout", tasks).process_latency is None


@pytest.mark.guarantee("FC-7")
def test_a_snapshot_has_flow_control_as_json() -> None:
    shown = flow(3)
    endless = replace(shown, tasks=(replace(shown.tasks[2], service_p99_ms=math.inf),), holds="nothing is acked")

    found = json.loads(json.dumps(replace(snapshot(), entries=entries(shown, endless)).to_dict(), allow_nan=False))["flow"]

    assert snapshot().to_dict()["flow"] == []
    assert [(task["task_id"], task["state"], task["window"], task["service_ms"]) for task in found[0]["tasks"]] == [
        (10, "BUSY", 1, None),
        (11, "SLOW", 2, 0.5),
        (12, "SLOW", 2, 0.75),
    ]
    assert (found[0]["position"], found[0]["records_since_checkpoint"], found[0]["holds"]) == ("'part-7.log:1234'", 120, None)
    assert (found[1]["tasks"][0]["service_p99_ms"], found[1]["holds"]) == ("inf", "nothing is acked")
