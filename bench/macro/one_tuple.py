"""Topology of one tuple, for the start-up benchmark: its bolt notes the tuple's time in a file."""

import os
import time
from pathlib import Path

from engine import TopologyBuilder, bolt, spout

STAMP = "STORMCELL_BENCH_STAMP"
"""Environment variable with the path of the file."""


@spout("number")
def one():  # type: ignore[no-untyped-def]
    """Emit one tuple."""
    yield (1,)


@bolt()
def stamp(tup):  # type: ignore[no-untyped-def]
    """Write the time, by the clock that all processes of the machine share."""
    Path(os.environ[STAMP]).write_text(str(time.clock_gettime(time.CLOCK_MONOTONIC)), encoding="ascii")


builder = TopologyBuilder("one-tuple")
builder.set_spout("one", one)
builder.set_bolt("stamp", stamp).shuffle_grouping("one")
