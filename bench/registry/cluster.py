"""Topologies on Spark."""

from typing import Any, Final

from bench.registry.runs import new_figures, new_run
from bench.work import Peer, Run, Work


def _cluster_lines(engine: str, bolt: str) -> Run:
    sizes: dict[str, Any] = {"lines": 100_000, "warm": 2, "batches": 4}
    quick = {"lines": 2_000, "warm": 1, "batches": 2}
    return new_run("bench.cluster.words:measure", quick, timeout_secs=300, engine=engine, bolt=bolt, **sizes)


def _batch_cost(function: str, timeout_secs: float = 300, **arguments: Any) -> Run:
    return new_run(f"bench.cluster.batch_cost:{function}", {"warm": 2, "batches": 4}, timeout_secs=timeout_secs, **arguments)


def _growth(rows: int, tasks: int) -> Run:
    run = _batch_cost("measure_growth", 900, rows=rows, tasks=tasks, warm=2, batches=3)
    return Run(run.function, run.arguments, {"rows": min(rows, 1_000), "warm": 1, "batches": 1}, timeout_secs=run.timeout_secs)


def _growth_work(rows: int, tasks: int, *, only_by_name: bool = False) -> Work:
    name, summary = f"growth-{rows}-{tasks}", f"a batch of {rows:,} lines with {tasks} tasks of each component"
    figures = new_figures("ms", batch_ms="time of a batch") + new_figures("ns", row_ns="per line")
    return Work("cluster", name, summary, _growth(rows, tasks), figures, needs=("spark",), once=True, only_by_name=only_by_name)


def _cluster_workers(workers: int) -> Run:
    prepare = "bench.kafka.topics:fill_with_lines"
    sizes: dict[str, Any] = {"records": 400_000, "warm": 2, "batches": 6}
    quick = {"records": 8_000, "warm": 1, "batches": 2}
    return new_run("bench.cluster.workers:measure", quick, prepare=prepare, timeout_secs=300, workers=workers, **sizes)


CLUSTER: Final = (
    Work(
        "cluster",
        "words-on-spark",
        "words of files into SQLite on local[2], batches of 100,000 lines",
        _cluster_lines("spark", "split"),
        unit="line",
        peers=(
            Peer(
                "pyspark-by-hand",
                "mapInArrow with the same Python function, foreachBatch of a file stream, one SQLite transaction for each batch",
                new_run(
                    "bench.cluster.words:measure_by_hand",
                    {"lines": 2_000, "warm": 1, "batches": 2},
                    timeout_secs=300,
                    lines=100_000,
                    warm=2,
                    batches=4,
                ),
            ),
            Peer("one-core", "the same topology in one process", _cluster_lines("one-core", "split")),
        ),
        needs=("spark",),
    ),
    Work(
        "cluster",
        "computing-on-spark",
        "a bolt that computes 20 µs for each line, on local[2], batches of 100,000 lines",
        _cluster_lines("spark", "burn"),
        unit="line",
        peers=(Peer("one-core-computing", "the same topology in one process", _cluster_lines("one-core", "burn")),),
        needs=("spark",),
    ),
    Work(
        "cluster",
        "tiny-batches",
        "batches of 10 lines, one at a time and four at once, session warm",
        _batch_cost("measure_tiny", warm=10, batches=40),
        new_figures("ms", one_ms="one at a time", four_ms="four at once") + new_figures("×", four_at_once="batches/s, four at once to one"),
        needs=("spark",),
    ),
    Work(
        "cluster",
        "two-workers",
        "a bolt that computes 20 µs for each record of Kafka, on a standalone cluster of two workers of one core",
        _cluster_workers(2),
        unit="record",
        peers=(Peer("one-worker", "the same on one worker of one core", _cluster_workers(1)),),
        needs=("spark", "kafka"),
    ),
    Work(
        "cluster",
        "planned-partitions",
        "batches of 64 records, planned for 2 and for 64 partitions of Kafka",
        _batch_cost("measure_planned", warm=5, batches=20),
        new_figures("ms", two_ms="2 partitions", many_ms="64 partitions", added_ms="64 partitions, more than 2"),
        needs=("spark", "kafka"),
    ),
    *(_growth_work(rows, 2, only_by_name=rows > 1_000_000) for rows in (10_000, 100_000, 1_000_000, 10_000_000)),
    *(_growth_work(100_000, tasks) for tasks in (1, 8, 64)),
)
