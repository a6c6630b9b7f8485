"""Runs the whole example, logs -> engine -> Spark -> tables -> report, and checks every row.

python examples/log_etl [--lines 300000] [--seed 7] [--folder log-etl] [--master local[2]] [--kafka HOST:PORT]
"""

import argparse
import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Final

import plain
import report
import tables
import traffic
from engine.clock import Clock
from engine.transactional.spouts import AnySpout
from running import run, say
from spark_bridge import SparkConfig
from topology import BATCH_LINES, of_files

DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def main() -> int:
    arguments = parse()
    folder: Path = arguments.folder.absolute()
    make_room(folder)
    logs = traffic.Traffic(arguments.lines, arguments.seed)
    say(f"1. A day of access logs, about {logs.lines:,} lines: {folder / 'logs'}")
    traffic.write(folder / "logs", logs)
    say(f"2. The engine and, beside it, Spark on {arguments.master}")
    lines, spark = source(folder, arguments), spark_config(folder, arguments)
    os.environ.update(LOG_ETL=str(folder), LOG_ETL_SINK="delta" if arguments.delta else "parquet")  # for pipeline.py, in Spark's process
    clock = Clock()
    began = clock.now()
    asyncio.run(run(folder, lines, spark))
    took = f"Seed {logs.seed}. {clock.now() - began:.0f} s from the first line to the last table, with Spark on {arguments.master}."
    say("3. The same by plain Python")
    return show(folder, took)


def source(folder: Path, arguments: argparse.Namespace) -> AnySpout:
    """Return the spout of the lines: of the files, or of a topic that is filled from them."""
    brokers, batch_lines = arguments.kafka, arguments.batch_lines
    if brokers is None:
        return of_files(folder, batch_lines)
    import kafka_source  # aiokafka is needed here only

    count = asyncio.run(kafka_source.fill(brokers, folder / "logs"))
    say(f"    {count:,} lines are in topic {kafka_source.TOPIC!r} on {brokers}")
    return kafka_source.of_kafka(brokers, 4 * batch_lines)


def spark_config(folder: Path, arguments: argparse.Namespace) -> SparkConfig:
    conf = {"spark.sql.shuffle.partitions": "2"}  # one for each core, because each has its own state: the default is 200
    return SparkConfig(
        master=arguments.master,
        executor_memory="512m",  # on a cluster
        conf=conf | DELTA if arguments.delta else conf,
        jars=tuple(arguments.delta.split(",")) if arguments.delta else (),
        log_file=str(folder / "spark.log"),
    )


def make_room(folder: Path) -> None:
    """Remove the files of an earlier run."""
    if folder.exists() and not (folder / "logs" / "users.csv").exists():
        raise SystemExit(f"{folder} exists and has other files than this example's: name another folder")
    shutil.rmtree(folder, ignore_errors=True)


def show(folder: Path, took: str) -> int:
    """Check the result and write the report. Returns the exit status."""
    made = tables.read(folder)
    faults = made.differences(plain.compute(folder / "logs"))
    report.write(folder / "report.html", made, faults=faults, footer=took)
    say(f"    {made.lines:,} lines: {made.broken:,} broken, {made.duplicates:,} duplicates, {made.heartbeats:,} heartbeats")
    say("    " + ", ".join(f"{name} {len(getattr(made, name)):,} rows" for name in plain.Tables.NAMES))
    say(f"4. The report: {folder / 'report.html'}")
    for fault in faults:
        say(f"DIFFERENT: {fault}")
    if not faults:
        say("Every row equals a plain computation over the same lines.")
    return 1 if faults else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python examples/log_etl", description="From access logs to a report, by the engine and Spark.")
    parser.add_argument("--lines", type=int, default=traffic.Traffic.lines, help="approximate number of lines (%(default)s)")
    parser.add_argument("--batch-lines", type=int, default=BATCH_LINES, help="lines of each log in a transaction (%(default)s)")
    parser.add_argument("--seed", type=int, default=traffic.Traffic.seed, help="seed of the random logs")
    parser.add_argument("--folder", type=Path, default=Path("log-etl"), help="folder of all files, emptied first (%(default)s)")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="write the lines to this broker and read them from there")
    parser.add_argument("--master", default="local[2]", help="Spark's master (%(default)s)")
    parser.add_argument("--delta", metavar="JARS", help="write tables of Delta Lake with these jars: delta-spark…jar,delta-storage…jar")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
