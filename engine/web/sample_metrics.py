"""Turns features' entries and user metrics of a snapshot into parts of a sample. Plain computation."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from engine.control import json_number
from engine.metrics import Distribution, UserMetric
from engine.runtime.snapshot import Snapshot, metric_dict

MOST_METRICS: Final = 200
"""User metrics of a sample. `/api/snapshot` and `/metrics` have all."""
_KAFKA: Final = "kafka_"
_PARTITION_LABELS: Final = frozenset({"topic", "partition"})


def entry_fields(now: Snapshot) -> dict[str, Any]:
    """Return the JSON of each feature's entry, by its name."""
    return {entry.name: entry.to_json() for entry in now.entries}


def transactions(before: dict[str, Any], now: dict[str, Any], elapsed_secs: float) -> dict[str, Any] | None:
    """Return the progress of the transactions, None in a topology without them. before, now: results of `entry_fields`."""
    shown = now.get("transactions")
    if shown is None:
        return None
    earlier = before.get("transactions") or {}
    grown = shown["committed"] - earlier.get("committed", 0)
    return {
        "component": shown["component_id"],
        "committed_txid": shown["committed_txid"],
        "committed_rate": round(max(grown, 0) / elapsed_secs, 3) if elapsed_secs > 0 else None,
        "open": sum(map(len, shown["open_txids"].values())),
        "failed": shown["failed"],
        "phases": shown["open_txids"],
    }


def kafka_partitions(metrics: Iterable[UserMetric]) -> list[dict[str, Any]]:
    """Return a row for each partition of each component, with its metrics `kafka_…`. Values of several tasks are summed up."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for metric in metrics:
        labels = metric.own_labels
        if not metric.name.startswith(_KAFKA) or labels.keys() != _PARTITION_LABELS or isinstance(metric.value, Distribution):
            continue
        key = (metric.labels.component_id, labels["topic"], labels["partition"])
        row = rows.setdefault(key, dict(zip(("component", "topic", "partition"), key, strict=True)))
        name = metric.name.removeprefix(_KAFKA)
        if name in ("component", "topic", "partition"):
            continue
        if not math.isnan(metric.value):
            row[name] = (row.get(name) or 0) + metric.value
        else:
            row.setdefault(name, None)
    ordered = sorted(rows, key=lambda key: (key[0], key[1], _number(key[2]), key[2]))
    return [{name: json_number(value) for name, value in rows[key].items()} for key in ordered]


def _number(partition: str) -> int:
    return int(partition) if partition.isascii() and partition.isdigit() and len(partition) < 19 else -1


def metric_rows(metrics: Sequence[UserMetric]) -> list[dict[str, Any]]:
    """Return the first user metrics, in the form of `Snapshot.to_dict`. NaN means unknown, and becomes None."""
    rows = map(metric_dict, metrics[:MOST_METRICS])
    return [{**row, "value": None} if row.get("value") == "nan" else row for row in rows]
