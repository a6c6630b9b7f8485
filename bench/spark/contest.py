"""Runs what is measured of Spark: the hand-over, in pairs; calls and latency, alone. Only the children import pyarrow."""

import importlib.util
from typing import Final

from bench.child import Child, RunFailed, module_child, run_child
from bench.results import Missing, Results, paired
from bench.rounds import Say, run_alone
from bench.spark.alone import ALONE

GROUP: Final = "spark"
ROWS, QUICK_ROWS = 2_000_000, 100_000
NAME: Final = "hand-over"
SUMMARY: Final = "rows of 5 columns in batches of 50,000 to Parquet and manifests, beside pyarrow writing the same files; per row"
PEER: Final = "pyarrow"
SHARE: Final = "hand-over-share"
"""What handing over adds to a topology that has the rows: of each round, the time with it less the time without."""
NOTE: Final = "the same tuples to the same files, by pyarrow.parquet.write_table, column by column; not forced to the disk"
NAMES: Final = (NAME, *(benchmark.name for benchmark in ALONE))


def measure(names: list[str], rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure what is named; all where nothing is."""
    results = _hand_over(rounds, say, quick=quick) if not names or NAME in names else Results()
    for benchmark in ALONE:
        if not names or benchmark.name in names:
            results += run_alone(benchmark, rounds, say, quick=quick)
    return results


def _hand_over(rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure the topology, the topology without the hand-over, and pyarrow, in turn."""
    if importlib.util.find_spec("pyarrow") is None:
        reason = "pyarrow is not installed (pip install 'stormcell[arrow]')"
        say(f"{NAME}: skipped: {reason}")
        return Results(missing=(Missing(GROUP, NAME, reason),))
    say(f"{NAME}: stormcell | the same, rows dropped | {PEER}")
    rows = QUICK_ROWS if quick else ROWS
    whole, share, bare = [], [], []
    try:
        for number in range(1, rounds + 1):
            handed, dropped, other = (run_child(child) for child in (_own(rows), _own(rows, "--drop"), _bare(rows)))
            say(f"  {number}/{rounds}  {handed['ns']:,.1f} ns  |  {dropped['ns']:,.1f} ns  |  {other['ns']:,.1f} ns")
            whole.append(handed)
            share.append({"ns": handed["ns"] - dropped["ns"]})
            bare.append(other)
    except RunFailed as error:
        say(f"  failed: {error}")
        return Results(missing=(Missing(GROUP, NAME, str(error)),))
    return Results(pairings=tuple(paired((name, "row"), (PEER, NOTE), own, bare) for name, own in ((NAME, whole), (SHARE, share))))


def _own(rows: int, *options: str) -> Child:
    return module_child("bench.spark.handover", "--rows", rows, "--pending", 2, *options, timeout_secs=300)


def _bare(rows: int) -> Child:
    return module_child("bench.spark.bare_parquet", "--rows", rows, timeout_secs=300)
