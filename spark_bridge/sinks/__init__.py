"""Sinks that write each row of a streaming query exactly once: `Parquet`, `Delta`, `Postgres`, `Sqlite`. Needs pyspark and no engine.

A micro-batch is identified by the query's id, which its checkpoint stores, and by its batch id. After a crash Spark repeats the newest
micro-batch. A sink stores both ids in the same atomic step as the rows and skips a repeat, or it replaces the rows. Txids would not
identify a micro-batch, because a query with state has micro-batches without new transactions.
"""

try:
    import pyspark  # noqa: F401 - here, because its absence is reported with the package to install
except ModuleNotFoundError as error:
    from spark_bridge.installation import install_command

    text = f"spark_bridge.sinks needs pyspark, which is not installed. Install it: {install_command('spark')}"
    raise ModuleNotFoundError(text, name=error.name) from None

from spark_bridge.sinks.batch import Sink, SinkBatch, SinkError, SinkUnavailable
from spark_bridge.sinks.delta import Delta
from spark_bridge.sinks.parquet import Parquet
from spark_bridge.sinks.postgres import Postgres
from spark_bridge.sinks.sqlite import Sqlite

__all__ = ["Delta", "Parquet", "Postgres", "Sink", "SinkBatch", "SinkError", "SinkUnavailable", "Sqlite"]
