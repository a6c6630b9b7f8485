"""Servers for experiments, from the command line.

    python -m tests.servers kafka [--port N]         a Kafka broker
    python -m tests.servers zookeeper [--port N]     a ZooKeeper
    python -m tests.servers postgres [--port N]      a PostgreSQL
    python -m tests.servers spark-cluster [--port N] a standalone cluster of Spark: a master and two workers
    python -m tests.servers spark-connect [--port N] a Spark Connect server
    python -m tests.servers fetch                    fetch the files of all servers, so that no test waits for a download

A server runs until Ctrl-C.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.servers import (
    kafka_admin,
    kafka_broker,
    kafka_fixtures,
    postgres_fixtures,
    postgres_server,
    spark_cluster,
    spark_connect_server,
    spark_programs,
    zookeeper_fixtures,
    zookeeper_server,
)
from tests.servers.process import HOST, free_port, is_free
from tests.servers.server import Server

TOPICS: Final = ("lines", "loud", "counts", "lines.dead")
"""Topics that the pages name."""


@dataclass(frozen=True)
class Choice:
    """A server for experiments."""

    title: str
    made_of: str
    """Files that the first start downloads."""
    port: int
    """Default port."""
    why_not: Callable[[], str | None]
    prepare: Callable[[], None]
    server: Callable[[Path, int], Server]
    """Creates the server in a folder, on a port."""
    told: Callable[[int], str]
    """Returns the address of the server, and the variables to export."""
    ready: Callable[[int], object] = lambda port: None
    """Prepares the server after its start."""


def _told_of_kafka(port: int) -> str:
    return (
        f"Kafka {_version(kafka_broker.JARS)} is reached at {HOST}:{port}, from this machine only, without a password. It has\n"
        f"the topics {', '.join(TOPICS)}. In another terminal the example and the commands find it, and tests, by\n"
        f"    export KAFKA_BROKERS={HOST}:{port} {kafka_fixtures.BOOTSTRAP}={HOST}:{port}"
    )


def _make_topics(port: int) -> None:
    """Create the topics of the documentation. Spouts and sinks create no topics."""
    for topic in TOPICS:
        asyncio.run(kafka_admin.create_topic(f"{HOST}:{port}", topic))


def _told_of_zookeeper(port: int) -> str:
    return (
        f"ZooKeeper {_version(zookeeper_server.JARS)} is reached at {HOST}:{port}, from this machine only, without a password. In another\n"
        f"terminal tests find it by\n    export {zookeeper_fixtures.HOSTS}={HOST}:{port}"
    )


def _told_of_postgres(port: int) -> str:
    url = postgres_server.url(port)
    return (
        f"PostgreSQL is reached at {url}, from this machine only.\n"
        f"In another terminal tests find it by\n    export {postgres_fixtures.URL}={url}"
    )


def _told_of_spark_cluster(port: int) -> str:
    submit = spark_programs.spark_home() / "bin" / "spark-submit"
    return (
        f"Spark {spark_programs.spark_version()}, a master and {spark_cluster.WORKERS} workers, is reached at spark://{HOST}:{port},\n"
        "from this machine only. In another terminal a program runs on it by\n"
        f"    export PYSPARK_PYTHON={sys.executable} SPARK_LOCAL_IP={HOST}\n"
        f"    {submit} --master spark://{HOST}:{port} --conf spark.cores.max=2 program.py"
    )


def _told_of_spark_connect(port: int) -> str:
    return (
        f"Spark Connect {spark_programs.spark_version()} is reached from this machine only, in Python by\n"
        f'    SparkSession.builder.remote("sc://{HOST}:{port}").getOrCreate()'
    )


def _version(jars: tuple[str, ...]) -> str:
    return jars[0].rpartition(":")[2]


CHOICES: Final = {
    "kafka": Choice(
        title="a Kafka broker",
        made_of="its jars",
        port=9092,
        why_not=kafka_broker.why_not,
        prepare=kafka_broker.prepare,
        server=lambda folder, port: kafka_broker.KafkaBroker(folder, port=port),
        told=_told_of_kafka,
        ready=_make_topics,
    ),
    "zookeeper": Choice(
        title="a ZooKeeper",
        made_of="its jars",
        port=2181,
        why_not=zookeeper_server.why_not,
        prepare=zookeeper_server.prepare,
        server=lambda folder, port: zookeeper_server.ZooKeeperServer(folder, port=port),
        told=_told_of_zookeeper,
    ),
    "postgres": Choice(
        title="a PostgreSQL",
        made_of="its programs",
        port=5432,
        why_not=postgres_server.why_not,
        prepare=postgres_server.prepare,
        server=lambda folder, port: postgres_server.PostgresServer(folder, port=port),
        told=_told_of_postgres,
    ),
    "spark-cluster": Choice(
        title="a standalone cluster of Spark",
        made_of="no files (pyspark has them)",
        port=7077,
        why_not=spark_cluster.why_not,
        prepare=spark_cluster.prepare,
        server=lambda folder, port: spark_cluster.SparkCluster(folder, port=port),
        told=_told_of_spark_cluster,
    ),
    "spark-connect": Choice(
        title="a Spark Connect server",
        made_of="jars of Delta Lake and PostgreSQL's driver",
        port=15002,
        why_not=spark_connect_server.why_not,
        prepare=spark_connect_server.prepare,
        server=lambda folder, port: spark_connect_server.SparkConnectServer(folder, port=port),
        told=_told_of_spark_connect,
    ),
}


def main() -> int:
    """Run the command line. Returns 1 if the server cannot start, or ends by itself."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description="Servers for experiments.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="fetch the files of all servers, so that no test waits for a download")
    for name, choice in CHOICES.items():
        command = commands.add_parser(name, help=f"run {choice.title} until Ctrl-C")
        command.add_argument("--port", type=int, help=f"where it listens, on this machine only (default: {choice.port}, or a free one)")
    arguments = parser.parse_args()
    if arguments.command == "fetch":
        fetch()
        return 0
    if arguments.port and not is_free(arguments.port):
        parser.error(f"port {arguments.port} is in use: name another, or none")
    choice = CHOICES[arguments.command]
    spark_programs.set_environment()
    return try_out(choice, arguments.port or (choice.port if is_free(choice.port) else free_port()))


def fetch() -> None:
    """Prepare all servers at once, because each download and Spark's class archive mostly wait for something else."""
    with ThreadPoolExecutor() as pool:
        for prepared in [pool.submit(choice.prepare) for choice in CHOICES.values()]:
            prepared.result()


def try_out(choice: Choice, port: int) -> int:
    """Run a server in a temporary folder until Ctrl-C."""
    print(f"Starting {choice.title}. The first start downloads {choice.made_of}", flush=True)
    if reason := choice.why_not():
        print(f"Cannot start {choice.title} here: {reason}", file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):  # a program started in the background ignores SIGINT by default
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="stormcell-server-") as folder:
        try:
            with choice.server(Path(folder), port) as server:
                choice.ready(port)
                return run(server, f"{choice.told(port)}\nIts files are in {folder} until Ctrl-C ends it.")
        except KeyboardInterrupt:
            print("\nThe server has ended, and its data is deleted.")
            return 0


def run(server: Server, told: str) -> int:
    """Print the address. Wait until the server ends or an interrupt comes."""
    print(told, flush=True)
    status = server.process.wait()
    print(f"The server ended by itself with status {status}: {server.process.log_tail()}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
