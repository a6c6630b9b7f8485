"""`python -m bench.kafka.memory --records 4000000`: memory while one poison record holds back the commit of its partition, as JSON.

A bolt never settles one record near the beginning of partition 0. *Bounded*: with the default `max_uncommitted_offsets`; the other
partitions must flow to their ends, and this one stop at the bound. *Whole*: with a bound beyond the partition, whose every record is then
held back. *Clean*: nothing is held back. Each is a process of its own; its most memory is `ru_maxrss`, interpreter, client and buffers and
all. In the end the poison is acked, and every record must be seen once and committed.
"""

import argparse
import asyncio
import json
import resource
import time
import uuid

import engine
from bench.child import module_child, run_child
from bench.kafka.broker import VARIABLE, broker_address
from bench.kafka.job import Job, committed_records, whole_topic
from bench.kafka.topics import PARTITIONS
from bench.loops import new_event_loop
from engine import Bolt, Config, TopologyBuilder, Tuple
from engine.kafka import KafkaSpout, KafkaSpoutConfig

POISON = 1000
BOUNDED = 100_000
QUIET_SECS = 2.0
CASES = ("clean", "bounded", "whole")


class Poisoned(Bolt):
    """Counts the records of each partition; settles all but one."""

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
        """Settle that one too."""
        if self.held is not None:
            self.collector.ack(self.held)


async def come_to_rest(bolt: Poisoned) -> None:
    """Wait until nothing has come for a while."""
    seen, since = 0, time.monotonic()
    while not seen or time.monotonic() - since < QUIET_SECS:
        if sum(bolt.seen) != seen:
            seen, since = sum(bolt.seen), time.monotonic()
        await asyncio.sleep(QUIET_SECS / 20)


async def measure(case: str, job: Job) -> dict[str, float]:
    """Run one case; return its most memory while the poison was held, and how many records stood behind that."""
    limit = BOUNDED if case == "bounded" else job.records
    config = KafkaSpoutConfig(brokers=job.address, topics=job.topic, group=job.group, max_uncommitted_offsets=limit)
    bolt = Poisoned(poison=case != "clean")
    builder = TopologyBuilder("kafka-memory")
    builder.set_spout("records", lambda: KafkaSpout(config))
    builder.set_bolt("poisoned", lambda: bolt).shuffle_grouping("records")
    async with engine.run(builder.build(), Config(message_timeout_secs=600)) as run:
        await come_to_rest(bolt)
        most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        first, *others = bolt.seen
        bolt.release()
        await come_to_rest(bolt)
        await run.stop()
    done = await committed_records(job)
    if sum(bolt.seen) != job.records or done != job.records:
        raise SystemExit(f"{case}: {sum(bolt.seen):,} records were seen and {done:,} committed, of {job.records:,}")
    behind = job.records * (PARTITIONS - 1) // PARTITIONS - sum(others)
    return {"mb": most_mb, "held": first - POISON if bolt.poison else 0, "behind": behind}


def all_cases(records: int, address: str) -> dict[str, float]:
    """Run each case in a process of its own."""
    run_child(module_child("bench.kafka.topics", address, records))
    reading: dict[str, float] = {}
    for case in CASES:
        child = module_child("bench.kafka.memory", "--records", records, "--case", case, "--address", address)
        reading |= {f"{case}_{key}": value for key, value in run_child(child).items()}
    return reading | {
        "beyond": reading["bounded_held"] - BOUNDED,
        "behind": reading["bounded_behind"] + reading["whole_behind"],
        "bounded_added_mb": reading["bounded_mb"] - reading["clean_mb"],
        "bytes_per_held": (reading["whole_mb"] - reading["clean_mb"]) * 2**20 / reading["whole_held"],
    }


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--address", help=f"where not {VARIABLE} says it")
    arguments = parser.parse_args()
    if arguments.case is None:
        with broker_address() as address:
            print(json.dumps(all_cases(arguments.records, address)))
        return
    job = Job(arguments.address, whole_topic(arguments.records), f"stormcell-bench-{uuid.uuid4().hex}", arguments.records, 0.0)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        print(json.dumps(runner.run(measure(arguments.case, job))))


if __name__ == "__main__":
    main()
