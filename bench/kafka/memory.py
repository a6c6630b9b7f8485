"""Memory while one poison record holds back the commit of its partition.

A bolt never acks one record near the beginning of partition 0. Each case runs in its own process:

- `clean`: nothing is held back.
- `bounded`: `max_uncommitted_offsets` is 100,000. Other partitions must be read to their ends, and partition 0 must stop at the bound.
- `whole`: the bound is larger than the partition, so all of its records are held back.

The peak memory is `ru_maxrss`, which includes interpreter, client and buffers. At the end the poison record is acked. Then every record
must have been seen once and committed.
"""

import asyncio
import resource
import time

import engine
from bench.kafka.job import committed_records, reading_job
from bench.kafka.topics import PARTITIONS
from bench.process import call_in_process
from engine import Bolt, Config, TopologyBuilder, Tuple
from engine.kafka import KafkaSpout, KafkaSpoutConfig

POISON = 1000
BOUNDED = 100_000
QUIET_SECS = 2.0
CASES = ("clean", "bounded", "whole")


class Poisoned(Bolt):
    """Counts the records of each partition. Acks all records but one."""

    def __init__(self, *, poison: bool) -> None:
        self.poison = poison
        self.held: Tuple | None = None
        self.seen = [0] * PARTITIONS

    def execute(self, tup: Tuple) -> None:
        self.seen[tup[1]] += 1
        if self.poison and tup[1] == 0 and tup[2] == POISON:
            self.held = tup
        else:
            self.collector.ack(tup)

    def release(self) -> None:
        """Ack the poison record too."""
        if self.held is not None:
            self.collector.ack(self.held)


def measure(records: int) -> dict[str, float]:
    """Run each case in its own process."""
    reading: dict[str, float] = {}
    for case in CASES:
        figures = call_in_process("bench.kafka.memory:measure_case", {"case": case, "records": records})
        reading |= {f"{case}_{key}": value for key, value in figures.items()}
    return reading | {
        "beyond": reading["bounded_held"] - BOUNDED,
        "behind": reading["bounded_behind"] + reading["whole_behind"],
        "bounded_added_mb": reading["bounded_mb"] - reading["clean_mb"],
        "bytes_per_held": (reading["whole_mb"] - reading["clean_mb"]) * 2**20 / reading["whole_held"],
    }


async def measure_case(case: str, records: int) -> dict[str, float]:
    """Return the peak memory while the poison record was held, and the number of records after it."""
    job = reading_job(records)
    limit = BOUNDED if case == "bounded" else records
    config = KafkaSpoutConfig(brokers=job.address, topics=job.topic, group=job.group, max_uncommitted_offsets=limit)
    bolt = Poisoned(poison=case != "clean")
    builder = TopologyBuilder("kafka-memory")
    builder.set_spout("records", lambda: KafkaSpout(config))
    builder.set_bolt("poisoned", lambda: bolt).shuffle_grouping("records")
    async with engine.run(builder.build(), Config(message_timeout_secs=600)) as run:
        await _wait_until_quiet(bolt)
        most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        first, *others = bolt.seen
        bolt.release()
        await _wait_until_quiet(bolt)
        await run.stop()
    done = await committed_records(job)
    if sum(bolt.seen) != records or done != records:
        raise SystemExit(f"{case}: {sum(bolt.seen):,} records were seen and {done:,} committed, of {records:,}")
    behind = records * (PARTITIONS - 1) // PARTITIONS - sum(others)
    return {"mb": most_mb, "held": first - POISON if bolt.poison else 0, "behind": behind}


async def _wait_until_quiet(bolt: Poisoned) -> None:
    seen, since = 0, time.monotonic()
    while not seen or time.monotonic() - since < QUIET_SECS:
        if sum(bolt.seen) != seen:
            seen, since = sum(bolt.seen), time.monotonic()
        await asyncio.sleep(QUIET_SECS / 20)
