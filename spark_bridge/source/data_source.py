"""The data source `stormcell` of Spark, and its reader for `spark.read`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_bridge.handover import REJECTS_SCHEMA, RESERVED, Handover, HandoverError, ddl_of
from spark_bridge.source.file_partition import ADDED, FilePartition, partitions_of, read_partition
from spark_bridge.source.options import SourceOptions
from spark_bridge.source.planning import check_consumer
from spark_bridge.source.stream_reader import HandoverStreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REJECTS = pa.schema([field for field in REJECTS_SCHEMA if field.name not in RESERVED])
"""Own columns of `table=rejects`. The columns of `ADDED` follow, as in `table=rows`."""


class StormcellDataSource(DataSource):
    """Committed batches of a hand-over folder, with the columns of its schema, then `txid` and `batch_time`.

    >>> register(spark)                                                                       # doctest: +SKIP
    >>> batches = spark.readStream.format("stormcell").option("consumer", "per-minute").load("/data/handover")   # doctest: +SKIP

    Options of a stream: `consumer`, the name under which batches are kept until this query has read them. `startingTxid` ("committed",
    "earliest" or a number), the start of a new checkpoint. `maxTransactionsPerBatch` and `maxRowsPerBatch`, the bounds of a micro-batch.
    `maxPartitionBytes` (16m), up to which one task reads several files. Options of `spark.read`: `fromTxid` and `toTxid`. Options of both:
    `table` ("rows" or "rejects"), `storage.<name>` and `storageOptions` (a JSON object) for the file system of a URL.

    On Spark 4.1 the trigger availableNow runs one micro-batch, which contains all rows if no bound is set. From 4.2 on it runs as many
    micro-batches as needed.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._options = SourceOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "stormcell"

    def schema(self) -> str:
        """Return the declared columns, then the added ones. Raises HandoverError if the hand-over or the consumer does not exist."""
        handover = Handover.open(self._options.folder, self._options.storage)
        if self._options.consumer is not None:
            check_consumer(handover, self._options.consumer)
        return ddl_of(pa.schema([*self._columns(handover), *ADDED]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `spark.read`."""
        self._check_schema(schema)
        return HandoverBatchReader(self._options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for `spark.readStream`."""
        self._check_schema(schema)
        return HandoverStreamReader(self._options)

    def _columns(self, handover: Handover) -> pa.Schema:
        return handover.contract.schema if self._options.table == "rows" else REJECTS

    def _check_schema(self, schema: StructType) -> None:
        """Refuse a schema of the user, because the contract defines the columns."""
        handover = Handover.open(self._options.folder, self._options.storage)
        names = [*self._columns(handover).names, *(field.name for field in ADDED)]
        if schema.fieldNames() != names:
            text = f"the given schema has the columns {schema.fieldNames()}, but the hand-over has {names}"
            raise HandoverError(text, hint="Leave .schema() out, and use select() for the columns you need.")


class HandoverBatchReader(DataSourceReader):
    """Reader of `spark.read.format("stormcell")`: existing batches from `fromTxid` to `toTxid`, both included. Needs no consumer."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return the batches that exist when the query is planned. Raises HandoverError if a requested txid does not exist."""
        handover = Handover.open(self._options.folder, self._options.storage)
        first, last = self._bounds(handover)
        manifests = (handover.manifest(txid) for txid in range(first, last + 1))
        return partitions_of(manifests, self._options.table, self._options.max_partition_bytes)

    def _bounds(self, handover: Handover) -> tuple[int, int]:
        first = self._options.from_txid or handover.deleted() + 1
        last = self._options.to_txid or handover.newest()
        if self._options.from_txid and self._options.to_txid and last < first:
            raise HandoverError(f"fromTxid is {first}, but toTxid is {last}", hint="Both are included. fromTxid must not be above toTxid.")
        return first, last

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition, on an executor. Without partitions Spark passes None (4.3: a partition without a value)."""
        return read_partition(self._options, partition if isinstance(partition, FilePartition) else None)


def register(spark: "SparkSession") -> None:
    """Register `format("stormcell")` in a session, also of Spark Connect. Executors on other machines need `package_zip`."""
    spark.dataSource.register(StormcellDataSource)
