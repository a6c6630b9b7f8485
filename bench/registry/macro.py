"""Whole topologies."""

from typing import Final

from bench.registry.runs import NS, PER_SECOND, new_figures, new_percentiles, new_run
from bench.work import Peer, Run, Work


def throughput(work: str) -> Run:
    return new_run("bench.macro.throughput:measure", {"warm_secs": 0.3, "measured_secs": 0.5}, work=work, warm_secs=1.0, measured_secs=2.0)


def _computing(processes: int) -> Run:
    quick = {"warm_secs": 0.3, "measured_secs": 0.5}
    return new_run("bench.macro.processes:measure_computing", quick, processes=processes, warm_secs=1.0, measured_secs=3.0)


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
    Work(
        "macro",
        "computing-in-processes",
        "a bolt that computes for 50 µs, in two processes, beside one in the run's own process",
        _computing(2),
        PER_SECOND + new_figures("µs", cpu_us="CPU of the run for each tuple"),
        peers=(
            Peer("own-process", "the same bolt in the run's own process", _computing(0)),
            Peer("one-process", "the same in one", _computing(1)),
        ),
    ),
    Work(
        "macro",
        "process-round-trip",
        "a tuple of 100 bytes through a child process and back, in bursts",
        new_run("bench.macro.processes:measure_round_trip", {"warm_secs": 0.3, "measured_secs": 0.5}, warm_secs=1.0, measured_secs=3.0),
        PER_SECOND + new_figures("µs", cpu_us="CPU of the run for each tuple"),
    ),
    Work(
        "macro",
        "process-start",
        "start of a child process, with a fork server that runs",
        new_run("bench.macro.processes:measure_start", {}),
        new_figures("ms", start_ms="to the ready instance"),
    ),
    Work(
        "macro",
        "many-processes",
        "16 children that sleep instead of computing, 100,000 tuples/s",
        new_run(
            "bench.macro.processes:measure_many",
            {"children": 4, "per_second": 20_000, "warm_secs": 0.3, "measured_secs": 0.5},
            children=16,
            per_second=100_000,
            warm_secs=1.0,
            measured_secs=3.0,
        ),
        PER_SECOND + new_figures("% of a core", core_percent="CPU of the run"),
    ),
)
