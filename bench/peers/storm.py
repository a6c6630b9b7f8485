"""Apache Storm on its LocalCluster, from `storm/*.java`. The JVM replaces this process."""

import time
from pathlib import Path

from bench.builds import become_jvm, build_java, scratch_folder
from bench.kafka.job import COMMIT_SECS, reading_job

SOURCES = Path(__file__).with_name("storm")
WORK_PENDING = 5000
"""`max_spout_pending` of acked works. Best for Storm among none, 1,000, 5,000 and 20,000, in const-null and word count.
"""
KAFKA_PENDING, MAX_POLL_RECORDS = 20_000, 500
"""These were the best for the Kafka spout, among none, 5,000 and 20,000 pending, and among 500 and 5,000 records."""


def run_work(work: str, warm_secs: int, measured_secs: int) -> None:
    """Run a work."""
    mode, topology, pending = ("un-acked", "const-null", 0) if work == "un-acked" else ("acked", work, WORK_PENDING)
    class_path = build_java(SOURCES / "pom.xml", SOURCES / "StormPeer.java")
    become_jvm(scratch_folder("StormPeer"), class_path, "StormPeer", topology, mode, warm_secs, measured_secs, pending)


def read(records: int) -> None:
    """Read a topic with Storm's own Kafka spout. The first half of the records warms the JVM up."""
    class_path = build_java(SOURCES / "pom.xml", SOURCES / "KafkaPeer.java")
    job = reading_job(records, started=time.monotonic())  # the JVM starts now, after the build
    settings = (records // 2, KAFKA_PENDING, MAX_POLL_RECORDS, round(COMMIT_SECS * 1000))
    become_jvm(scratch_folder("KafkaPeer"), class_path, "KafkaPeer", *settings, job.address, job.topic, job.group, job.records, job.started)
