"""The engine's part: lines of access logs -> parsed, cleaned, enriched, duplicates dropped -> handed over to Spark, in committed batches.

    LOG_ETL=FOLDER python -m engine run examples/log_etl/topology.py      # the logs are in FOLDER/logs

What is no line is kept in files of its own, and what was done is tallied in SQLite: in the same transactions, so both are exact as well.
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
"""Those of pipeline.py: a batch is kept until each has it."""
BATCH_LINES: Final = 2_500
"""Of each log. Large batches cost less for each line; Spark reads a file of each batch and task."""
AGENT: Final = list(SCHEMA).index("agent")


class Clean(BatchBolt):
    """Lines -> rows. Drops what comes twice in its batch; Spark does so between batches, which it can, since it keeps what it has seen."""

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
    """All that is kept is in the folder."""
    config = Config(state_provider=f"sqlite:///{folder / 'transactions.db'}", max_spout_pending=4)
    builder = TransactionalTopologyBuilder("log-etl", "lines", lines, 2, config)
    builder.set_bolt("clean", Clean, 2).fields_grouping("lines", "line")  # by the line: what came twice meets itself
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
    """Read the logs of all servers side by side, in step: of each as many lines, so that all are at the same time of the day."""
    where = folder / "logs" / "access-*.log"
    return FileTransactionalSpout(where, stop_at_end=True, errors="replace", batch_lines=batch_lines, batch_bytes=batch_lines * 2**10)


def tallied(folder: Path) -> dict[str, int]:
    """Return what was done, as any program may read it."""
    with closing(sqlite3.connect(folder / "tally.db")) as database:
        return dict(database.execute("SELECT key, value FROM tally"))


def topology() -> Topology:
    """What `python -m engine run` runs."""
    folder = Path(os.environ.get("LOG_ETL", "log-etl"))
    return build(folder, of_files(folder))
