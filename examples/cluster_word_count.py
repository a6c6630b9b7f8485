"""Words of a Kafka topic, counted exactly once into SQLite. The same file runs on one core and on a cluster of Spark.

    python -m engine run examples/cluster_word_count.py
    python -m spark_bridge topology examples/cluster_word_count.py --master spark://head:7077

The second command continues after the last batch that the first one has committed, and the reverse. On Spark, executors read the topic
and split the lines. Counts and positions are committed by this process. `make run-cluster` starts a broker and a cluster, runs both
commands, and compares their counts. The environment variables KAFKA_BROKERS, LINES_TOPIC and COUNTS_FOLDER change the names.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from engine import Config, Topology, TransactionalTopologyBuilder, Tuple, bolt
from engine.kafka import KafkaRecord
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaTransactionalSpout
from engine.transactional.values import ReduceInto, SqliteValues

BROKERS = os.environ.get("KAFKA_BROKERS", "127.0.0.1:9092")
LINES = os.environ.get("LINES_TOPIC", "lines")
FOLDER = Path(os.environ.get("COUNTS_FOLDER", "cluster-word-count"))
BATCH_RECORDS = 5_000
"""Largest number of records that each partition adds to a batch."""


def line_of(record: KafkaRecord) -> tuple[str]:
    """Translate a record to its text, with any bytes."""
    return ((record.value or b"").decode(errors="replace"),)


@bolt("word")
def split(tup: Tuple) -> Iterator[tuple[str]]:
    for word in tup["line"].split():
        yield (word,)


def topology() -> Topology:
    """Return the topology. It ends at the present end of the topic."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    reading = KafkaBatchSpoutConfig(
        brokers=BROKERS, topics=LINES, translator=line_of, fields="line", batch_records=BATCH_RECORDS, stop_at_end=True
    )
    config = Config(state_provider=f"sqlite:///{FOLDER / 'transactions.db'}", max_spout_pending=4)
    builder = TransactionalTopologyBuilder("cluster-word-count", "lines", KafkaTransactionalSpout(reading), 2, config)
    builder.set_bolt("split", split, 2).shuffle_grouping("lines")
    counts = ReduceInto(SqliteValues(FOLDER / "counts.db", "words"), key="word")
    builder.set_committer("count", counts).fields_grouping("split", "word")
    return builder.build()


def counted(folder: Path) -> dict[str, int]:
    """Return the committed counts, as any program may read them."""
    with closing(sqlite3.connect(folder / "counts.db")) as database:
        return dict(database.execute("SELECT key, value FROM words"))
