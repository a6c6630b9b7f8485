"""Tables of user metrics with labels: their rows and columns."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.label_tables import label_tables
from engine.cli.snapshot_text import TextTable
from engine.metrics import TaskLabels, UserMetrics
from engine.runtime.snapshot import Snapshot
from tests.cli.snapshots import snapshot

LINES, COUNT_0, COUNT_1 = TaskLabels("lines", 1), TaskLabels("count", 2), TaskLabels("count", 3)


def snapshot_of(metrics: UserMetrics) -> Snapshot:
    return replace(snapshot(), user_metrics=metrics.read())


def only(metrics: UserMetrics) -> TextTable:
    (table,) = label_tables(snapshot_of(metrics))
    return table


def partition(number: object, topic: str = "words") -> dict[str, str]:
    return {"topic": topic, "partition": str(number)}


def test_metrics_of_a_component_with_the_same_labels_make_one_table() -> None:
    metrics = UserMetrics()
    for number in (10, 2):
        metrics.gauge("kafka_lag", LINES, partition(number)).set(1000 * number)
        metrics.gauge("kafka_committed", LINES, partition(number)).set(math.nan)
    metrics.counter("kafka_dead_letters", LINES, {"partition": "2", "topic": "words"}).add(3)
    assert only(metrics) == TextTable(
        "lines",
        ("topic", "partition", "lag", "committed", "dead letters"),
        2,
        [("words", "2", "2,000", "–", "3"), ("words", "10", "10,000", "–", "–")],
    )


def test_each_component_and_each_set_of_labels_has_its_own_table() -> None:
    metrics = UserMetrics()
    metrics.gauge("depth", COUNT_0, {"queue": "a"})
    metrics.gauge("lag", COUNT_0, partition(1))
    metrics.gauge("lag", LINES, partition(1))
    metrics.gauge("plain", LINES, {})
    assert [(table.title, table.headers) for table in label_tables(snapshot_of(metrics))] == [
        ("lines", ("topic", "partition", "lag")),
        ("count", ("queue", "depth")),
        ("count", ("topic", "partition", "lag")),
    ]


def test_a_common_prefix_is_removed_from_the_names() -> None:
    def headers(*names: str) -> tuple[str, ...]:
        metrics = UserMetrics()
        for name in names:
            metrics.gauge(name, LINES, {"queue": "a"})
        return only(metrics).headers[1:]

    assert headers("kafka_lag") == ("kafka lag",)
    assert headers("kafka_lag", "kafka_lag_secs") == ("lag", "lag secs")
    assert headers("kafka_in_lag", "kafka_in_bytes") == ("lag", "bytes")
    assert headers("kafka_lag", "kafkas_bytes", "_") == ("kafka lag", "kafkas bytes", "_")


def test_values_of_tasks_with_the_same_labels_are_added_up() -> None:
    metrics = UserMetrics()
    for task, amount in ((COUNT_0, 1.5), (COUNT_1, 2.0)):
        metrics.counter("seen", task, {"kind": "a"}).add(amount)
        for _ in range(task.task_id - 1):
            metrics.histogram("wait", task, {"kind": "a"}).record(amount)
    assert only(metrics).headers == ("kind", "seen", "wait mean", "wait max")
    assert only(metrics).rows == [("a", "3.50", "1.83", "2")]


def test_a_histogram_without_values_shows_none() -> None:
    metrics = UserMetrics()
    metrics.histogram("wait", COUNT_0, {"kind": "a"})
    assert only(metrics).rows == [("a", "–", "–")]


def test_rows_beyond_the_twelfth_are_summed_in_the_last_row() -> None:
    metrics = UserMetrics()
    for number in range(12):
        metrics.gauge("lag", LINES, partition(number)).set(number)
    assert [row[1] for row in only(metrics).rows] == [str(number) for number in range(12)]

    for number in range(12, 1300):
        metrics.gauge("lag", LINES, partition(number)).set(1)
    rows = only(metrics).rows
    assert [row[1] for row in rows[:-1]] == [str(number) for number in range(11)]
    assert rows[-1] == ("and 1,289 more", "", "1,299")


@pytest.mark.parametrize(("lines", "rows"), [(-7, 3), (18, 4), (30, 10), (1000, 12)])
def test_a_low_terminal_has_fewer_rows_of_each_table(lines: int, rows: int) -> None:
    metrics = UserMetrics()
    for number in range(20):
        metrics.gauge("lag", LINES, partition(number)).set(1)
        metrics.gauge("depth", COUNT_0, {"queue": str(number)}).set(1)
    tables = label_tables(snapshot_of(metrics), lines=lines)
    assert [len(table.rows) for table in tables] == [rows, rows]
    assert {table.rows[-1][0] for table in tables} == {f"and {20 - rows + 1} more"}
    assert not label_tables(snapshot(), lines=lines)


def test_large_figures_are_abbreviated_in_little_room() -> None:
    metrics = UserMetrics()
    metrics.gauge("lag", LINES, {"topic": "words"}).set(12_345_678)
    (table,) = label_tables(snapshot_of(metrics), compact=True)
    assert table.rows == [("words", "12.3 M")]


def test_control_characters_in_labels_are_escaped_and_long_labels_cut() -> None:
    metrics = UserMetrics()
    metrics.gauge("lag", LINES, {"topic": "\x1b[2J"})
    metrics.gauge("lag", LINES, {"topic": "w" * 249})
    assert [row[0] for row in only(metrics).rows] == ["'\\x1b[2J'", "w" * 39 + "…"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.integers(0, 10**40).map(str), max_size=12, unique=True))
def test_labels_are_sorted_and_numbers_numerically(values: list[str]) -> None:
    metrics = UserMetrics()
    for value in values:
        metrics.gauge("lag", LINES, {"topic": value}).set(len(value))
    tables = label_tables(snapshot_of(metrics))
    assert sum(len(table.rows) for table in tables) == len(values)
    numbers = [int(row[0]) for table in tables for row in table.rows if row[0].isascii() and row[0].isdigit() and len(row[0]) <= 18]
    assert numbers == sorted(numbers)
