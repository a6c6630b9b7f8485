"""Rows per second through windows, exactly once, with a checkpoint every second in SQLite."""

import time

import engine
from bench.measuring import rate_figures
from bench.servers import store_url
from bench.streams.flows import SECS, HitSpout, Results, windows
from bench.streams.hits import hits
from engine import Config


class Clocked(HitSpout):
    """Notes the time of its first call."""

    started = 0.0

    def next_tuples(self, limit: int) -> None:
        Clocked.started = Clocked.started or time.perf_counter()
        super().next_tuples(limit)


async def measure(kind: str, rows: int, keys: int, rows_per_second: int) -> dict[str, float]:
    """Return the rate from the first row to the last result. rows_per_second: rows of a second of event time."""
    results = Results()
    topology = windows(kind, hits(rows, keys, rows_per_second), lambda: results, source=Clocked)
    with store_url("sqlite") as url:
        async with engine.run(topology, Config(state_provider=url, processing_guarantee="exactly_once")) as run:
            await run.completed()
            secs = time.perf_counter() - Clocked.started
    expected = rows * SECS if kind == "sliding" else rows
    if results.rows != expected:
        raise SystemExit(f"the results have {results.rows:,} rows, not {expected:,}")
    return rate_figures(rows, secs, results=results.results)
