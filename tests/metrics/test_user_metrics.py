"""Users' metrics: one per name and task, of one kind, under names that can be exported."""

import math

import pytest

from engine.errors import UsageError
from engine.metrics import TaskLabels, UserMetrics

COUNT_0, COUNT_1 = TaskLabels("count", 4), TaskLabels("count", 5)


def test_the_same_name_and_task_is_the_same_metric() -> None:
    metrics = UserMetrics()
    metrics.counter("words", COUNT_0).add(2)
    metrics.counter("words", COUNT_0).add()
    metrics.counter("words", COUNT_1).add(7)
    assert [(metric.labels.task_id, metric.value) for metric in metrics.read()] == [(4, 3), (5, 7)]


def test_metrics_are_read_by_name_then_by_task() -> None:
    metrics = UserMetrics()
    metrics.gauge("lag", COUNT_1).set(1.5)
    metrics.counter("all", COUNT_1)
    metrics.gauge("lag", COUNT_0)
    assert [(metric.name, metric.kind, metric.labels.task_id) for metric in metrics.read()] == [
        ("all", "counter", 5),
        ("lag", "gauge", 4),
        ("lag", "gauge", 5),
    ]


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf, 10**400])
def test_a_counter_only_grows(amount: float) -> None:
    with pytest.raises(UsageError, match="cannot count"):
        UserMetrics().counter("words", COUNT_0).add(amount)


def test_one_name_has_one_kind() -> None:
    metrics = UserMetrics()
    metrics.counter("words", COUNT_0)
    with pytest.raises(UsageError, match="'words' is a counter already, and cannot be a gauge too\nFix: Give the gauge another name"):
        metrics.gauge("words", COUNT_1)


@pytest.mark.parametrize(
    ("kind", "name", "fix"),
    [
        ("counter", "words.seen", "Write 'words_seen'."),
        ("gauge", "7up", "Write '_7up'."),
        ("histogram", "", "Write 'words_seen'."),
        ("counter", 7, "Write counter('words_seen')."),
        ("counter", "words_total", "Write 'words'."),
        ("gauge", "stormcell_lag", "Leave the prefix out."),
    ],
)
def test_a_name_that_cannot_be_exported_is_refused_with_the_fix(kind: str, name: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        getattr(UserMetrics(), kind)(name, COUNT_0)
    assert caught.value.hint == fix


def test_two_names_that_would_be_exported_as_one_are_refused() -> None:
    metrics = UserMetrics()
    metrics.histogram("word", COUNT_0)
    with pytest.raises(UsageError, match="gauge 'word_count' and histogram 'word' would both be exported as 'word_count'"):
        metrics.gauge("word_count", COUNT_0)
    metrics.gauge("word_counts", COUNT_0)
