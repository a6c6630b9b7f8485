"""One run on a topic, with its job, the count of its records, and its figures. Also runs in the peers' environments."""

import asyncio
import os
import time
import uuid
from dataclasses import dataclass

from bench.measuring import rate_figures, started_at
from bench.servers import BROKER

COMMIT_SECS = 2.0
"""Commit period of each reader."""
LIBRDKAFKA = {"fetch.queue.backoff.ms": 5, "queued.min.messages": 100_000, "queued.max.messages.kbytes": 65_536}
"""Settings for all peers on librdkafka. Without the first one, a full queue stops fetching for a second."""


@dataclass(frozen=True)
class Job:
    """One topic, to read completely with a new group, or to fill."""

    address: str
    topic: str
    group: str
    records: int
    started: float
    """Start of the process, by `time.monotonic`."""


def reading_job(records: int, topic: str = "", started: float | None = None) -> Job:
    """Return the job to read a full topic. Default: the topic with this number of plain records."""
    return Job(broker_address(), topic or full_topic(records), _unique_name(), records, started or started_at())


def filling_job(records: int) -> Job:
    """Return the job to fill a new topic."""
    name = _unique_name()
    return Job(broker_address(), name, name, records, started_at())


def broker_address() -> str:
    """Return the address of the broker, "host:port"."""
    address = os.environ.get(BROKER)
    if not address:
        raise SystemExit(f"{BROKER} does not name a broker. Set it, or run the work with python -m bench.")
    return address


def full_topic(records: int) -> str:
    """Return the name of the topic with this number of plain records. All readers of this number of records share it."""
    return f"stormcell-bench-{records}"


def _unique_name() -> str:
    return f"stormcell-bench-{uuid.uuid4().hex}"


class Tally:
    """Counts records. Notes the times of the first record, of the start of the clock, and of the last record.

    The clock starts after the first tenth. A client has fetched its first records before it returns one, so these records would cost
    nothing.
    """

    def __init__(self, records: int) -> None:
        self.expected, self.seen, self.warm = records, 0, 0
        self.first_at = self.from_at = self.last_at = 0.0
        self._next = 1

    def start_clock(self) -> None:
        """Start the clock now, because a writer does not wait for records."""
        self.first_at = self.from_at = time.monotonic()
        self._next = self.expected

    def count_records(self, records: int = 1) -> bool:
        """Count some records. Return True if they include the last one."""
        self.seen += records
        return self.seen >= self._next and self._note_time(time.monotonic())

    def _note_time(self, now: float) -> bool:
        if not self.first_at:
            self.first_at, self._next = now, max(self.expected // 10, 2)
        elif not self.from_at:
            self.from_at, self.warm, self._next = now, self.seen, self.expected
        if self.seen < self.expected:
            return False
        self.last_at = now
        return True

    def figures(self, job: Job, ended_at: float | None = None) -> dict[str, float]:
        """Return the figures of the time from the start of the clock to the last record, or to `ended_at`."""
        end = ended_at or self.last_at
        return rate_figures(
            self.expected - self.warm, end - self.from_at, start_secs=self.first_at - job.started, whole_secs=end - job.started
        )


def finish(job: Job, tally: Tally, *, committed: bool = True) -> dict[str, float]:
    """Return the figures. Refuse a run that missed or repeated a record, or whose group has not committed all records."""
    if tally.seen != job.records:
        raise SystemExit(f"{tally.seen:,} records came out of {job.records:,}")
    if committed and (done := asyncio.run(committed_records(job))) != job.records:
        raise SystemExit(f"{done:,} records of {job.records:,} are committed")
    return tally.figures(job)


async def committed_records(job: Job) -> int:
    """Return the number of records that the group has committed. The topic begins at offset 0."""
    from aiokafka.admin import AIOKafkaAdminClient

    admin = AIOKafkaAdminClient(bootstrap_servers=job.address)
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets(job.group)
    finally:
        await admin.close()
    return sum(max(found.offset, 0) for partition, found in offsets.items() if partition.topic == job.topic)
