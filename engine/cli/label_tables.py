"""The users' metrics that have labels, as tables: what a component measures of each partition, queue or peer."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from engine.cli.figures import amount_text, count_text, known_sum, name_text
from engine.cluster.snapshot import Snapshot
from engine.metrics import Distribution, UserMetric

LEAST_ROWS: Final = 3
MOST_ROWS: Final = 12
"""More are added up in the last one, in a low terminal fewer than these already."""
FRAME_LINES: Final = 5
"""What a table takes beside its rows: a blank line, the title, two lines of headers, the rule."""
MOST_LABEL_CHARACTERS: Final = 40

_Values: TypeAlias = Mapping[str, Sequence[Any]]
"""By the name of the metric, what the tasks have of it under the same labels."""


class LabelTable(NamedTuple):
    """The metrics of one component that have the same label names: a row for each combination of labels."""

    title: str
    """The component."""
    headers: tuple[str, ...]
    labels: int
    """So many columns are labels; they come first, the others are figures."""
    rows: list[tuple[str, ...]]


class _Column(NamedTuple):
    header: str
    metric_name: str
    figure: Callable[[Sequence[Any]], float | None]


def label_tables(now: Snapshot, *, compact: bool = False, lines: int | None = None) -> list[LabelTable]:
    """Return the tables of all components, in their order; what several tasks have under the same labels is added up.

    `lines` are what there is room for, for all of them; None: there is enough.
    """
    groups: defaultdict[tuple[str, frozenset[str]], list[UserMetric]] = defaultdict(list)
    for metric in now.user_metrics:
        if metric.own_labels:
            groups[metric.labels.component_id, frozenset(metric.own_labels)].append(metric)
    fitting = MOST_ROWS if lines is None or not groups else lines // len(groups) - FRAME_LINES
    most_rows = min(max(fitting, LEAST_ROWS), MOST_ROWS)
    return [
        _table(component_id, metrics, most_rows, compact=compact)
        for shown in now.components
        for (component_id, _), metrics in groups.items()
        if component_id == shown
    ]


def _table(component_id: str, metrics: list[UserMetric], most_rows: int, *, compact: bool) -> LabelTable:
    label_names = tuple(metrics[0].own_labels)
    columns = _columns({metric.name: metric for metric in metrics}.values())
    by_labels: defaultdict[tuple[str, ...], defaultdict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for metric in metrics:
        by_labels[tuple(metric.own_labels[name] for name in label_names)][metric.name].append(metric.value)
    found = sorted(by_labels.items(), key=lambda row: [_natural(label) for label in row[0]])
    shown = found if len(found) <= most_rows else found[: most_rows - 1]
    rows = [(*map(_label_text, labels), *_figures(columns, values, compact=compact)) for labels, values in shown]
    rest = [values for _, values in found[len(shown) :]]
    if rest:
        together = {column.metric_name: [value for values in rest for value in values.get(column.metric_name, ())] for column in columns}
        blank = [""] * (len(label_names) - 1)
        rows.append((f"and {count_text(len(rest))} more", *blank, *_figures(columns, together, compact=compact)))
    return LabelTable(component_id, (*label_names, *(column.header for column in columns)), len(label_names), rows)


def _columns(metrics: Iterable[UserMetric]) -> list[_Column]:
    """Return one column for each counter and gauge, and two for a histogram: what can be told of several together."""
    found = list(metrics)
    columns = []
    for metric, header in zip(found, _short([metric.name for metric in found]), strict=True):
        if metric.kind == "histogram":
            columns += [_Column(f"{header} mean", metric.name, _mean), _Column(f"{header} max", metric.name, _maximum)]
        else:
            columns.append(_Column(header, metric.name, known_sum))
    return columns


def _short(names: Sequence[str]) -> list[str]:
    """Return the names in words, without those that all of them begin with: `lag`, `dead letters`."""
    words = [name.split("_") for name in names]
    shared = 0
    while len(words) > 1 and all(len(each) > shared + 1 and each[shared] == words[0][shared] for each in words):
        shared += 1
    return [" ".join(each[shared:]).strip() or name for each, name in zip(words, names, strict=True)]


def _figures(columns: Sequence[_Column], values: _Values, *, compact: bool) -> list[str]:
    return [amount_text(column.figure(values.get(column.metric_name, ())), compact=compact) for column in columns]


def _mean(distributions: Sequence[Distribution]) -> float | None:
    count = sum(each.count for each in distributions)
    return sum(each.total for each in distributions) / count if count else None


def _maximum(distributions: Sequence[Distribution]) -> float | None:
    return max((each.maximum for each in distributions if each.maximum is not None), default=None)


def _natural(label: str) -> list[str | int]:
    """Return what sorts 2 before 10; texts and numbers alternate, so that any two can be compared."""
    return [int(part) if number % 2 else part for number, part in enumerate(re.split("([0-9]{1,18})", label))]


def _label_text(label: str) -> str:
    text = name_text(label)
    return text if len(text) <= MOST_LABEL_CHARACTERS else f"{text[: MOST_LABEL_CHARACTERS - 1]}…"
