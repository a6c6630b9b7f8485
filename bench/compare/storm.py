"""Apache Storm's LocalCluster, from `storm/StormPeer.java`: jars by Maven, classes by javac, both into the cache folder."""

import shutil
from pathlib import Path

from bench.cache import cache_folder, fingerprint, run_tool
from bench.child import Child
from bench.compare.work import UNACKED, Work

SOURCES = Path(__file__).with_name("storm")
JAVA, POM = SOURCES / "StormPeer.java", SOURCES / "pom.xml"
WARM_SECS, MEASURE_SECS = 10, 10
MAX_SPOUT_PENDING = 5000
"""The bound that served Storm best of none, 1,000, 5,000 and 20,000, in const-null and in the word count."""

HEAP = "-Xmx2g"


def unavailable() -> str | None:
    """Return why Storm cannot be measured here, or None."""
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    return f"not on the path: {', '.join(missing)} (Java 17 and Maven are needed)" if missing else None


def child(work: Work, *, quick: bool) -> Child:
    """Return the command that runs a work on Storm, fetching and compiling first where that is not done."""
    jars, classes = _jars(), _classes()
    scratch = cache_folder() / "storm-scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    warm, measure = (2, 2) if quick else (WARM_SECS, MEASURE_SECS)
    mode, topology, pending = ("un-acked", "const-null", 0) if work is UNACKED else ("acked", work.name, MAX_SPOUT_PENDING)
    java = ("java", HEAP, f"-Djava.io.tmpdir={scratch}", "-Dlog4j2.level=ERROR", "-cp", f"{classes}:{jars}/*", "StormPeer")
    return Child((*java, topology, mode, str(warm), str(measure), str(pending)), cwd=scratch)


def _jars() -> Path:
    folder = cache_folder() / f"storm-jars-{fingerprint([POM])}"
    if not folder.is_dir():
        loading = folder.with_suffix(".loading")
        shutil.rmtree(loading, ignore_errors=True)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={loading}", "-DincludeScope=runtime"]
        run_tool(["mvn", "-q", "-B", "-f", str(POM), *goal], SOURCES)
        loading.rename(folder)
    return folder


def _classes() -> Path:
    folder = cache_folder() / f"storm-classes-{fingerprint([POM, JAVA])}"
    if not (folder / "StormPeer.class").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        run_tool(["javac", "-cp", f"{_jars()}/*", "-d", str(folder), str(JAVA)], SOURCES)
    return folder
