"""Whole topologies."""

from typing import Final

from bench.registry.runs import NS, PER_SECOND, new_figures, new_percentiles, new_run
from bench.work import Run, Work


def throughput(work: str) -> Run:
    return new_run("bench.macro.throughput:measure", {"warm_secs": 0.3, "measured_secs": 0.5}, work=work, warm_secs=1.0, measured_secs=2.0)


def _rate(name: str, summary: str) -> Work:
    return Work("macro", name, summary, throughput(name), NS + PER_SECOND)


MACRO: Final = (
    _rate("const-null", "const spout -> null bolt, acked"),
    _rate("const-id-null", "const spout -> id bolt -> null bolt, acked"),
    _rate("un-acked", "const spout -> null bolt, no ackers, no message ids"),
    _rate("word-count", "fixed sentence, 2 splitters, 4 counters, acked; per word"),
    _rate("fan-out", "const spout -> 10 tasks by all grouping, acked; per delivery"),
    Work(
        "macro",
        "latency",
        "spout -> id -> null at 10,000 tuples/s, open loop",
        new_run("bench.macro.latency:measure", {"measured_secs": 1.0}, rate=10_000, warm_secs=1.0, measured_secs=5.0),
        new_percentiles("emit to ack", "p50", "p99", "p999")
        + new_figures("ms", due_p50_ms="due to ack, p50", due_p99_ms="due to ack, p99"),
    ),
    Work(
        "macro",
        "open-trees",
        "1,000,000 open trees, held by one bolt",
        new_run("bench.macro.open_trees:measure", {"trees": 50_000}, trees=1_000_000),
        new_figures("bytes/tree", bytes_per_tree="memory of the process", ledger_bytes_per_tree="memory of the ledger")
        + new_figures("s", open_secs="time to open them"),
    ),
    Work(
        "macro",
        "idle",
        "8 tasks and nothing to do",
        new_run("bench.macro.idle:measure", {"measured_secs": 1.0}, warm_secs=1.0, measured_secs=5.0),
        new_figures("% of a core", core_percent="CPU"),
    ),
    Work(
        "macro",
        "start-up",
        "python -m engine run to the first tuple; import engine",
        new_run("bench.macro.start_up:measure", {}),
        new_figures(
            "ms",
            first_tuple_ms="process start to first tuple",
            import_ms="import engine",
            import_asyncio_ms="import asyncio, which is part of it",
        ),
    ),
)
