"""Runs what is measured of Spark: the hand-over, in pairs; calls of its process, alone. Imports no pyarrow: only the children do."""

import importlib.util
from typing import Final

from bench.child import Child, RunFailed, module_child
from bench.results import Missing, Results, paired
from bench.rounds import Say, alternate, run_alone
from bench.spark.alone import ALONE

GROUP: Final = "spark"
ROWS, QUICK_ROWS = 2_000_000, 100_000
NAME: Final = "hand-over"
SUMMARY: Final = "rows of 5 columns in batches of 50,000 to Parquet and manifests, beside pyarrow writing the same files; per row"
PEER: Final = "pyarrow"
NOTE: Final = "the same tuples to the same files, by pyarrow.parquet.write_table, column by column; not forced to the disk"
NAMES: Final = (NAME, *(benchmark.name for benchmark in ALONE))


def measure(names: list[str], rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure what is named; all where nothing is."""
    results = _pair(rounds, say, quick=quick) if not names or NAME in names else Results()
    for benchmark in ALONE:
        if not names or benchmark.name in names:
            results += run_alone(benchmark, rounds, say, quick=quick)
    return results


def _pair(rounds: int, say: Say, *, quick: bool) -> Results:
    if importlib.util.find_spec("pyarrow") is None:
        reason = "pyarrow is not installed (pip install 'stormcell[arrow]')"
        say(f"{NAME}: skipped: {reason}")
        return Results(missing=(Missing(GROUP, NAME, reason),))
    say(f"{NAME}: stormcell | {PEER}")
    rows = QUICK_ROWS if quick else ROWS
    try:
        own, other = alternate(lambda: _own(rows), lambda: _bare(rows), rounds, say)
    except RunFailed as error:
        say(f"  failed: {error}")
        return Results(missing=(Missing(GROUP, NAME, str(error)),))
    return Results(pairings=(paired((NAME, "row"), (PEER, NOTE), own, other),))


def _own(rows: int) -> Child:
    return module_child("bench.spark.handover", "--rows", rows, "--pending", 2, timeout_secs=300)


def _bare(rows: int) -> Child:
    return module_child("bench.spark.bare_parquet", "--rows", rows, timeout_secs=300)
