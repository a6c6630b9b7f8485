"""Costs of a batch beside its work, and how they grow with rows, tasks and partitions."""

import tempfile
from pathlib import Path
from typing import Any

from bench.cluster.timing import LOCAL, all_batches, batch_secs
from bench.cluster.topologies import MadeLines, Split, counting
from bench.kafka.job import broker_address
from engine import Config
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaTransactionalSpout

TINY_ROWS = 10
PLANNED_ROWS = 64
"""Rows of a batch, whatever the number of partitions."""


async def measure_tiny(warm: int, batches: int) -> dict[str, float]:
    """Return the milliseconds of a batch of 10 lines, and the speed of four batches at once."""
    one = await _secs(MadeLines(TINY_ROWS, all_batches(warm, batches), 2), (warm, batches), pending=1)
    four = await _secs(MadeLines(TINY_ROWS, all_batches(warm, batches), 2), (warm, batches), pending=4)
    return {"one_ms": 1000 * one / batches, "four_ms": 1000 * four / batches, "four_at_once": one / four}


async def measure_planned(warm: int, batches: int) -> dict[str, float]:
    """Return the milliseconds of a batch of 64 records, planned for 2 and for 64 partitions."""
    found = {}
    for partitions in (2, 64):
        topic = await _fill(partitions, PLANNED_ROWS * all_batches(warm, batches))
        config = KafkaBatchSpoutConfig(
            brokers=broker_address(),
            topics=topic,
            fields="line",
            translator=_line,
            batch_records=PLANNED_ROWS // partitions,
            stop_at_end=True,
        )
        found[partitions] = 1000 * await _secs(KafkaTransactionalSpout(config), (warm, batches), pending=1) / batches
    return {"two_ms": found[2], "many_ms": found[64], "added_ms": found[64] - found[2]}


async def measure_growth(rows: int, tasks: int, warm: int, batches: int) -> dict[str, float]:
    """Return the milliseconds of a batch with this number of rows and tasks of each component."""
    secs = await _secs(MadeLines(rows, all_batches(warm, batches), tasks), (warm, batches), pending=1, tasks=tasks)
    return {"batch_ms": 1000 * secs / batches, "row_ns": 1e9 * secs / batches / rows}


async def _secs(spout: Any, batches: tuple[int, int], *, pending: int, tasks: int = 2) -> float:
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as folder:
        config = Config(state_provider=f"sqlite:///{folder}/state.db", max_spout_pending=pending, batch_interval_ms=1)
        return await batch_secs(counting(spout, Split, Path(folder), tasks), config, batches, LOCAL)


async def _fill(partitions: int, records: int) -> str:
    """Create a topic with equally many records in each partition. Return its name."""
    from aiokafka import AIOKafkaProducer

    from tests.servers.kafka_admin import create_topic, fresh_name

    topic = await create_topic(broker_address(), fresh_name("stormcell-bench-planned"), partitions)
    async with AIOKafkaProducer(bootstrap_servers=broker_address(), linger_ms=20) as producer:
        for number in range(records):
            await producer.send(topic, b"to be", partition=number % partitions)
    return topic


def _line(record: Any) -> tuple[str]:
    return (record.value.decode(),)
