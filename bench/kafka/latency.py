# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.kafka.latency READER --rate 10000 --secs 10`: append to ack at a fixed rate, as JSON. READER is engine or aiokafka.

Another process appends the records. A record's time begins when it is handed to that producer, which is before it is sent, and ends when
the spout is told of its ack; for aiokafka, when `getmany` has returned it.
"""

import argparse
import asyncio
import json
import sys
import time
import uuid
from array import array
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer

import engine
from bench.child import PROJECT
from bench.kafka.broker import broker_address
from bench.kafka.engine_source import spout_config
from bench.kafka.job import COMMIT_SECS, Job
from bench.kafka.paced_producer import sent_at
from bench.kafka.topics import PARTITIONS, delete, ready
from bench.loops import new_event_loop
from bench.macro.components import Null
from bench.macro.latency import percentile
from engine import Config, TopologyBuilder
from engine.kafka import KafkaSpout, KafkaSpoutConfig

WARM_SECS = 2.0
LATE_SECS = 30.0


class Latencies:
    """Nanoseconds from append to ack; says when so many were taken."""

    def __init__(self) -> None:
        self.taken = array("q")
        self.progress = asyncio.Event()

    def note(self, value: bytes) -> None:
        """Take the time of one record; those that only make the topic ready have no stamp and are of the first."""
        self.taken.append(time.monotonic_ns() - sent_at(value))
        self.progress.set()

    async def reach(self, records: int) -> None:
        """Wait until so many were taken."""
        while len(self.taken) < records:
            self.progress.clear()
            await self.progress.wait()


async def read_by_aiokafka(address: str, topic: str, latencies: Latencies) -> None:
    """Read for ever; commit every 2 s."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=address, group_id=topic, enable_auto_commit=False, auto_offset_reset="earliest")
    async with consumer:
        commit_at = time.monotonic() + COMMIT_SECS
        while True:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    latencies.note(record.value)
            if time.monotonic() >= commit_at:
                await consumer.commit()
                commit_at = time.monotonic() + COMMIT_SECS


class TimedSpout(KafkaSpout):
    """Takes the time of each ack, when it has done what the spout does."""

    def __init__(self, config: KafkaSpoutConfig, latencies: Latencies) -> None:
        super().__init__(config)
        settle = self.ack

        def timed(entry: Any) -> None:
            value = entry.record.value
            settle(entry)
            latencies.note(value)

        self.ack = timed  # type: ignore[method-assign, assignment]


async def read_by_engine(address: str, topic: str, latencies: Latencies) -> None:
    """Read until cancelled; commit every 2 s."""
    config = spout_config(Job(address, topic, topic, 0, 0.0))
    builder = TopologyBuilder("kafka-latency")
    builder.set_spout("records", lambda: TimedSpout(config, latencies))
    builder.set_bolt("null", Null).shuffle_grouping("records")
    async with engine.run(builder.build(), Config()) as run:
        await run.completed()


READERS = {"aiokafka": read_by_aiokafka, "engine": read_by_engine}


async def produced(address: str, topic: str, rate: float, secs: float) -> dict[str, float]:
    """Run the producer to its end; return what it says."""
    command = (sys.executable, "-m", "bench.kafka.paced_producer", address, topic, str(rate), str(secs))
    process = await asyncio.create_subprocess_exec(*command, cwd=PROJECT, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"exit status {process.returncode}: {' '.join(command)}")
    said: dict[str, float] = json.loads(output)
    return said


async def measure(reader: Callable[[str, str, Latencies], Awaitable[None]], address: str, rate: float, secs: float) -> dict[str, float]:
    """Run a reader beside the producer; return percentiles of what came after the warm-up."""
    topic = f"stormcell-bench-latency-{uuid.uuid4().hex}"
    await ready(address, topic)
    latencies = Latencies()
    reading = asyncio.ensure_future(reader(address, topic, latencies))
    try:
        await first_of(latencies.reach(PARTITIONS), reading)
        said = await produced(address, topic, rate, WARM_SECS + secs)
        await first_of(latencies.reach(PARTITIONS + round(said["records"])), reading)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await delete(address, topic)
    if said["per_second"] < 0.98 * rate:
        raise SystemExit(f"only {said['per_second']:,.0f} of {rate:,.0f} records/s were appended: the figures would mean nothing")
    taken = sorted(nanoseconds / 1e6 for nanoseconds in latencies.taken[PARTITIONS + round(WARM_SECS * rate) :])
    return {
        "p50_ms": percentile(taken, 0.50),
        "p99_ms": percentile(taken, 0.99),
        "p999_ms": percentile(taken, 0.999),
        "per_second": said["per_second"],
        "acks": len(taken),
    }


async def first_of(reached: Awaitable[None], reading: "asyncio.Future[None]") -> None:
    """Wait until so many were read; raises what the reader raises, and `TimeoutError` when they do not come."""
    waiting = asyncio.ensure_future(reached)
    await asyncio.wait({waiting, reading}, timeout=LATE_SECS, return_when=asyncio.FIRST_COMPLETED)
    if reading.done():
        reading.result()
    if not waiting.done():
        waiting.cancel()
        raise TimeoutError(f"the records did not come within {LATE_SECS:g} s")


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("reader", choices=tuple(READERS))
    parser.add_argument("--rate", type=float, default=10_000)
    parser.add_argument("--secs", type=float, default=10.0)
    arguments = parser.parse_args()
    with broker_address() as address, asyncio.Runner(loop_factory=new_event_loop) as runner:
        print(json.dumps(runner.run(measure(READERS[arguments.reader], address, arguments.rate, arguments.secs))))


if __name__ == "__main__":
    main()
