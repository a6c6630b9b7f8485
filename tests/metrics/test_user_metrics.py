"""Metrics of user code: one per name, task and labels, of one kind, with names that can be exported."""

import math
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Any, cast

import pytest

from engine.errors import UsageError
from engine.metrics import TaskLabels, UserMetrics
from engine.metrics.user_metrics import Counter

COUNT_0, COUNT_1 = TaskLabels("count", 4), TaskLabels("count", 5)


def test_the_same_name_and_task_is_the_same_metric() -> None:
    metrics = UserMetrics()
    metrics.counter("words", COUNT_0, {}).add(2)
    metrics.counter("words", COUNT_0, {}).add()
    metrics.counter("words", COUNT_1, {}).add(7)
    assert [(metric.labels.task_id, metric.value) for metric in metrics.read()] == [(4, 3), (5, 7)]


def test_metrics_are_sorted_by_first_use_of_the_name_then_by_task() -> None:
    metrics = UserMetrics()
    metrics.gauge("lag", COUNT_1, {}).set(1.5)
    metrics.counter("all", COUNT_1, {})
    metrics.gauge("lag", COUNT_0, {})
    assert [(metric.name, metric.kind, metric.labels.task_id) for metric in metrics.read()] == [
        ("lag", "gauge", 4),
        ("lag", "gauge", 5),
        ("all", "counter", 5),
    ]


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf, 10**400])
def test_a_counter_only_grows(amount: float) -> None:
    with pytest.raises(UsageError, match="a counter cannot add"):
        UserMetrics().counter("words", COUNT_0, {}).add(amount)


@pytest.mark.parametrize("amounts", [(sys.float_info.max,) * 2, (int(sys.float_info.max),) * 2 + (0.5,)], ids=["floats", "ints"])
def test_a_counter_beyond_the_largest_float_is_infinite_also_in_a_child(amounts: tuple[float, ...]) -> None:
    childs, runs = Counter(), Counter()
    for amount in amounts:
        childs.add(amount)
    runs.merge(childs.take())
    childs.add(1)
    runs.merge(childs.take())
    assert runs.read() == math.inf
    assert childs.read() == 0
    other = Counter()
    for amount in amounts:
        other.merge(amount)
    assert other.read() == math.inf


def test_a_name_has_only_one_kind() -> None:
    metrics = UserMetrics()
    metrics.counter("words", COUNT_0, {})
    with pytest.raises(UsageError, match="'words' is a counter already, so it cannot be a gauge\nFix: Give the gauge another name"):
        metrics.gauge("words", COUNT_1, {})


@pytest.mark.parametrize(
    ("kind", "name", "fix"),
    [
        ("counter", "words.seen", "Write 'words_seen'."),
        ("gauge", "7up", "Write '_7up'."),
        ("histogram", "", "Write 'words_seen'."),
        ("counter", 7, "Write counter('words_seen')."),
        ("gauge", ["lag"], "Write gauge('words_seen')."),
        ("counter", "words_total", "Write 'words'."),
        ("gauge", "stormcell_lag", "Remove the prefix."),
    ],
)
def test_a_name_that_cannot_be_exported_is_refused_with_a_hint(kind: str, name: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        getattr(UserMetrics(), kind)(name, COUNT_0, {})
    assert caught.value.hint == fix


def test_two_names_with_the_same_exported_name_are_refused() -> None:
    metrics = UserMetrics()
    metrics.histogram("word", COUNT_0, {})
    with pytest.raises(UsageError, match="gauge 'word_count' and histogram 'word' would both be exported as 'word_count'"):
        metrics.gauge("word_count", COUNT_0, {})
    metrics.gauge("word_counts", COUNT_0, {})


def labelled(metrics: UserMetrics) -> list[tuple[str, int, dict[str, str], float]]:
    return [(one.name, one.labels.task_id, dict(one.own_labels), one.value) for one in metrics.read()]  # type: ignore[misc]


def test_each_combination_of_labels_is_a_separate_metric() -> None:
    metrics = UserMetrics()
    for partition, lag in (("2", 7), ("10", 8)):
        metrics.gauge("lag", COUNT_0, {"topic": "words", "partition": partition}).set(lag)
    metrics.gauge("lag", COUNT_1, {"partition": "2", "topic": "words"}).set(9)
    assert metrics.gauge("lag", COUNT_0, {"partition": "2", "topic": "words"}).read() == 7
    assert labelled(metrics) == [
        ("lag", 4, {"topic": "words", "partition": "10"}, 8),
        ("lag", 4, {"topic": "words", "partition": "2"}, 7),
        ("lag", 5, {"topic": "words", "partition": "2"}, 9),
    ]


@pytest.mark.parametrize(
    ("labels", "given"),
    [
        ({}, "no labels"),
        ({"topic": "words"}, "the label 'topic'"),
        ({"topic": "words", "partition": "2", "group": "g"}, "the labels 'topic', 'partition', 'group'"),
    ],
)
def test_all_metrics_of_a_name_have_the_same_labels(labels: dict[str, str], given: str) -> None:
    metrics = UserMetrics()
    metrics.gauge("lag", COUNT_0, {"topic": "words", "partition": "2"})
    with pytest.raises(UsageError) as caught:
        metrics.gauge("lag", COUNT_1, labels)
    assert caught.value.message == f"gauge 'lag' has the labels 'topic', 'partition', but was called with {given}"
    assert caught.value.hint


def test_a_metric_without_labels_cannot_get_labels_later() -> None:
    metrics = UserMetrics()
    metrics.counter("words", COUNT_0, {})
    with pytest.raises(UsageError, match="counter 'words' has no labels, but was called with the label 'topic'"):
        metrics.counter("words", COUNT_0, {"topic": "words"})


@pytest.mark.parametrize(
    ("label", "value", "fix"),
    [
        ("partition.id", "2", "Write 'partition_id'."),
        ("2nd", "2", "Write '_2nd'."),
        ("é", "2", "Write 'queue'."),
        ("__name", "2", "Remove the prefix."),
        ("task", "2", "Give the label another name, such as 'the_task'."),
        ("le", "2", "Give the label another name, such as 'the_le'."),
        ("partition", 2, "Write partition='2'."),
        ("partition", None, "Pass a string."),
        ("partition", ["2"], "Pass a string."),
        ("partition", "\udc80", "Replace the lone surrogate."),
    ],
)
def test_a_label_that_cannot_be_exported_is_refused_and_creates_no_metric(label: str, value: str, fix: str) -> None:
    metrics = UserMetrics()
    with pytest.raises(UsageError, match="gauge 'lag': ") as caught:
        metrics.gauge("lag", COUNT_0, {label: value})
    assert caught.value.hint == fix
    metrics.counter("lag", COUNT_0, {"partition": "2"})
    with pytest.raises(UsageError, match="counter 'lag'"):
        metrics.counter("lag", COUNT_0, {label: value})
    assert labelled(metrics) == [("lag", 4, {"partition": "2"}, 0)]


def kept_lags() -> UserMetrics:
    metrics = UserMetrics()
    for task in (COUNT_0, COUNT_1):
        for topic, partition in (("lines", "1"), ("lines", "2"), ("words", "1")):
            metrics.gauge("lag", task, {"topic": topic, "partition": partition})
    return metrics


def test_dropping_a_metric_keeps_that_of_another_task() -> None:
    metrics = kept_lags()
    metrics.drop_metric("lag", COUNT_0, {"partition": "1", "topic": "lines"})
    assert [(task, *labels.values()) for _, task, labels, _ in labelled(metrics)] == [
        *((4, "lines", "2"), (4, "words", "1"), (5, "lines", "1"), (5, "lines", "2"), (5, "words", "1"))
    ]


def test_dropping_with_some_labels_drops_all_matches_and_without_labels_all_of_the_task() -> None:
    metrics = kept_lags()
    metrics.drop_metric("lag", COUNT_0, {"topic": "lines"})
    metrics.drop_metric("lag", COUNT_1, {})
    assert [(task, *labels.values()) for _, task, labels, _ in labelled(metrics)] == [(4, "words", "1")]


def test_a_metric_without_labels_is_dropped_too() -> None:
    metrics = UserMetrics()
    metrics.counter("words", COUNT_0, {})
    metrics.drop_metric("words", COUNT_0, {})
    assert not metrics.read()


def test_dropping_an_unknown_metric_does_nothing() -> None:
    metrics = kept_lags()
    metrics.drop_metric("lag", COUNT_0, {"topic": "lines", "partition": "7"})
    metrics.drop_metric("never_used", COUNT_0, {"topic": "lines"})
    assert len(metrics.read()) == 6


def test_after_a_drop_the_next_call_starts_at_zero_and_the_old_object_has_no_effect() -> None:
    metrics = UserMetrics()
    old = metrics.counter("retries", COUNT_0, {"partition": "1"})
    old.add(5)
    metrics.drop_metric("retries", COUNT_0, {"partition": "1"})
    metrics.counter("retries", COUNT_0, {"partition": "1"}).add(2)
    old.add(5)
    assert labelled(metrics) == [("retries", 4, {"partition": "1"}, 2)]
    with pytest.raises(UsageError, match="'retries' is a counter already"):
        metrics.gauge("retries", COUNT_0, {"partition": "1"})


@pytest.mark.parametrize(
    ("name", "labels", "why"),
    [
        ("lag", {"partitoin": "1"}, "gauge 'lag' has the labels 'topic', 'partition', but was called with the label 'partitoin'"),
        ("lag", {"partition": 1}, "gauge 'lag': the label 'partition' must be a string, not 1"),
        (["lag"], {}, "drop_metric() needs the name of a metric, not ['lag']"),
    ],
)
def test_a_drop_that_can_never_match_is_refused(name: str, labels: dict[str, str], why: str) -> None:
    metrics = kept_lags()
    with pytest.raises(UsageError) as caught:
        metrics.drop_metric(name, COUNT_0, labels)
    assert caught.value.message == why
    assert caught.value.hint
    assert len(metrics.read()) == 6


def test_names_and_labels_of_a_class_of_text_become_plain_texts() -> None:
    class Shop(StrEnum):
        NAME = "orders"
        LABEL = "shop"
        NORTH = "north"

    metrics = UserMetrics()
    metrics.counter(Shop.NAME, COUNT_0, {Shop.LABEL: Shop.NORTH}).add(2)
    assert metrics.counter("orders", COUNT_0, {"shop": "north"}).value == 2
    [metric] = metrics.read()
    [change] = metrics.take_changes()
    for name, labels in ((metric.name, metric.own_labels), (change.name, change.labels)):
        assert [type(each) for each in (name, *labels, *labels.values())] == [str] * 3


@pytest.mark.guarantee("RUN-6")
@pytest.mark.parametrize("use", ["add", "set", "record", "name", "label"])
def test_a_wrong_value_whose_repr_raises_is_refused_like_any_other(use: str) -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("hostile")

    metrics, wrong = UserMetrics(), cast(Any, Hostile())
    uses: dict[str, Callable[[], object]] = {
        "add": lambda: metrics.counter("words", COUNT_0, {}).add(wrong),
        "set": lambda: metrics.gauge("lag", COUNT_0, {}).set(wrong),
        "record": lambda: metrics.histogram("secs", COUNT_0, {}).record(wrong),
        "name": lambda: metrics.counter(wrong, COUNT_0, {}),
        "label": lambda: metrics.counter("words", COUNT_0, {"queue": wrong}),
    }
    with pytest.raises(UsageError, match="cannot be shown"):
        uses[use]()
