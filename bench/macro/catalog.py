"""The macro benchmarks by name. Imports no engine: only their children do."""

from collections.abc import Callable

from bench.benchmark import NANOSECONDS, PER_SECOND, Benchmark, Figure
from bench.child import Child, module_child

RATE = (NANOSECONDS, PER_SECOND)
LATENCY = (
    Figure("p50_ms", "emit to ack, p50", "ms"),
    Figure("p99_ms", "emit to ack, p99", "ms"),
    Figure("p999_ms", "emit to ack, p99.9", "ms"),
    Figure("due_p50_ms", "due to ack, p50", "ms"),
    Figure("due_p99_ms", "due to ack, p99", "ms"),
)
OPEN_TREES = (
    Figure("bytes_per_tree", "memory, all in all", "bytes/tree"),
    Figure("ledger_bytes_per_tree", "memory, ledger", "bytes/tree"),
    Figure("open_secs", "time to open them", "s"),
)
START_UP = (
    Figure("first_tuple_ms", "process start to first tuple", "ms"),
    Figure("import_ms", "import engine", "ms"),
    Figure("import_asyncio_ms", "import asyncio, which is part of it", "ms"),
    Figure("importtime_ms", "import engine, by -X importtime", "ms"),
    Figure("process_with_import_ms", "python -c 'import engine'", "ms"),
    Figure("bare_process_ms", "python -c pass", "ms"),
)


def throughput_child(work: str, quick: bool) -> Child:
    """Return the command that measures the engine's rate in a work."""
    warm, secs = (0.3, 0.5) if quick else (1.0, 2.0)
    return module_child("bench.macro.throughput", work, "--warm-secs", warm, "--secs", secs)


def _throughput(work: str) -> Callable[[bool], Child]:
    return lambda quick: throughput_child(work, quick)


def _latency(quick: bool) -> Child:
    return module_child("bench.macro.latency", "--secs", 1 if quick else 5)


def _open_trees(quick: bool) -> Child:
    return module_child("bench.macro.open_trees", "--trees", 50_000 if quick else 1_000_000)


def _idle(quick: bool) -> Child:
    return module_child("bench.macro.idle", "--secs", 1 if quick else 5)


def _start_up(quick: bool) -> Child:
    return module_child("bench.macro.start_up")


MACRO = (
    Benchmark("macro", "const-null", "const spout -> null bolt, acked", RATE, _throughput("const-null")),
    Benchmark("macro", "const-id-null", "const spout -> id bolt -> null bolt, acked", RATE, _throughput("const-id-null")),
    Benchmark("macro", "un-acked", "const spout -> null bolt, no ackers, no message ids", RATE, _throughput("un-acked")),
    Benchmark("macro", "word-count", "fixed sentence, 2 splitters, 4 counters, acked; per word", RATE, _throughput("word-count")),
    Benchmark(
        "macro", "word-count-text", "the main job's text, 2 splitters, 4 counters, acked; per word", RATE, _throughput("word-count-text")
    ),
    Benchmark("macro", "fan-out", "const spout -> 10 tasks by all grouping, acked; per delivery", RATE, _throughput("fan-out")),
    Benchmark("macro", "latency", "spout -> id -> null at 10,000 tuples/s, open loop", LATENCY, _latency),
    Benchmark("macro", "open-trees", "1,000,000 open trees, held by one bolt", OPEN_TREES, _open_trees),
    Benchmark("macro", "idle", "8 tasks and nothing to do", (Figure("core_percent", "CPU", "% of a core"),), _idle),
    Benchmark("macro", "start-up", "python -m engine run to the first tuple; import engine", START_UP, _start_up),
)
