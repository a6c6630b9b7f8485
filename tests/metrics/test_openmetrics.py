"""The text of metrics is valid OpenMetrics. An independent parser reads back the same values."""

import math
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from engine.checkpoint import CheckpointSnapshot
from engine.metrics import Family, Sample, TaskLabels, UserMetrics, render
from engine.metrics.openmetrics import number_text
from engine.runtime.latency_snapshot import LatencySnapshot
from engine.runtime.metric_families import families
from engine.runtime.snapshot import ComponentSnapshot, EdgeSnapshot, Snapshot, TaskSnapshot
from tests.cli.snapshots import entries, flow


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def snapshot(metrics: UserMetrics | None = None) -> Snapshot:
    spout = TaskSnapshot(
        1, 0, emitted=10, transferred=20, acked=9, failed=1, pending=3, max_pending=8, busy_secs=2, loop_secs=1.5,
        complete_latency=LatencySnapshot(3, 0.25, (0,) * 10 + (1,) * 8 + (3,) * 10),
    )  # fmt: skip
    bolt = TaskSnapshot(
        2, 0, executed=20, acked=20, waiting=5, mailbox_capacity=100, execute_ms=0.5, restarts=1, slots=4, process_latency=LatencySnapshot()
    )
    components = {
        "lines": ComponentSnapshot("lines", "spout", (spout,)),
        "count": ComponentSnapshot("count", "bolt", (bolt,)),
        "__acker": ComponentSnapshot("__acker", "acker", (TaskSnapshot(3, 0),)),
    }
    edges = (EdgeSnapshot("lines", "count", "default", 20),)
    read = metrics.read() if metrics else ()
    return Snapshot("words", "running", 4.0, components, user_metrics=read, edges=edges, loop_cpu_secs=1.75)


def test_labels_and_help_are_escaped() -> None:
    name = 'a "quoted"\\\nname'
    text = render([Family("lag", "gauge", name, (Sample({"topology": name}, 1.0),))])
    (family,) = text_string_to_metric_families(text)
    assert family.documentation == name
    assert family.samples[0].labels == {"topology": name}


def test_numbers_have_the_form_of_openmetrics() -> None:
    assert [number_text(value) for value in (7, 7.0, 0.1, 1e300, math.inf, -math.inf, math.nan)] == [
        *("7", "7", "0.1", "1e+300", "+Inf", "-Inf", "NaN")
    ]


def test_a_whole_number_beyond_every_float_is_infinite() -> None:
    assert [number_text(10**400), number_text(-(10**400))] == ["+Inf", "-Inf"]


def test_without_metrics_the_text_is_valid() -> None:
    assert render([Family("lag", "gauge", "none", ())]) == "# EOF\n"


def test_a_snapshot_is_readable_text() -> None:
    found = parsed(render(families(snapshot())))
    lines = (("topology", "words"), ("component", "lines"), ("task", "1"))
    count = (("topology", "words"), ("component", "count"), ("task", "2"))
    assert found["stormcell_emitted_tuples_total", lines] == 10
    assert found["stormcell_pending_trees", lines] == 3
    assert found["stormcell_max_pending_trees", lines] == 8
    assert found["stormcell_busy_seconds_total", lines] == 2
    assert found["stormcell_loop_seconds_total", lines] == 1.5
    assert found["stormcell_task_slots", count] == 4
    run = ("topology", "words")
    assert found["stormcell_edge_tuples_total", (run, ("source", "lines"), ("target", "count"), ("stream", "default"))] == 20
    assert found["stormcell_loop_cpu_seconds_total", (run,)] == 1.75
    assert found["stormcell_execute_seconds", count] == 0.0005
    assert found["stormcell_task_restarts_total", count] == 1
    assert ("stormcell_pending_trees", count) not in found
    assert ("stormcell_max_pending_trees", count) not in found
    assert found["stormcell_run_state", (("topology", "words"), ("stormcell_run_state", "running"))] == 1
    assert found["stormcell_uptime_seconds", (("topology", "words"),)] == 4


def test_without_the_cpu_time_of_the_loop_its_metric_is_left_out() -> None:
    found = parsed(render(families(replace(snapshot(), loop_cpu_secs=None))))
    assert not [name for name, _ in found if "loop_cpu" in name]


def test_latencies_are_histograms_with_the_same_edges_for_each_task() -> None:
    found = parsed(render(families(snapshot())))
    lines = (("topology", "words"), ("component", "lines"), ("task", "1"))
    count = (("topology", "words"), ("component", "count"), ("task", "2"))
    complete = {dict(labels)["le"]: value for (name, labels), value in found.items() if name == "stormcell_complete_latency_seconds_bucket"}
    assert [float(edge) for edge in complete] == pytest.approx([*(2**doubling * 1e-6 for doubling in range(28)), math.inf])
    assert list(complete.values()) == [*[0] * 10, *[1] * 8, *[3] * 11]
    assert (found["stormcell_complete_latency_seconds_count", lines], found["stormcell_complete_latency_seconds_sum", lines]) == (3, 0.25)
    process = [dict(labels)["le"] for name, labels in found if name == "stormcell_process_latency_seconds_bucket"]
    assert process == list(complete), "before its first input, a task has all buckets too, so that a rate sees the first increase"
    assert found["stormcell_process_latency_seconds_count", count] == 0
    assert ("stormcell_process_latency_seconds_count", lines) not in found
    assert ("stormcell_complete_latency_seconds_count", count) not in found


def test_the_text_has_checkpoint_metrics_of_a_run_with_state() -> None:
    assert not [name for name, _ in parsed(render(families(snapshot()))) if "checkpoint" in name]
    now = CheckpointSnapshot("prepare", 0.25, 7, 12, committed=3, recoveries=1, last_ms=40, last_keys=5, last_bytes=600, trouble="away")
    found = parsed(render(families(replace(snapshot(), entries=entries(checkpoint=now)))))
    run = (("topology", "words"),)
    assert {name: found[f"stormcell_checkpoint_{name}", run] for name in ("txid", "commits_total", "recoveries_total", "store_away")} == {
        "txid": 7,
        "commits_total": 3,
        "recoveries_total": 1,
        "store_away": 1,
    }
    assert (found["stormcell_checkpoint_last_seconds", run], found["stormcell_checkpoint_last_bytes", run]) == (0.04, 600)
    assert found["stormcell_checkpoint_step", (*run, ("stormcell_checkpoint_step", "prepare"))] == 1
    assert found["stormcell_checkpoint_step", (*run, ("stormcell_checkpoint_step", "idle"))] == 0


def test_before_the_first_checkpoint_its_duration_is_left_out() -> None:
    found = parsed(render(families(replace(snapshot(), entries=entries(checkpoint=CheckpointSnapshot("initialise", 0.0, -1, 1))))))
    assert ("stormcell_checkpoint_last_seconds", (("topology", "words"),)) not in found


@pytest.mark.guarantee("FC-7")
def test_the_text_has_flow_control_metrics_by_bolt_task() -> None:
    assert not [name for name, _ in parsed(render(families(snapshot()))) if "flow" in name]
    found = parsed(render(families(replace(snapshot(), entries=entries(flow(), flow(task_id=2))))))
    spout = (("topology", "words"), ("component", "lines"), ("task", "1"))
    busy, slow = (*spout, ("bolt_task", "10")), (*spout, ("bolt_task", "12"))
    per_spout = ("done_records_total", "pending_records", "buffered_records", "records_since_checkpoint", "held")
    assert [found[f"stormcell_flow_{name}", spout] for name in per_spout] == [50_000, 1_500, 300, 120, 0]
    per_task = ("window_packs", "in_flight_packs", "in_flight_records", "pack_records", "settled_packs_total", "resent_packs_total")
    assert [found[f"stormcell_flow_{name}", slow] for name in per_task] == [2, 2, 40, 20, 100, 0]
    assert found["stormcell_flow_service_seconds", slow] == 0.00075
    assert found["stormcell_flow_service_p99_seconds", slow] == 0.0045
    assert ("stormcell_flow_service_seconds", busy) not in found  # nothing was acked yet
    states = {state: found["stormcell_flow_state", (*slow, ("stormcell_flow_state", state))] for state in ("NORMAL", "SLOW", "BUSY")}
    assert states == {"NORMAL": 0, "SLOW": 1, "BUSY": 0}
    assert ("stormcell_flow_window_packs", (("topology", "words"), ("component", "lines"), ("task", "2"), ("bolt_task", "10"))) in found


def test_the_text_has_user_metrics_beside_those_of_the_engine() -> None:
    metrics = UserMetrics()
    metrics.counter("words_seen", TaskLabels("count", 2), {}).add(7)
    metrics.gauge("temperature", TaskLabels("count", 2), {}).set(-math.inf)
    found = parsed(render(families(snapshot(metrics))))
    count = (("topology", "words"), ("component", "count"), ("task", "2"))
    assert found["words_seen_total", count] == 7
    assert found["temperature", count] == -math.inf


def test_histograms_of_several_tasks_have_the_same_buckets() -> None:
    metrics = UserMetrics()
    for value in (0.3, 3.0, 3.0):
        metrics.histogram("line_bytes", TaskLabels("count", 2), {}).record(value)
    metrics.histogram("line_bytes", TaskLabels("count", 4), {}).record(100)
    found = parsed(render(families(snapshot(metrics))))
    buckets = {
        task: [
            (dict(labels)["le"], value)
            for (name, labels), value in found.items()
            if name == "line_bytes_bucket" and ("task", task) in labels
        ]
        for task in ("2", "4")
    }
    assert buckets["2"] == [("0.25", 0), ("0.5", 1), ("2.0", 1), ("4.0", 3), ("64.0", 3), ("128.0", 3), ("+Inf", 3)]
    assert buckets["4"] == [("0.25", 0), ("0.5", 0), ("2.0", 0), ("4.0", 0), ("64.0", 0), ("128.0", 1), ("+Inf", 1)]
    sums = ("line_bytes_count", "line_bytes_sum")
    assert {name: value for (name, labels), value in found.items() if ("task", "2") in labels and name in sums} == {
        "line_bytes_count": 3,
        "line_bytes_sum": 6.3,
    }


def test_labels_of_user_metrics_follow_those_of_the_engine() -> None:
    metrics = UserMetrics()
    topic = 'a "quoted"\\\nname'
    metrics.gauge("lag", TaskLabels("lines", 1), {"topic": topic, "partition": "3"}).set(7)
    metrics.counter("retries", TaskLabels("lines", 1), {"topic": topic, "partition": "3"}).add(2)
    metrics.histogram("waits", TaskLabels("lines", 1), {"partition": "3"}).record(3)
    metrics.histogram("waits", TaskLabels("lines", 1), {"partition": "4"}).record(100)
    found = parsed(render(families(snapshot(metrics))))
    lines = (("topology", "words"), ("component", "lines"), ("task", "1"))
    assert found["lag", (*lines, ("topic", topic), ("partition", "3"))] == 7
    assert found["retries_total", (*lines, ("topic", topic), ("partition", "3"))] == 2
    assert found["waits_bucket", (*lines, ("partition", "3"), ("le", "4.0"))] == 1
    assert found["waits_bucket", (*lines, ("partition", "4"), ("le", "4.0"))] == 0
    assert found["waits_sum", (*lines, ("partition", "4"))] == 100


def test_histograms_below_zero_have_no_sum() -> None:
    metrics = UserMetrics()
    metrics.histogram("balance", TaskLabels("count", 2), {}).record(-5)
    metrics.histogram("balance", TaskLabels("count", 2), {}).record(5)
    names = {name for name, _ in parsed(render(families(snapshot(metrics))))}
    assert "balance_bucket" in names
    assert "balance_sum" not in names


def test_histograms_of_very_large_numbers_are_readable() -> None:
    metrics = UserMetrics()
    for value in (1.7e308, -1.7e308, 5e-324):
        metrics.histogram("extreme", TaskLabels("count", 2), {}).record(value)
    found = parsed(render(families(snapshot(metrics))))
    assert max(value for (name, _), value in found.items() if name == "extreme_bucket") == 3
