"""`spark.read.format("stormcell")`: committed batches as they are now, with no consumer."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_bridge.handover import Handover, HandoverError
from spark_bridge.source.file_partition import FilePartition, partitions_of, read_partition
from spark_bridge.source.options import SourceOptions


class HandoverBatchReader(DataSourceReader):
    """Reads from `fromTxid` up to `toTxid`, both included."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """What there is when the query is planned. Raises HandoverError for a txid that is asked for and not there."""
        handover = Handover.open(self._options.folder, self._options.storage)
        first, last = self._bounds(handover)
        manifests = (handover.manifest(txid) for txid in range(first, last + 1))
        return partitions_of(manifests, self._options.table, self._options.max_partition_bytes)

    def _bounds(self, handover: Handover) -> tuple[int, int]:
        first = self._options.from_txid or handover.deleted() + 1
        last = self._options.to_txid or handover.newest()
        if self._options.from_txid and self._options.to_txid and last < first:
            raise HandoverError(f"fromTxid is {first}, and toTxid {last}", hint="Both are included, and the first is the smaller one.")
        return first, last

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, on an executor. Where there is none Spark gives None, and 4.3 one without a value."""
        return read_partition(self._options, partition if isinstance(partition, FilePartition) else None)
