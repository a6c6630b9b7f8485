"""Servers to try things out with, from the command line.

python -m tests.servers kafka [--port N]     a Kafka broker, until Ctrl-C
python -m tests.servers fetch                what the servers of the tests are made of, so that no test waits for it
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.servers.kafka_broker import JARS, KafkaBroker, prepare, why_not
from tests.servers.kafka_fixtures import BOOTSTRAP
from tests.servers.process import free_port, is_free

KAFKA_PORT: Final = 9092


def main() -> int:
    """Do what the command line says; status 1 where the server cannot be had, or ends by itself."""
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description="Servers to try things out with.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="fetch what the servers of the tests are made of, so that no test waits for it")
    kafka = commands.add_parser("kafka", help="run a Kafka broker until Ctrl-C")
    kafka.add_argument("--port", type=int, help=f"where it listens, on this machine only (default: {KAFKA_PORT}, or a free one)")
    arguments = parser.parse_args()
    if arguments.command == "fetch":
        prepare()
        return 0
    if arguments.port and not is_free(arguments.port):
        parser.error(f"port {arguments.port} is in use: name another, or none")
    return try_kafka(arguments.port or (KAFKA_PORT if is_free(KAFKA_PORT) else free_port()))


def try_kafka(port: int) -> int:
    """Run a broker, in a folder that goes with it, until Ctrl-C."""
    print("Starting Kafka; the first time, its jars are fetched", flush=True)
    if reason := why_not():
        print(f"No Kafka here: {reason}", file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):  # also where it was started in the background, with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="stormcell-kafka-") as folder:
        try:
            return run_kafka(Path(folder), port)
        except KeyboardInterrupt:
            print("\nThe broker has ended, and its records are gone.")
            return 0


def run_kafka(folder: Path, port: int) -> int:
    """Run a broker until it ends, or until an interrupt."""
    with KafkaBroker(folder, port=port) as broker:
        version = JARS[0].rpartition(":")[2]
        print(
            f"Kafka {version} is reached at {broker.bootstrap}, from this machine only, without a password; topics are made on first use.\n"
            f"Its files are in {folder} until Ctrl-C ends it. In another terminal the example and the commands find it, and tests, by\n"
            f"    export KAFKA_BROKERS={broker.bootstrap} {BOOTSTRAP}={broker.bootstrap}",
            flush=True,
        )
        status = broker.process.wait()
        print(f"The broker ended by itself, with status {status}: {broker.process.log_tail()}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
