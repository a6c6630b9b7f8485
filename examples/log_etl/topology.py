"""The engine's part: parses, cleans and enriches access logs, and hands committed batches to Spark.

    LOG_ETL=FOLDER python -m engine run examples/log_etl/topology.py      # the logs are in FOLDER/logs

Broken lines go to files, and the counts of lines to SQLite. Both happen in the same transactions, so both are exact too.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from access_log import SCHEMA, Row, parse
from engine import BatchBolt, Config, Fields, Topology, TransactionalTopologyBuilder, Tuple
from engine.transactional import FileCommitter, FileTransactionalSpout, as_text
from engine.transactional.spouts import AnySpout
from engine.transactional.values import ReduceInto, SqliteValues
from spark_bridge import SparkHandover

QUERIES: Final = ("traffic", "pages", "sessions")
"""The queries of pipeline.py. A batch is kept until each of them has committed it."""
BATCH_LINES: Final = 2_500
"""Lines of each log in a batch. Large batches cost less per line, because Spark reads one file for each batch and task."""
AGENT: Final = list(SCHEMA).index("agent")


class Clean(BatchBolt):
    """Turns lines into rows, and drops duplicates of its batch. Spark drops duplicates between batches, because it keeps state."""

    output_fields = {"default": Fields(*SCHEMA), "broken": Fields("line"), "tally": Fields("what", "count")}

    def prepare(self) -> None:
        self.lines = 0
        self.rows: dict[str, Row] = {}
        self.broken: list[tuple[str]] = []

    def execute(self, tup: Tuple) -> None:
        self.lines += 1
        line = tup["line"]
        row = parse(line)
        if row is None:
            self.broken.append((line,))
        else:
            self.rows[row[0]] = row

    def finish_batch(self) -> None:
        tally = {
            "lines": self.lines,
            "broken": len(self.broken),
            "duplicates": self.lines - len(self.broken) - len(self.rows),
            "heartbeats": sum(row[AGENT] == "heartbeat" for row in self.rows.values()),
        }
        self.collector.emit_many(list(self.rows.values()))
        self.collector.emit_many(self.broken, stream="broken")
        self.collector.emit_many(list(tally.items()), stream="tally")


def build(folder: Path, lines: AnySpout) -> Topology:
    """Return the topology. The folder gets all of its data."""
    config = Config(state_provider=f"sqlite:///{folder / 'transactions.db'}", max_spout_pending=4)
    builder = TransactionalTopologyBuilder("log-etl", "lines", lines, 2, config)
    builder.set_bolt("clean", Clean, 2).fields_grouping("lines", "line")  # by the line: duplicates come to the same task
    handover = SparkHandover(folder / "handover", schema(), consumers=QUERIES)
    handover.declare(builder, "spark", parallelism=2).shuffle_grouping("clean")
    broken = FileCommitter(folder / "broken", as_text, suffix=".log")
    builder.set_committer("broken", broken).global_grouping("clean", stream="broken")
    tally = ReduceInto(SqliteValues(folder / "tally.db", "tally"), key="what", value="count")
    builder.set_committer("tally", tally).global_grouping("clean", stream="tally")
    return builder.build()


def schema() -> str:
    """Return the columns of the hand-over in Spark's DDL."""
    return ", ".join(f"{name} {kind}" for name, kind in SCHEMA.items())


def of_files(folder: Path, batch_lines: int = BATCH_LINES) -> AnySpout:
    """Return a spout that reads equally many lines of each log, so that all stay at the same time."""
    where = folder / "logs" / "access-*.log"
    return FileTransactionalSpout(where, stop_at_end=True, errors="replace", batch_lines=batch_lines, batch_bytes=batch_lines * 2**10)


def tallied(folder: Path) -> dict[str, int]:
    """Return the counts of lines, as any program may read them."""
    with closing(sqlite3.connect(folder / "tally.db")) as database:
        return dict(database.execute("SELECT key, value FROM tally"))


def topology() -> Topology:
    """Return the topology for `python -m engine run`."""
    folder = Path(os.environ.get("LOG_ETL", "log-etl"))
    return build(folder, of_files(folder))
