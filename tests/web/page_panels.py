"""Made-up figures of the panels of features, for the scenes of the page."""

import math
from collections.abc import Sequence
from typing import Any, Final

Json = dict[str, Any]
START: Final = 1_750_000_000.0


def checkpoint(second: int) -> Json:
    """Return the entry `checkpoint`."""
    return {
        "step": "idle",
        "step_secs": second % 5 + 0.4,
        "txid": 120 + second // 5,
        "round": second // 5,
        "committed": 121,
        "recoveries": 0,
        "last_ms": 38.5,
        "last_keys": 5210,
        "last_bytes": 1_840_000,
        "last_alignment_ms": 2.4,
        "trouble": None,
        "waits_for": [],
        "since_commit_secs": second % 5 + 0.4,
        "held": None,
        "cause": None,
        "guarantees": None,
    }


def event_time(ids: Sequence[str], second: int, holder: str) -> list[Json]:
    """Return the entry `event_time`: the watermark of the first component rises, and those of the others stand."""
    at = START - 41 - second % 2
    rises = {"watermark": round((START + second) * 1e6), "lag_secs": 1.2, "stood_secs": 0.4, "time": "15:06:39", "is_idle": False}
    stands = rises | {"watermark": round(at * 1e6), "lag_secs": 41.0 + second, "stood_secs": 41.0 + second, "time": "15:05:58"}
    windows = {"tasks": [{"task_id": task, "open_windows": 1200 + task, "late_rows": second} for task in range(2)]}
    common = {"has_ended": False, "holder": holder, "tasks": []}
    shown = [{"component_id": each, **(stands if index else rises), **common} for index, each in enumerate(ids)]
    return [row | windows if index == 1 else row for index, row in enumerate(shown)]


def guarantees(sources: Sequence[str], stateful: str, mail: str) -> Json:
    """Return who is exact: the first source, but not the others."""
    told = [("exactly once", "it has seek() and position()"), *[("at least once", "it has no seek() and position()")] * len(sources)]
    rows = [{"component_id": each, "guarantee": how, "why": why} for each, (how, why) in zip(sources, told, strict=False)]
    return {"sources": rows, "parts": {stateful: "stateful", mail: "stateless"}, "may_repeat": [mail]}


def jobs(second: int) -> Json:
    """Return the entry `jobs`: one that runs, one that failed, and some that are done."""
    states = ("running", "done", "failed", "done", "replaced", "done")
    return {
        "running": [320],
        "done": 300 + second,
        "failed": 1,
        "replaced": 2,
        "ended_secs": 0.6 * second,
        "last_secs": 0.62,
        "slowest_partition_secs": 0.41,
        "shuffled_blocks": 40 * second,
        "shuffled_rows": 120_000 * second,
        "shuffled_bytes": 3_400_000 * second,
        "executed": {"lines": 0, "split": 40_000 * second, "count": 320_000 * second},
        "emitted": {"lines": 40_000 * second, "split": 320_000 * second, "count": 900 * second},
        "newest": [job(320 - index, state, second) for index, state in enumerate(states)],
        "master": "spark://head:7077",
        "application": "app-20260101100000-0007",
        "version": "4.1.4",
        "ui": "http://127.0.0.1:4040",
    }


def job(txid: int, state: str, second: int) -> Json:
    """Return one job. Only jobs that have returned know their stages."""
    shown = {"txid": txid, "attempt_id": 2**32 + txid, "state": state, "began": START + second + txid - 320, "secs": 0.55 + txid % 7 / 50}
    levels = ((["lines"], 2, 0, 40_000), (["split", "clean"], 4, 40_000, 320_000), (["count"], 4, 320_000, 900))
    stages = [
        {
            "level": level,
            "components": components,
            "partitions": partitions,
            "executed": executed,
            "slowest_secs": 0.08 + level * 0.12 + txid % 5 / 100,
            "slowest_partition": (txid + level) % partitions,
            "slowest_components": components,
            "shuffled_blocks": rows // 3000,
            "shuffled_rows": rows,
            "shuffled_bytes": rows * 28,
        }
        for level, (components, partitions, executed, rows) in enumerate(levels)
    ]
    return shown | {"stages": stages if state in ("done", "failed") else []}


def partition(number: int, second: int) -> Json:
    """Return one entry of `kafka`."""
    lag = round(400 * (number + 1) * (1.2 + math.sin(second / 8 + number)))
    shown = {"component": "clicks", "topic": "web.clicks", "partition": number, "lag": lag, "committed": 88_000 + 900 * second}
    return shown | {"position": 88_700 + 900 * second, "pending": 700, "paused": 0, "stopped": 0, "retries": 0, "dead_letters": 0}


def flow(second: int) -> list[Json]:
    """Return the entry `flow`: one spout task, and four bolt tasks."""
    tasks = [
        {
            "task_id": 11 + index,
            "state": state_of(index, second),
            "window": 8 + round(4 * math.sin(second / (6 + index))),
            "in_flight": max(0, 7 + round(4 * math.sin(second / (6 + index) - 0.6))),
            "in_flight_records": 320,
            "pack_records": 50,
            "service_ms": 0.4 + 0.1 * index,
            "service_p99_ms": 1.9,
            "settled": 900,
            "records": 45_000,
            "resends": index,
        }
        for index in range(4)
    ]
    spout = {"component_id": "records", "task_id": 3, "task_index": 0, "tasks": tasks, "buffered_records": 100, "pending_records": 1400}
    return [spout | {"done_records": 45_000 * second, "records_since_checkpoint": 2100, "position": "(17, 80123)", "holds": None}]


def state_of(index: int, second: int) -> str:
    """Return the state of a window."""
    phase = (second + 9 * index) % 40
    return "BUSY" if phase > 35 else "SLOW" if phase > 28 else "NORMAL"
