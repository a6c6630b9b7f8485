"""Producer of records of 100 bytes at a steady rate, in its own process.

It is an open loop, so every record has a due time. A timer of 1 ms wakes the producer, which sends all due records. The first bytes of a
record are the time at which the client got it, in nanoseconds. The clock is the monotonic one, which all processes of a machine share.
"""

import asyncio
import struct
import time

from aiokafka import AIOKafkaProducer

from bench.kafka.job import broker_address
from bench.kafka.topics import PARTITIONS, VALUE

STAMP = struct.Struct(">q")
REST = VALUE[STAMP.size :]
TICK_SECS = 0.001


def sent_at(value: bytes) -> int:
    """Return the time in a record."""
    return int(STAMP.unpack_from(value)[0])


async def produce(topic: str, rate: float, secs: float) -> dict[str, float]:
    """Send records for `secs` seconds. Return their number and the rate."""
    async with AIOKafkaProducer(bootstrap_servers=broker_address()) as producer:
        await producer.partitions_for(topic)
        records, sent, start = round(rate * secs), 0, time.monotonic()
        while sent < records:
            for _ in range(min(int((time.monotonic() - start) * rate), records) - sent):
                await producer.send(topic, STAMP.pack(time.monotonic_ns()) + REST, partition=sent % PARTITIONS)
                sent += 1
            await asyncio.sleep(TICK_SECS)
        taken = time.monotonic() - start
    return {"records": sent, "per_second": sent / taken}
