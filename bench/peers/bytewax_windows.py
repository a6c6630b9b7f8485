# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""Tumbling counts by event time on Bytewax, with one worker and its recovery store, which has a snapshot every second.

The rows have their times as datetimes already, as Bytewax needs them.
"""

import gc
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import run_main

from bench.measuring import rate_figures
from bench.streams.hits import Hit, hits

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HitPartition(StatefulSourcePartition[Any, int]):
    """Yields the rows in lists. Notes the time of the first call."""

    started = 0.0

    def __init__(self, rows: list[Any], batch: int, position: int | None) -> None:
        self.rows, self.batch, self.position = rows, batch, position or 0

    def next_batch(self) -> list[Any]:
        HitPartition.started = HitPartition.started or time.perf_counter()
        if self.position >= len(self.rows):
            raise StopIteration
        part = self.rows[self.position : self.position + self.batch]
        self.position += len(part)
        return part

    def snapshot(self) -> int:
        return self.position


class HitSource(FixedPartitionedSource[Any, int]):
    """Builds the single partition."""

    def __init__(self, rows: list[Any], batch: int) -> None:
        self.arguments = (rows, batch)

    def list_parts(self) -> list[str]:
        return ["all"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> HitPartition:
        return HitPartition(*self.arguments, resume_state)


class Counted(StatelessSinkPartition[Any]):
    """Counts results and the rows in them."""

    results = 0
    rows = 0

    def write_batch(self, items: list[Any]) -> None:
        Counted.results += len(items)
        Counted.rows += sum([count for _, (_, count) in items])


class CountedSink(DynamicSink[Any]):
    """Builds the single partition."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Counted:
        return Counted()


def measure(rows: int, keys: int, rows_per_second: int, window_secs: int, batch: int) -> dict[str, float]:
    """Return the rate from the first row to the last result."""
    made = [Hit(row.key, EPOCH + timedelta(milliseconds=row.at)) for row in hits(rows, keys, rows_per_second)]  # type: ignore[arg-type]
    gc.freeze()  # as the engine's rows
    clock = win.EventClock(ts_getter=lambda hit: hit.at, wait_for_system_duration=timedelta(0))
    windower = win.TumblingWindower(length=timedelta(seconds=window_secs), align_to=EPOCH)
    dataflow = Dataflow("windows")
    counted = win.count_window("count", op.input("hits", dataflow, HitSource(made, batch)), clock, windower, lambda hit: hit.key)
    op.output("out", counted.down, CountedSink())
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        init_db_dir(Path(folder), 1)
        run_main(dataflow, epoch_interval=timedelta(seconds=1), recovery_config=RecoveryConfig(folder))
    secs = time.perf_counter() - HitPartition.started
    if Counted.rows != rows:
        raise SystemExit(f"the results have {Counted.rows:,} rows, not {rows:,}")
    return rate_figures(rows, secs, results=Counted.results)
