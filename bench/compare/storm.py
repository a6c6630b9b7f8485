"""Apache Storm's LocalCluster, from `storm/StormPeer.java`."""

from pathlib import Path

from bench import java
from bench.child import Child
from bench.compare.work import UNACKED, Work

SOURCES = Path(__file__).with_name("storm")
WARM_SECS, MEASURE_SECS = 10, 10
MAX_SPOUT_PENDING = 5000
"""The bound that served Storm best of none, 1,000, 5,000 and 20,000, in const-null and in the word count."""

HEAP = "-Xmx2g"


def unavailable() -> str | None:
    """Return why Storm cannot be measured here, or None."""
    return java.unavailable()


def child(work: Work, *, quick: bool) -> Child:
    """Return the command that runs a work on Storm, fetching and compiling first where that is not done."""
    path = java.class_path("storm", SOURCES / "pom.xml", SOURCES / "StormPeer.java")
    scratch = java.scratch_folder("storm")
    warm, measure = (2, 2) if quick else (WARM_SECS, MEASURE_SECS)
    mode, topology, pending = ("un-acked", "const-null", 0) if work is UNACKED else ("acked", work.name, MAX_SPOUT_PENDING)
    command = ("java", HEAP, f"-Djava.io.tmpdir={scratch}", "-Dlog4j2.level=ERROR", "-cp", path, "StormPeer")
    return Child((*command, topology, mode, str(warm), str(measure), str(pending)), cwd=scratch)
