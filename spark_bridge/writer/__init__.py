"""Engine's side of the hand-over. Writes each committed batch as Parquet files with a manifest (SP-2, SP-6). Needs no Spark."""

from spark_bridge import handover  # noqa: F401 - first, since without pyarrow it says what to install
from spark_bridge.writer.spark_handover import SparkHandover

__all__ = ["SparkHandover"]
