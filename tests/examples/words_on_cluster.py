"""`python -m tests.examples.words_on_cluster [--lines N]`: run examples/cluster_word_count.py on one core and on a cluster of Spark.

Starts its own Kafka broker and a cluster of two workers, and compares the committed counts. Ctrl-C ends everything.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from tests.examples.conftest import load
from tests.project.sources import ROOT
from tests.servers import kafka_broker, spark_cluster
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.spark_cluster import SparkCluster

EXAMPLE: Final = ROOT / "examples" / "cluster_word_count.py"
TOPIC: Final = "lines"
PARTITIONS: Final = 4
LINES: Final = 200_000
WORDS_OF_LINE: Final = 10
DIFFERENT_WORDS: Final = 5_000
SETTINGS: Final = ("spark.cores.max=2", "spark.executor.cores=1", f"spark.executorEnv.PYTHONPATH={ROOT}")
"""One executor of one core on each of the two workers. Executors import the engine of this folder."""


def main() -> int:
    """Return 0 if both engines have committed the right counts, 130 after Ctrl-C, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.examples.words_on_cluster", description="A word count on both engines.")
    parser.add_argument("--lines", type=int, default=LINES, help="records of the topic (%(default)s)")
    arguments = parser.parse_args()
    if reason := kafka_broker.why_not() or spark_cluster.why_not():
        print(f"There cannot be such servers here: {reason}", file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):  # a program started in the background ignores SIGINT by default
        signal.signal(number, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="stormcell-servers-") as folder:
            return on_servers(Path(folder), arguments.lines)
    except KeyboardInterrupt:
        say("Interrupted. All servers have ended.")
        return 130


def on_servers(folder: Path, lines: int) -> int:
    """Start both servers, fill the topic, and run the example on both engines."""
    say(f"Starting a Kafka broker, and a Spark master with {spark_cluster.WORKERS} workers")
    for name in ("kafka", "spark", "one-core", "cluster"):
        (folder / name).mkdir()
    with KafkaBroker(folder / "kafka") as broker, SparkCluster(folder / "spark") as cluster:
        expected = asyncio.run(fill(broker.bootstrap, lines))
        say(f"{lines:,} records, {expected.total():,} words, in {PARTITIONS} partitions of topic {TOPIC!r}")
        environment = os.environ | {"KAFKA_BROKERS": broker.bootstrap, "LINES_TOPIC": TOPIC}
        engines: dict[str, Sequence[str]] = {
            "one-core": ("engine", "run", str(EXAMPLE)),
            "cluster": (
                "spark_bridge",
                "topology",
                str(EXAMPLE),
                "--master",
                cluster.master,
                *(word for each in SETTINGS for word in ("--conf", each)),
            ),
        }
        counts = {}
        for name, words in engines.items():
            end = run(words, environment | {"COUNTS_FOLDER": str(folder / name)})
            if end is None:
                return 1
            counts[name] = load("cluster_word_count").counted(folder / name)
            say(told(name, end, counts[name]))
        return compare(counts["one-core"], counts["cluster"], expected)


async def fill(brokers: str, lines: int) -> Counter[str]:
    """Create the topic and write the lines. Return the plain count of their words."""
    await create_topic(brokers, TOPIC, PARTITIONS)
    counts: Counter[str] = Counter()
    async with AIOKafkaProducer(bootstrap_servers=brokers, linger_ms=20, max_batch_size=2**18) as producer:
        for number, line in enumerate(made_lines(lines)):
            counts.update(line)
            await producer.send(TOPIC, " ".join(line).encode(), partition=number % PARTITIONS)
    return counts


def made_lines(lines: int) -> Iterator[list[str]]:
    """Yield the words of each line. They are the same in each run."""
    rng = random.Random(7)
    words = [f"word{number}" for number in range(DIFFERENT_WORDS)]
    for _ in range(lines):
        yield rng.choices(words, k=WORDS_OF_LINE)


def run(words: Sequence[str], environment: dict[str, str]) -> dict[str, Any] | None:
    """Run a command to its end. Return its last line of JSON, None if it has failed.

    The command has a session of its own, so Ctrl-C reaches it once: from here. The first one drains it.
    """
    command = [sys.executable, "-m", *words, "--json"]
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        try:
            output, _ = child.communicate()
        except KeyboardInterrupt:
            say("Interrupted. The run drains its open batches. A second Ctrl-C stops it at once.")
            end(child)
            raise
        finally:
            child.kill()
            child.wait()
        if child.returncode:
            errors.seek(0)
            print(f"{' '.join(words[:2])} has failed with status {child.returncode}:\n{errors.read()}", file=sys.stderr)
            return None
    told: dict[str, Any] = json.loads(output.splitlines()[-1])
    return told


def end(child: "subprocess.Popen[str]") -> None:
    """Pass an interrupt on, and wait for the end. Another interrupt is passed on too."""
    child.send_signal(signal.SIGINT)
    try:
        child.communicate()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        child.communicate()


def told(name: str, ended: dict[str, Any], counts: dict[str, int]) -> str:
    """Return the line about one engine."""
    snapshot = ended["snapshot"]
    batches, secs = snapshot["transactions"]["committed"], snapshot["uptime_secs"]
    title = {"one-core": "The engine on one core", "cluster": "The same file on Spark"}[name]
    jobs = f", {snapshot['jobs']['done']} jobs" if "jobs" in snapshot else ""
    return f"{title}: {batches} batches{jobs}, {secs:.1f} s, {sum(counts.values()):,} words, {len(counts):,} different ones"


def compare(here: dict[str, int], there: dict[str, int], expected: Counter[str]) -> int:
    """Compare both tables with each other, and with a plain count."""
    if here == there == expected:
        say("The committed tables are equal, and equal to a plain count.")
        return 0
    for name, counts in (("engine", here), ("Spark", there)):
        wrong = sorted(word for word in expected.keys() | counts.keys() if counts.get(word, 0) != expected[word])
        say(f"DIFFERENT by {name}: {len(wrong):,} words, such as {wrong[:5]}")
    return 1


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
