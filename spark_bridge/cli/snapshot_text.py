"""Text of a pipeline's snapshot, for the live table and the plain lines."""

from typing import Final

from engine.cli.console.formatting import count_text, duration_text, ms_text, rate_text
from spark_bridge.pipeline.progress import PipelineSnapshot, QuerySnapshot, row_rate

QUERY_COLUMNS: Final = ("query", "status", "txid", "lag", "rows", "rows/s", "batch ms", "state rows", "batches", "restarts")
TEXT_COLUMNS: Final = 2


def query_rows(before: PipelineSnapshot | None, now: PipelineSnapshot) -> list[tuple[str, ...]]:
    """Return one row of `QUERY_COLUMNS` for each query. rows/s is the rate since `before`."""
    return [_row(query, row_rate(before, now, query.name)) for query in now.queries.values()]


def headline(now: PipelineSnapshot) -> str:
    """Return one line: the pipeline, its state, its uptime and the newest txid."""
    deaths = f" · Spark was started again {now.deaths} {'time' if now.deaths == 1 else 'times'}" if now.deaths else ""
    return f"{now.name} · {now.state} · {duration_text(now.uptime_secs)} · newest txid {count_text(now.newest_txid)}{deaths}"


def plain_line(before: PipelineSnapshot | None, now: PipelineSnapshot) -> str:
    """Return the state of a pipeline in one line. Rates are those since `before`, counts those since the start."""
    parts = [f"{now.name} {now.state} {now.uptime_secs:.1f} s", f"newest txid {count_text(now.newest_txid)}"]
    parts += [_in_short(query, row_rate(before, now, query.name)) for query in now.queries.values()]
    return " | ".join(parts)


def query_errors(now: PipelineSnapshot) -> list[str]:
    """Return one line per query with its last error."""
    return [f"{query.name}: {query.trouble.partition(chr(10))[0]}" for query in now.queries.values() if query.trouble]


def summary(now: PipelineSnapshot | None, exit_status: int) -> str:
    """Return one line: the final state, the duration and the counts."""
    if now is None:
        return "the pipeline did not start"
    state = {130: "stopped at once", 1: "failed", 2: "failed"}.get(exit_status, now.state)
    rows, batches = (sum(getattr(query, name) for query in now.queries.values()) for name in ("rows", "batches"))
    counts = f"{count_text(rows)} rows in {count_text(batches)} {'batch' if batches == 1 else 'batches'}, lag {count_text(now.lag)}"
    done = counts if now.queries else "no query was started"
    return f"{now.name}: {state} after {duration_text(now.uptime_secs)}: {done}"


def _row(query: QuerySnapshot, per_sec: float | None) -> tuple[str, ...]:
    return (
        query.name,
        query.status,
        *map(count_text, (query.txid, query.lag, query.rows)),
        rate_text(per_sec).removesuffix("/s"),
        ms_text(query.batch_ms),
        *map(count_text, (query.state_rows, query.batches, query.restarts)),
    )


def _in_short(query: QuerySnapshot, per_sec: float | None) -> str:
    status = "" if query.status == "running" else f" {query.status}"
    counts = f"txid {count_text(query.txid)} lag {count_text(query.lag)} rows {count_text(query.rows)}"
    return f"{query.name}{status} {counts} ({rate_text(per_sec)})"
