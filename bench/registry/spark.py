"""Rows handed over to Spark."""

from typing import Any, Final

from bench.registry.runs import PER_SECOND, new_figures, new_run
from bench.work import Peer, Run, Work


def _rows(function: str, **arguments: Any) -> Run:
    return new_run(function, {"rows": 100_000}, timeout_secs=300, rows=2_000_000, **arguments)


def _log_lines(function: str) -> Run:
    return new_run(f"bench.spark.end_to_end:{function}", {"lines": 100_000}, timeout_secs=1800, lines=5_000_000)


PYARROW: Final = Peer(
    "pyarrow", "the same tuples to the same files, column by column; not forced to the disk", _rows("bench.peers.pyarrow_files:write")
)
SPARK: Final = (
    Work(
        "spark",
        "hand-over",
        "rows of 5 columns in batches of 50,000 to Parquet and manifests, beside pyarrow writing the same files",
        _rows("bench.spark.handover:measure", drop=False),
        unit="row",
        peers=(PYARROW,),
        needs=("pyarrow",),
        without=_rows("bench.spark.handover:measure", drop=True),
    ),
    Work(
        "spark",
        "calls",
        "an empty call of Spark's process, batches of 10,000 rows through it and back, and how late the loop is meanwhile",
        new_run("bench.spark.calls:measure", {"calls": 20, "rows": 20_000}, calls=300, rows=300_000),
        new_figures("ms", call_p50_ms="empty call, median", call_p99_ms="empty call, p99")
        + new_figures("ms", stall_p99_ms="loop late, p99", stall_max_ms="loop late, most")
        + PER_SECOND,
        needs=("spark",),
    ),
    Work(
        "spark",
        "latency",
        "from the emit of a batch of 10,000 rows to the rows counted in a running streaming query",
        new_run("bench.spark.latency:measure", {"batches": 15}, timeout_secs=300, batches=60),
        new_figures("ms", latency_p50_ms="median", latency_p90_ms="p90", latency_max_ms="most"),
        needs=("spark",),
    ),
    Work(
        "spark",
        "end-to-end",
        "access logs to the tables of examples/log_etl; minutes, so only if it is named",
        _log_lines("run_example"),
        PER_SECOND + new_figures("s", engine_cpu_secs="CPU of the engine", spark_cpu_secs="CPU of Spark"),
        "line",
        (Peer("spark-alone", "the same queries over the same lines as text, parsed in SQL", _log_lines("run_spark_alone")),),
        ("spark",),
        only_by_name=True,
    ),
)
