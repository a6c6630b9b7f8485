"""Windows by event time."""

from collections.abc import Mapping
from typing import Any, Final

from bench.registry.runs import new_figures, new_run
from bench.work import Peer, Run, Work

ROWS: Final = {"rows": 8_000_000, "keys": 100_000, "rows_per_second": 10_000}
"""A key comes six times in a window of a minute. The rows take some seconds, so there are several checkpoints."""
DENSE_ROWS: Final = {"rows": 2_000_000, "keys": 1_000, "rows_per_second": 20_000}
"""The rows of a second of event time are 20 times its results, so the time of rows is compared, and not that of results."""
FEW_ROWS: Final = {"rows": 60_000, "keys": 1_000, "rows_per_second": 100}
SECS: Final = 60
BATCH: Final = 256
BYTEWAX_ROWS: Final = {"rows": 300_000, "keys": 1_000, "rows_per_second": 1_000}
"""With 10,000 keys Bytewax has no result after minutes."""


def _own(kind: str, rows: Mapping[str, int] = ROWS) -> Run:
    arguments: dict[str, Any] = {"kind": kind, **rows}
    return new_run("bench.streams.rate:measure", FEW_ROWS, timeout_secs=600, **arguments)


def _beside_flink() -> Peer:
    arguments: dict[str, Any] = {"window_secs": SECS, "keys": ROWS["keys"], "rows_per_second": ROWS["rows_per_second"]}
    few: dict[str, Any] = {"warm_secs": 2, "measured_secs": 2}
    run = new_run("bench.peers.flink:count_in_windows", few, timeout_secs=600, warm_secs=10, measured_secs=20, **arguments)
    return Peer("flink", "two parallel windows, hashmap state, exactly-once checkpoints every second; JVM, uses every core", run, ("java",))


def _beside_bytewax() -> Peer:
    arguments: dict[str, Any] = {"window_secs": SECS, "batch": BATCH, **BYTEWAX_ROWS}
    run = new_run("bench.peers.bytewax_windows:measure", FEW_ROWS, package="compare/bytewax", timeout_secs=600, **arguments)
    return Peer("bytewax", "count_window with an EventClock, batches of 256, a snapshot every second; one worker", run)


def _count(name: str, kind: str, keys: str, rows: Mapping[str, int], peer: Peer) -> Work:
    summary = f"counts of {rows['keys']:,} keys per minute of event time, exactly once in SQLite, keys by {keys}"
    return Work("streams", name, summary, _own(kind, rows), unit="row", peers=(peer,))


STREAMS: Final = (
    _count("windows-field", "field", "field name", ROWS, _beside_flink()),
    _count("windows-few-keys-field", "field", "field name", BYTEWAX_ROWS, _beside_bytewax()),
    _count("windows-few-keys-lambda", "lambda", "lambda", BYTEWAX_ROWS, _beside_bytewax()),
    Work(
        "streams",
        "windows-sliding",
        "sums of 60 s every second, exactly once in SQLite, beside sums of tumbling windows",
        _own("sliding", DENSE_ROWS),
        unit="row",
        peers=(Peer("tumbling", "windows of 60 s that do not overlap", _own("sum", DENSE_ROWS)),),
    ),
    Work(
        "streams",
        "sessions-recovery",
        "1,000,000 open sessions in SQLite: start after a kill -9",
        new_run("bench.streams.recovery:measure", {"keys": 50_000}, timeout_secs=600, keys=1_000_000),
        new_figures("s", start_secs="kill -9 to the first row"),
    ),
)
