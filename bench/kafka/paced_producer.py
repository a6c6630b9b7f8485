# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.kafka.paced_producer ADDRESS TOPIC RATE SECS`: records of 100 bytes at a steady rate; says how many.

Open loop: every record has a due time; a timer of 1 ms wakes this, which sends all that is due. A record begins with the moment at which
it was handed to the producer, in nanoseconds of the monotonic clock, which all processes of a machine share.
"""

import asyncio
import json
import struct
import sys
import time

from aiokafka import AIOKafkaProducer

from bench.kafka.topics import PARTITIONS, VALUE
from bench.loops import new_event_loop

STAMP = struct.Struct(">q")
REST = VALUE[STAMP.size :]
TICK_SECS = 0.001


def sent_at(value: bytes) -> int:
    """Return when a record was handed to the producer."""
    return int(STAMP.unpack_from(value)[0])


async def produce(address: str, topic: str, rate: float, secs: float) -> dict[str, float]:
    """Send what is due; return how many, and the rate."""
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        await producer.partitions_for(topic)
        records, sent, start = round(rate * secs), 0, time.monotonic()
        while sent < records:
            for _ in range(min(int((time.monotonic() - start) * rate), records) - sent):
                await producer.send(topic, STAMP.pack(time.monotonic_ns()) + REST, partition=sent % PARTITIONS)
                sent += 1
            await asyncio.sleep(TICK_SECS)
        taken = time.monotonic() - start
    return {"records": sent, "per_second": sent / taken}


def main() -> None:
    """Print one line of JSON."""
    address, topic, rate, secs = sys.argv[1:]
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        print(json.dumps(runner.run(produce(address, topic, float(rate), float(secs)))))


if __name__ == "__main__":
    main()
