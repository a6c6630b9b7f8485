"""Time from append to ack at a fixed rate, for the engine or for a bare aiokafka loop.

Another process appends the records. The time of a record begins when the producer gets it, before it is sent. For the engine it ends with
the spout's ack. For aiokafka it ends when `getmany` has returned the record.
"""

import asyncio
import time
from array import array
from collections.abc import Awaitable
from typing import Any

import engine
from bench.kafka.job import Job, filling_job
from bench.kafka.paced_producer import sent_at
from bench.kafka.source import spout_config
from bench.kafka.topics import PARTITIONS, new_topic
from bench.macro.components import Null
from bench.macro.latency import percentiles_ms
from bench.peers.aiokafka_clients import read_until
from bench.process import call_in_process
from bench.work import Argument
from engine import Config, TopologyBuilder
from engine.kafka import KafkaSpout, KafkaSpoutConfig

WARM_SECS = 2.0
LATE_SECS = 30.0


class Latencies:
    """Seconds from append to ack."""

    def __init__(self) -> None:
        self.taken = array("d")
        self.progress = asyncio.Event()

    def note_record(self, value: bytes) -> None:
        """Take the time of one record. The first records only create the topic, and are not timed."""
        self.taken.append((time.monotonic_ns() - sent_at(value)) / 1e9)
        self.progress.set()

    async def wait_for(self, records: int) -> None:
        """Wait until this number of times were taken."""
        while len(self.taken) < records:
            self.progress.clear()
            await self.progress.wait()


async def read_by_aiokafka(job: Job, latencies: Latencies) -> None:
    """Read until cancelled."""

    def take(records: list[Any]) -> bool:
        for record in records:
            latencies.note_record(record.value)
        return False

    await read_until(job, take)


class TimedSpout(KafkaSpout):
    """Takes the time of each ack, after the spout's own work."""

    def __init__(self, config: KafkaSpoutConfig, latencies: Latencies) -> None:
        super().__init__(config)
        ack_many = self.ack_many

        def timed(entries: list[Any]) -> None:
            values = [entry.record.value for entry in entries]
            ack_many(entries)
            for value in values:
                latencies.note_record(value)

        self.ack_many = timed  # type: ignore[method-assign, assignment]


async def read_by_engine(job: Job, latencies: Latencies) -> None:
    """Read until cancelled. Commit every 2 s."""
    config = spout_config(job)
    builder = TopologyBuilder("kafka-latency")
    builder.set_spout("records", lambda: TimedSpout(config, latencies))
    builder.set_bolt("null", Null).shuffle_grouping("records")
    async with engine.run(builder.build(), Config()) as run:
        await run.completed()


READERS = {"aiokafka": read_by_aiokafka, "engine": read_by_engine}


async def measure(reader: str, rate: float, measured_secs: float) -> dict[str, float]:
    """Run a reader beside the producer. Return percentiles of the time after the warm-up."""
    job, latencies = filling_job(0), Latencies()
    async with new_topic(job):
        reading = asyncio.ensure_future(READERS[reader](job, latencies))
        try:
            await _first_of(latencies.wait_for(PARTITIONS), reading)
            arguments: dict[str, Argument] = {"topic": job.topic, "rate": rate, "secs": WARM_SECS + measured_secs}
            sent = await asyncio.to_thread(call_in_process, "bench.kafka.paced_producer:produce", arguments)
            await _first_of(latencies.wait_for(PARTITIONS + round(sent["records"])), reading)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    if sent["per_second"] < 0.98 * rate:
        raise SystemExit(
            f"only {sent['per_second']:,.0f} of {rate:,.0f} records/s were appended: this machine is too slow or too busy for the rate"
        )
    taken = latencies.taken[PARTITIONS + round(WARM_SECS * rate) :]
    return {**percentiles_ms(taken, shares=("p50", "p99", "p999")), "per_second": sent["per_second"], "acks": len(taken)}


async def _first_of(read: Awaitable[None], reading: "asyncio.Future[None]") -> None:
    """Wait for records. Raise the reader's error, or `TimeoutError` if no records arrive."""
    waiting = asyncio.ensure_future(read)
    await asyncio.wait({waiting, reading}, timeout=LATE_SECS, return_when=asyncio.FIRST_COMPLETED)
    if reading.done():
        reading.result()
    if not waiting.done():
        waiting.cancel()
        raise TimeoutError(f"the records did not come within {LATE_SECS:g} s")
