# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""What every reader of a topic is told, what it counts, and how it says what it took. Runs in the peers' environments too."""

import asyncio
import sys
import time
from dataclasses import astuple, dataclass

from bench.compare.work import print_result

COMMIT_SECS = 2.0
"""How often each reader commits what it has done."""


def whole_topic(records: int) -> str:
    """Return the name of the topic that has so many records, from which all readers of so many read."""
    return f"stormcell-bench-{records}"


@dataclass(frozen=True)
class Job:
    """One topic, to be read whole by a group that is new."""

    address: str
    topic: str
    group: str
    records: int
    started: float
    """When the process was asked for, by `time.monotonic`, which all processes of a machine share."""

    def arguments(self) -> tuple[str, ...]:
        """Return the words of the command line."""
        return tuple(map(str, astuple(self)))


def job_of(words: list[str]) -> Job:
    """Read the words of a command line."""
    address, topic, group, records, started = words
    return Job(address, topic, group, int(records), float(started))


class Tally:
    """Counts records; notes when the first came, when the clock starts and when the last came.

    The clock starts behind the first tenth: the first records that a client hands over were fetched before, and would be free.
    """

    def __init__(self, records: int) -> None:
        self.expected, self.seen, self.warm = records, 0, 0
        self.first_at = self.from_at = self.last_at = 0.0
        self._next = 1

    def begin(self) -> None:
        """Start the clock now, for who has no record to wait for."""
        self.first_at = self.from_at = time.monotonic()
        self._next = self.expected

    def add(self, records: int = 1) -> bool:
        """Count some; return whether these were the last."""
        self.seen += records
        return self.seen >= self._next and self._note(time.monotonic())

    def _note(self, now: float) -> bool:
        if not self.first_at:
            self.first_at, self._next = now, max(self.expected // 10, 2)
        elif not self.from_at:
            self.from_at, self.warm, self._next = now, self.seen, self.expected
        if self.seen < self.expected:
            return False
        self.last_at = now
        return True


def finish(job: Job, tally: Tally, *, committed: bool = True) -> None:
    """Print the line of JSON; refuse a run that missed or repeated a record, or whose group has not committed every one."""
    if tally.seen != job.records:
        raise SystemExit(f"{tally.seen:,} records came out of {job.records:,}")
    if committed and (done := asyncio.run(committed_records(job))) != job.records:
        raise SystemExit(f"{done:,} records of {job.records:,} are committed")
    print_tally(job, tally)


def print_tally(job: Job, tally: Tally) -> None:
    """Print the line of JSON."""
    secs = tally.last_at - tally.from_at
    print_result(job.records - tally.warm, secs, start_secs=tally.first_at - job.started, whole_secs=tally.last_at - job.started)


async def committed_records(job: Job) -> int:
    """Return how many records of a topic that begins at 0 the group has committed."""
    from aiokafka.admin import AIOKafkaAdminClient

    admin = AIOKafkaAdminClient(bootstrap_servers=job.address)
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets(job.group)
    finally:
        await admin.close()
    return sum(max(found.offset, 0) for partition, found in offsets.items() if partition.topic == job.topic)


def own_job() -> Job:
    """Return the job of this process's command line."""
    return job_of(sys.argv[1:])
