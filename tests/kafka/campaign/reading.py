"""The ways in which the engine reads a topic to its end."""

import asyncio
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import engine
from engine import Config
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaOpaqueSpout, KafkaTransactionalSpout
from engine.transactional import BatchBolt, TransactionalTopologyBuilder, TransactionAttempt
from tests.kafka.campaign.java_client import Row
from tests.kafka.play import all_of, settings
from tests.patience import PATIENCE_SECS

Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
SPOUTS: Final[dict[str, Any]] = {"transactional": KafkaTransactionalSpout, "opaque": KafkaOpaqueSpout}
WAYS: Final = ("group", "assign", *SPOUTS)


def row_of(record: Any) -> tuple[Row]:
    """The translator: the whole record."""
    return (Row(record.partition, record.offset, record.key, record.value, record.headers),)


class Collecting(BatchBolt):
    """Collects the rows of the last attempt of each transaction."""

    def __init__(self, rows: dict[int, list[Row]]) -> None:
        self._rows = rows
        self._own: list[Row] = []

    def execute(self, tup: Any) -> None:
        self._own.append(tup["value"])

    def finish_batch(self) -> None:
        attempt: TransactionAttempt = self.attempt
        self._rows[attempt.txid] = self._own


async def read_by(way: str, kafka: str, topic: str, folder: Path, isolation: Isolation = "read_committed") -> list[Row]:
    """Return the records that the engine reads up to the present end of a topic, by partition and offset."""
    if way in SPOUTS:
        rows = await _in_batches(SPOUTS[way], kafka, topic, folder, isolation)
    else:
        rows = await all_of(settings(kafka, topic, membership=way, translator=row_of, isolation_level=isolation))
    return sorted(rows, key=lambda row: (row.partition, row.offset))


async def _in_batches(spout: Any, kafka: str, topic: str, folder: Path, isolation: Isolation) -> list[Row]:
    rows: dict[int, list[Row]] = {}
    config = KafkaBatchSpoutConfig(
        brokers=kafka, topics=topic, translator=row_of, fields="value", isolation_level=isolation, stop_at_end=True, batch_records=7
    )
    builder = TransactionalTopologyBuilder(f"read-{topic}", "lines", spout(config), 1)
    builder.set_bolt("rows", lambda: Collecting(rows)).global_grouping("lines")
    state = f"sqlite:///{folder / spout.__name__}-{isolation}-{topic}.db"
    async with engine.run(builder.build(), Config(state_provider=state, batch_interval_ms=10)) as run:
        async with asyncio.timeout(PATIENCE_SECS):
            await run.completed()
    return [row for txid in sorted(rows) for row in rows[txid]]
