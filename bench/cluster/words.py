"""Counts words of files into SQLite: a topology on Spark, the same on one core, and PySpark by hand."""

import os
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.cluster.timing import LOCAL, all_batches, batch_secs
from bench.cluster.topologies import SPINS, BurnEach, Split, counting, made_lines, words_of
from bench.measuring import rate_figures
from engine import Config
from engine.transactional import FileTransactionalSpout

FILES = 2


async def measure(engine: str, bolt: str, lines: int, warm: int, batches: int) -> dict[str, float]:
    """Return the rate of lines. engine: "spark" or "one-core". bolt: "split", or "burn" for 20 µs a line. lines: of a batch."""
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as text:
        folder = Path(text)
        write_files(folder / "lines", lines // FILES * all_batches(warm, batches))
        spout = FileTransactionalSpout(folder / "lines", batch_lines=lines // FILES, batch_bytes=lines * 2**10, stop_at_end=True)
        topology = counting(spout, Split if bolt == "split" else BurnEach(SPINS), folder)
        config = Config(state_provider=f"sqlite:///{folder / 'state.db'}", max_spout_pending=2)
        secs = await batch_secs(topology, config, (warm, batches), LOCAL if engine == "spark" else None)
        check_counts(folder / "counts.db", "value", lines * all_batches(warm, batches) * (10 if bolt == "split" else 1))
    return rate_figures(lines * batches, secs)


def measure_by_hand(lines: int, warm: int, batches: int) -> dict[str, float]:
    """Return the rate of a file stream in PySpark. Each batch is one transaction of SQLite."""
    from pyspark.sql import SparkSession

    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1", PYTHONPATH=os.getcwd())
    settings: dict[str, Any] = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="stormcell-bench-") as text:
        folder, ends = Path(text), list[float]()
        write_files(folder / "lines", lines // FILES, warm + batches)
        upsert = _upsert_into(folder / "counts.db", ends)
        stream = spark.readStream.option("maxFilesPerTrigger", FILES).text(str(folder / "lines"))
        writer = stream.writeStream.foreachBatch(upsert).option("checkpointLocation", str(folder / "checkpoints"))
        writer.trigger(availableNow=True).start().awaitTermination()
        spark.stop()
        check_counts(folder / "counts.db", "count", lines * (warm + batches) * 10)
    return rate_figures(lines * batches, ends[warm + batches - 1] - ends[warm - 1])


def _upsert_into(path: Path, ends: list[float]) -> Any:
    """Return the function of a batch. It adds the counts and the id of the batch in one transaction, and notes the time."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE words (key TEXT PRIMARY KEY, count INTEGER NOT NULL)")
        database.execute("CREATE TABLE batches (id INTEGER PRIMARY KEY)")
        database.commit()

    def upsert(rows: Any, batch_id: int) -> None:
        counted = rows.mapInArrow(_count_words, "word string, count long").groupBy("word").sum("count").collect()
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("INSERT INTO batches VALUES (?)", (batch_id,))
            database.executemany(
                "INSERT INTO words VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET count = count + excluded.count", map(tuple, counted)
            )
        ends.append(time.monotonic())

    return upsert


def _count_words(batches: Iterator[Any]) -> Iterator[Any]:
    """Count the words of a partition, on an executor."""
    import pyarrow as pa

    counts: Counter[str] = Counter()
    for batch in batches:
        for line in batch.column(0).to_pylist():
            counts.update(words_of(line))
    yield pa.RecordBatch.from_pydict({"word": list(counts), "count": list(counts.values())})


def write_files(folder: Path, lines: int, pieces: int = 1) -> None:
    """Write files of lines. The files of a piece have the same time, because Spark reads the oldest files first."""
    folder.mkdir()
    made = made_lines(lines * FILES * pieces)
    for piece in range(pieces):
        for number in range(FILES):
            path = folder / f"{piece:06}-{number}.txt"
            path.write_text("".join(f"{next(made)}\n" for _ in range(lines)))
            os.utime(path, (piece, piece))


def check_counts(path: Path, column: str, expected: int) -> None:
    """Refuse a run that has counted a word twice or not at all."""
    with closing(sqlite3.connect(path)) as database:
        [(total,)] = database.execute(f"SELECT sum({column}) FROM words")
    if total != expected:
        raise SystemExit(f"{total:,} words were counted, of {expected:,}")
