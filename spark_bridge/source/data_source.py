"""What Spark knows by the name `stormcell`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from spark_bridge.handover import REJECTS_SCHEMA, RESERVED, Handover, HandoverError, ddl_of
from spark_bridge.source.batch_reader import HandoverBatchReader
from spark_bridge.source.file_partition import ADDED
from spark_bridge.source.options import SourceOptions
from spark_bridge.source.starting import check_consumer
from spark_bridge.source.stream_reader import HandoverStreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REJECTS = pa.schema([field for field in REJECTS_SCHEMA if field.name not in RESERVED])
"""The columns of `table=rejects`, to which those are added as to the others."""


class StormcellDataSource(DataSource):
    """The committed batches of a hand-over folder: the columns of its schema, then `txid` and `batch_time`.

    >>> register(spark)                                                                       # doctest: +SKIP
    >>> batches = spark.readStream.format("stormcell").option("consumer", "per-minute").load("/data/handover")   # doctest: +SKIP

    Options of a stream: `consumer`, the name that keeps batches until this query has them; `startingTxid` ("committed", "earliest" or a
    number) where a new checkpoint begins; `maxTransactionsPerBatch` and `maxRowsPerBatch`, which bound a micro-batch; `maxPartitionBytes`
    (16m), up to which neighbouring files are read by one task. Of `spark.read`: `fromTxid` and `toTxid`. Of both: `table` ("rows", or
    "rejects"); `storage.<name>` and `storageOptions` (a JSON object) for the file system of a URL.

    The trigger availableNow takes one micro-batch on Spark 4.1 (and all that there is, without the two bounds); from 4.2 on all of them.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._options = SourceOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "stormcell"

    def schema(self) -> str:
        """The declared columns, then the added ones. Raises HandoverError where there is no hand-over, or no such consumer."""
        handover = Handover.open(self._options.folder, self._options.storage)
        if self._options.consumer is not None:
            check_consumer(handover, self._options.consumer)
        return ddl_of(pa.schema([*self._columns(handover), *ADDED]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of `spark.read`."""
        self._check(schema)
        return HandoverBatchReader(self._options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Of `spark.readStream`."""
        self._check(schema)
        return HandoverStreamReader(self._options)

    def _columns(self, handover: Handover) -> pa.Schema:
        return handover.contract.schema if self._options.table == "rows" else REJECTS

    def _check(self, schema: StructType) -> None:
        """A schema of the user's own is refused: the contract has it."""
        handover = Handover.open(self._options.folder, self._options.storage)
        names = [*self._columns(handover).names, *(field.name for field in ADDED)]
        if schema.fieldNames() != names:
            text = f"the schema that is given has the columns {schema.fieldNames()}, the hand-over {names}"
            raise HandoverError(text, hint="Leave .schema() out, and select() what is needed.")


def register(spark: "SparkSession") -> None:
    """Make `format("stormcell")` known to a session, of Spark Connect too. Executors elsewhere need `package_zip`."""
    spark.dataSource.register(StormcellDataSource)
