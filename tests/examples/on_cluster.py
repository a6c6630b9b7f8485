"""`python -m tests.examples.on_cluster ARGUMENTS`: run examples/log_etl with its own Kafka broker and Spark cluster."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.project.sources import ROOT
from tests.servers import kafka_broker, spark_cluster
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.spark_cluster import SparkCluster

EXAMPLE = ROOT / "examples" / "log_etl"


def main() -> int:
    """Start both servers, run the example, and stop them. Return its status, or 1 if a server is not available."""
    if reason := kafka_broker.why_not() or spark_cluster.why_not():
        print(f"There cannot be such servers here: {reason}", file=sys.stderr)
        return 1
    print("Starting a Kafka broker, and a Spark master with two workers", flush=True)
    with tempfile.TemporaryDirectory(prefix="stormcell-servers-") as folder:
        kafka, spark = Path(folder, "kafka"), Path(folder, "spark")
        kafka.mkdir()
        spark.mkdir()
        with KafkaBroker(kafka) as broker, SparkCluster(spark) as cluster:
            command = [sys.executable, str(EXAMPLE), "--kafka", broker.bootstrap, "--master", cluster.master, *sys.argv[1:]]
            return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
