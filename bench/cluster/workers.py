"""A CPU-bound bolt over a topic of Kafka, on a standalone cluster of workers with one core each."""

import os
import tempfile
from pathlib import Path
from typing import Any

from bench.cluster.timing import all_batches, batch_secs
from bench.cluster.topologies import SPINS, BurnEach, counting
from bench.kafka.job import broker_address
from bench.kafka.topics import PARTITIONS, lines_topic
from bench.measuring import rate_figures
from engine import Config
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaTransactionalSpout
from spark_bridge.process import SparkConfig


async def measure(workers: int, records: int, warm: int, batches: int) -> dict[str, float]:
    """Return the rate of records. records: of the topic, which all batches together do not exceed."""
    from tests.servers.spark_cluster import SparkCluster

    each = records // all_batches(warm, batches) // PARTITIONS
    reading = KafkaBatchSpoutConfig(
        brokers=broker_address(), topics=lines_topic(records), fields="line", translator=_line, batch_records=each, stop_at_end=True
    )
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as text:
        folder = Path(text)
        (folder / "cluster").mkdir()
        with SparkCluster(folder / "cluster", workers=workers) as cluster:
            settings: dict[str, str | int] = {
                "spark.cores.max": workers,
                "spark.executor.cores": 1,
                "spark.executorEnv.PYTHONPATH": os.getcwd(),
            }
            spark = SparkConfig(master=cluster.master, driver_memory="1g", executor_memory="1g", conf=settings)
            topology = counting(KafkaTransactionalSpout(reading), BurnEach(SPINS), folder)
            config = Config(state_provider=f"sqlite:///{folder / 'state.db'}", max_spout_pending=2)
            secs = await batch_secs(topology, config, (warm, batches), spark)
    return rate_figures(each * PARTITIONS * batches, secs)


def _line(record: Any) -> tuple[str]:
    return ((record.value or b"").decode(errors="replace"),)
