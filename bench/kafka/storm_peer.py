"""Storm's own Kafka spout on its LocalCluster, from `storm/KafkaPeer.java`."""

from pathlib import Path

from bench import java
from bench.child import Child
from bench.kafka.job import COMMIT_SECS, Job

SOURCES = Path(__file__).with_name("storm")
HEAP = "-Xmx2g"
MAX_SPOUT_PENDING, MAX_POLL_RECORDS = 20_000, 500
"""Those that served it best of none, 5,000 and 20,000, and of 500 and 5,000."""


def child(job: Job) -> Child:
    """Return the command that reads on Storm, fetching and compiling first where that is not done; the first half is its warm-up."""
    path = java.class_path("storm-kafka", SOURCES / "pom.xml", SOURCES / "KafkaPeer.java")
    scratch = java.scratch_folder("storm-kafka")
    command = ("java", HEAP, f"-Djava.io.tmpdir={scratch}", "-Dlog4j2.level=ERROR", "-cp", path, "KafkaPeer")
    settings = (job.records // 2, MAX_SPOUT_PENDING, MAX_POLL_RECORDS, round(COMMIT_SECS * 1000))
    return Child((*command, *map(str, settings), *job.arguments()), cwd=scratch)
