"""What is measured of Spark's process, with no peer. Imports no engine and no pyspark: only the children do."""

from bench.benchmark import PER_SECOND, Benchmark, Figure
from bench.child import module_child

ALONE = (
    Benchmark(
        "spark",
        "calls",
        "an empty call of Spark's process, batches of 10,000 rows through it and back, and how late the loop is meanwhile",
        (
            Figure("call_p50_ms", "empty call, median", "ms"),
            Figure("call_p99_ms", "empty call, p99", "ms"),
            Figure("stall_p99_ms", "loop late, p99", "ms"),
            Figure("stall_max_ms", "loop late, most", "ms"),
            PER_SECOND,
        ),
        lambda quick: module_child("bench.spark.calls", *(("--calls", 20, "--rows", 20_000) if quick else ("--rows", 300_000))),
    ),
    Benchmark(
        "spark",
        "latency",
        "from the emit of a batch of 10,000 rows to the rows counted in a running streaming query",
        (
            Figure("latency_p50_ms", "median", "ms"),
            Figure("latency_p90_ms", "p90", "ms"),
            Figure("latency_max_ms", "most", "ms"),
        ),
        lambda quick: module_child("bench.spark.latency", "--batches", 15 if quick else 60, timeout_secs=300),
    ),
)
