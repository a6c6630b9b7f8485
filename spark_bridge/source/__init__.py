"""Committed batches as a streaming DataFrame: `spark.readStream.format("stormcell")` (SP-3). Needs pyspark and no engine.

A query's life, in reading order: `options` (what a user says), `data_source` (what Spark asks first), `starting` (where a new checkpoint
begins), `continuing` (whether one goes on from where its consumer is),
`stream_reader` (offsets, partitions, commits, on the driver), `admission` (how much a micro-batch takes), `file_partition` (the
rows, on the executors). `batch_reader` is `spark.read`; `package` makes the zip that executors need.
"""

try:
    import pyspark  # noqa: F401 - here, where its absence can be told
except ModuleNotFoundError as error:
    fix = "pip install 'stormcell[spark]'"
    raise ModuleNotFoundError(f"spark_bridge.source needs pyspark, which is not installed. Install it: {fix}", name=error.name) from None

from spark_bridge.source.data_source import StormcellDataSource, register
from spark_bridge.source.package import package_zip

__all__ = ["StormcellDataSource", "package_zip", "register"]
