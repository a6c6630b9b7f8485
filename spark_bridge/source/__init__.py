"""Data source of Spark for committed batches: `spark.readStream.format("stormcell")` (SP-3). Needs pyspark and no engine.

Read the modules in this order: `options`, `data_source` (the entry, and the reader of `spark.read`), `stream_reader` (offsets, partitions
and commits, on the driver), `planning` (start and end of a micro-batch), `file_partition` (rows, on the executors), `package` (the zip for
executors).
"""

try:
    import pyspark  # noqa: F401 - here, to say what to install
except ModuleNotFoundError as error:
    from spark_bridge.installation import install_command

    text = f"spark_bridge.source needs pyspark, which is not installed. Install it: {install_command('spark')}"
    raise ModuleNotFoundError(text, name=error.name) from None

from spark_bridge.source.data_source import StormcellDataSource, register
from spark_bridge.source.package import package_zip

__all__ = ["StormcellDataSource", "package_zip", "register"]
