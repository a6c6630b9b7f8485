"""Where a streaming query writes each row exactly once: `Parquet`, `Delta`, `Postgres`, `Sqlite`. Needs pyspark and no engine.

A micro-batch is known by the query's id, which its checkpoint keeps, and its batch id: after a crash Spark repeats the newest one. Each
sink notes both in the same atomic step as the rows, and skips what it has, or it replaces. It is not known by txids: a query with state
has micro-batches without new transactions.
"""

try:
    import pyspark  # noqa: F401 - here, where its absence can be told
except ModuleNotFoundError as error:
    fix = "pip install 'stormcell[spark]'"
    raise ModuleNotFoundError(f"spark_bridge.sinks needs pyspark, which is not installed. Install it: {fix}", name=error.name) from None

from spark_bridge.sinks.batch import Sink, SinkBatch, SinkError, SinkUnavailable
from spark_bridge.sinks.delta import Delta
from spark_bridge.sinks.parquet import Parquet
from spark_bridge.sinks.postgres import Postgres
from spark_bridge.sinks.sqlite import Sqlite

__all__ = ["Delta", "Parquet", "Postgres", "Sink", "SinkBatch", "SinkError", "SinkUnavailable", "Sqlite"]
