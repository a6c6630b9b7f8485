"""The engine's side of the hand-over: each committed batch as Parquet files under a manifest (SP-2, SP-6). Needs no Spark."""

from spark_bridge import handover  # noqa: F401 - before all: without pyarrow it says what to install
from spark_bridge.committer.spark_handover import SparkHandover

__all__ = ["SparkHandover"]
