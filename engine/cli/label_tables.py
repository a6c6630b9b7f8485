"""Tables of the user's metrics with labels: one for each component and each set of label names."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from engine.cli.console.formatting import amount_text, count_text
from engine.cli.snapshot_text import FRAME_LINES, LEAST_ROWS, MOST_ROWS, TextTable, known_sum, label_text
from engine.metrics import Distribution, UserMetric
from engine.runtime.snapshot import Snapshot


class _Column(NamedTuple):
    header: str
    metric_name: str
    combine: Callable[[Sequence[Any]], float | None]
    """Combines the values of several tasks to one number."""


_Values: TypeAlias = Mapping[str, Sequence[Any]]
"""Values of the tasks under the same labels, by metric name."""


def label_tables(now: Snapshot, *, compact: bool = False, lines: int | None = None) -> list[TextTable]:
    """Return a table for each component and each set of label names. Values of several tasks under the same labels are summed up.

    lines: space for all tables together, None for unlimited space.
    """
    groups: defaultdict[tuple[str, frozenset[str]], list[UserMetric]] = defaultdict(list)
    for metric in now.user_metrics:
        if metric.own_labels:
            groups[metric.labels.component_id, frozenset(metric.own_labels)].append(metric)
    fitting = MOST_ROWS if lines is None or not groups else lines // len(groups) - FRAME_LINES
    most_rows = min(max(fitting, LEAST_ROWS), MOST_ROWS)
    return [
        _label_table(component_id, metrics, most_rows, compact=compact)
        for shown in now.components
        for (component_id, _), metrics in groups.items()
        if component_id == shown
    ]


def _label_table(component_id: str, metrics: list[UserMetric], most_rows: int, *, compact: bool) -> TextTable:
    label_names = tuple(metrics[0].own_labels)
    columns = _columns({metric.name: metric for metric in metrics}.values())
    by_labels: defaultdict[tuple[str, ...], defaultdict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for metric in metrics:
        by_labels[tuple(metric.own_labels[name] for name in label_names)][metric.name].append(metric.value)
    found = sorted(by_labels.items(), key=lambda row: [_sort_key(label) for label in row[0]])
    shown = found if len(found) <= most_rows else found[: most_rows - 1]
    rows = [(*map(label_text, labels), *_cells(columns, values, compact=compact)) for labels, values in shown]
    rest = [values for _, values in found[len(shown) :]]
    if rest:
        together = {column.metric_name: [value for values in rest for value in values.get(column.metric_name, ())] for column in columns}
        blank = [""] * (len(label_names) - 1)
        rows.append((f"and {count_text(len(rest))} more", *blank, *_cells(columns, together, compact=compact)))
    return TextTable(component_id, (*label_names, *(column.header for column in columns)), len(label_names), rows)


def _columns(metrics: Iterable[UserMetric]) -> list[_Column]:
    """Return one column for each counter and gauge, and two columns (mean, maximum) for each histogram."""
    found = list(metrics)
    columns = []
    for metric, header in zip(found, _short_headers([metric.name for metric in found]), strict=True):
        if metric.kind == "histogram":
            columns += [_Column(f"{header} mean", metric.name, _mean), _Column(f"{header} max", metric.name, _maximum)]
        else:
            columns.append(_Column(header, metric.name, known_sum))
    return columns


def _short_headers(names: Sequence[str]) -> list[str]:
    """Return the names as words, without their common prefix: `lag`, `dead letters`."""
    words = [name.split("_") for name in names]
    shared = 0
    while len(words) > 1 and all(len(each) > shared + 1 and each[shared] == words[0][shared] for each in words):
        shared += 1
    return [" ".join(each[shared:]).strip() or name for each, name in zip(words, names, strict=True)]


def _cells(columns: Sequence[_Column], values: _Values, *, compact: bool) -> list[str]:
    return [amount_text(column.combine(values.get(column.metric_name, ())), compact=compact) for column in columns]


def _mean(distributions: Sequence[Distribution]) -> float | None:
    count = sum(each.count for each in distributions)
    return sum(each.total for each in distributions) / count if count else None


def _maximum(distributions: Sequence[Distribution]) -> float | None:
    return max((each.maximum for each in distributions if each.maximum is not None), default=None)


def _sort_key(label: str) -> list[str | int]:
    """Return a key that sorts 2 before 10. Texts and numbers alternate, so that any two keys can be compared."""
    return [int(part) if number % 2 else part for number, part in enumerate(re.split("([0-9]{1,18})", label))]
