"""Runs what is measured of the hand-over to Spark, in pairs. Imports no pyarrow: only the children do."""

import importlib.util
from typing import Final

from bench.child import Child, RunFailed, module_child
from bench.results import Missing, Results, paired
from bench.rounds import Say, alternate

GROUP: Final = "spark"
ROWS, QUICK_ROWS = 2_000_000, 100_000
NAME: Final = "hand-over"
SUMMARY: Final = "rows of 5 columns in batches of 50,000 to Parquet and manifests, beside pyarrow writing the same files; per row"
PEER: Final = "pyarrow"
NOTE: Final = "the same tuples to the same files, by pyarrow.parquet.write_table, column by column; not forced to the disk"
NAMES: Final = (NAME,)


def measure(rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure the one pair that there is."""
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
