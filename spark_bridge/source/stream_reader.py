"""Plans the offsets, partitions and commits of a streaming query. Runs in a process of the driver. Copies on executors only read rows."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_bridge.handover import Consumer, Handover, HandoverError, Manifest, Position
from spark_bridge.source.file_partition import FilePartition, partitions_of, read_partition
from spark_bridge.source.options import SourceOptions
from spark_bridge.source.planning import check_consumer, check_follows, check_not_planned, first_offset, last_txid

if TYPE_CHECKING:

    class SupportsTriggerAvailableNow:
        """Base class in Spark 4.2 and later."""

else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        SupportsTriggerAvailableNow = object

TXID: Final = "txid"


class HandoverStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of `spark.readStream.format("stormcell")`. The offset is the newest txid of a micro-batch: {"txid": n}.

    Spark 4.1 was observed to call these methods. For a new checkpoint, Spark calls latestOffset, initialOffset and partitions. After a
    restart, Spark calls partitions(n, n). Then Spark calls partitions of the same range again if a micro-batch was planned but not done,
    else latestOffset. After a restart before the end of the first micro-batch, Spark calls initialOffset and partitions. Spark calls
    `commit(n)` when it plans the next micro-batch, and never at the end of a query.

    From 4.2 on, Spark passes the start of a micro-batch. Before 4.2, the start is the newest txid that the consumer has planned.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target: int | None = None
        """Newest txid at the start of a query with the trigger availableNow (Spark 4.2)."""
        self._manifests: dict[int, Manifest] = {}
        """Manifests whose rows were counted, until they are planned."""
        self._requested: set[str] = set()
        """Offsets that Spark requested ("initial", "latest"), or "planned" after a plan. Only a new checkpoint requests both offsets."""
        self._is_gap_free = False
        """True after a check that no manifest is missing."""
        self._checkpoint_txid: int | None = None
        """Newest txid of the checkpoint, derived from the calls so far."""

    def __reduce__(self) -> tuple[Any, ...]:
        return HandoverStreamReader, (self._options,)

    @cached_property
    def _handover(self) -> Handover:
        return Handover.open(self._options.folder, self._options.storage)

    @cached_property
    def _consumer(self) -> Consumer | None:
        if self._options.consumer is None:
            return None
        check_consumer(self._handover, self._options.consumer)
        return self._handover.consumer(self._options.consumer)

    def initialOffset(self) -> dict[str, int]:
        """Return the start of the checkpoint. Spark calls this until the first micro-batch is done."""
        position = self._position()
        self._note_request("initial", position)
        return {TXID: first_offset(self._handover, self._options, position)}

    def latestOffset(self, start: Mapping[str, int] | None = None, limit: object = None) -> dict[str, int]:
        """Return the last txid of the next micro-batch. Spark passes `start` and `limit` from 4.2 on."""
        position = self._position()
        self._note_request("latest", position)
        newest = self._newest(position, start)
        begin = self._checkpoint_txid if start is None else _txid(start)
        if begin is not None and newest < begin:
            raise self._older_folder_error(begin, newest)  # check before Spark writes the lower offset to its log
        if begin is not None and self._consumer is not None and begin != position.planned:
            if begin == position.began and "planned" not in self._requested:
                return {TXID: position.planned}  # the checkpoint has lost its last entry, so repeat that plan
            check_follows(self._handover, self._options, position, begin, None, is_new="initial" in self._requested)
        if self._target is not None:
            newest = min(newest, self._target)
        options = self._options
        if type(limit).__name__ == "ReadAllAvailable" or (options.max_transactions is None and options.max_rows is None):
            return {TXID: newest}
        begin = self._begin(position) if begin is None else begin
        return {TXID: last_txid(begin, newest, options.max_transactions, options.max_rows, self._rows_of)}

    def _newest(self, position: Position, start: Mapping[str, int] | None) -> int:
        """Return the newest txid. Raises TransactionMissing for a gap below it, before Spark writes the offset to its log."""
        newest = self._handover.newest(position.planned)
        if not self._is_gap_free or self._handover.contract.by_attempt:  # otherwise newest() follows manifests one by one
            begin = self._checkpoint_txid if start is None else _txid(start)
            if begin is None:
                begin = position.planned or first_offset(self._handover, self._options, position)
            self._handover.check_unbroken(begin, newest)
            self._is_gap_free = True
        return newest

    def getDefaultReadLimit(self) -> Any:
        """Return the default limit for `latestOffset` (Spark 4.2 and later).

        The number is not used, because the options have the limits.
        """
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # type: ignore[import-not-found]

        bound = self._options.max_rows or self._options.max_transactions
        return ReadAllAvailable() if bound is None else ReadMaxRows(bound)

    def prepareForTriggerAvailableNow(self) -> None:
        """Exclude transactions that are committed from now on (Spark 4.2 and later)."""
        self._target = self._handover.newest(self._position().planned)

    def reportLatestOffset(self) -> dict[str, int]:
        """Return the newest txid, for the progress of the query (Spark 4.2 and later)."""
        return {TXID: self._handover.newest(self._position().planned)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the files of the transactions after `start` up to `end`. The consumer's plan is stored before this returns.

        Raises HandoverError with the txid if a transaction does not exist.
        """
        begin, last = _txid(start), _txid(end)
        if last < begin:
            raise self._older_folder_error(begin, last)
        if last == begin:
            self._checkpoint_txid = begin
            return []
        position = self._position()
        manifests = [self._manifest(txid, position.attempts.get(txid)) for txid in range(begin + 1, last + 1)]
        if self._consumer is not None:
            check_follows(self._handover, self._options, position, begin, last, is_new="initial" in self._requested)
            by_attempt = self._handover.contract.by_attempt
            self._consumer.plan(last, {each.txid: each.attempt_id for each in manifests} if by_attempt else {}, begin=begin)
        self._requested, self._checkpoint_txid = {"planned"}, last
        self._manifests = {txid: manifest for txid, manifest in self._manifests.items() if txid > last}
        return partitions_of(manifests, self._options.table, self._options.max_partition_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition, on an executor."""
        assert isinstance(partition, FilePartition)
        return read_partition(self._options, partition)

    def commit(self, end: dict[str, int]) -> None:
        """Store that Spark will not request transactions up to `end` again."""
        if self._consumer is not None:
            self._position()  # raises if the consumer was removed
            self._consumer.commit(_txid(end))

    def _note_request(self, offset: str, position: Position) -> None:
        """Note a request. Spark requests both offsets only for a new checkpoint, because its log has the end of a repeated micro-batch."""
        self._requested.add(offset)
        if self._requested == {"initial", "latest"}:
            check_not_planned(self._handover, self._options, position)

    def _position(self) -> Position:
        if self._consumer is None:
            return Position()
        position = self._consumer.find()
        if position is None:
            check_consumer(self._handover, self._consumer.name)  # a command has removed the consumer, so do not recreate it
        return position or Position()

    def _begin(self, position: Position) -> int:
        """Return the start of the next micro-batch, for Spark before 4.2."""
        if self._consumer is None:
            hint = 'Add .option("consumer", name): this version of Spark needs it, because the bound counts from the plan of a consumer.'
            raise HandoverError("maxTransactionsPerBatch or maxRowsPerBatch is set, but no consumer", hint=hint)
        starting = self._options.starting
        if position.planned == 0 or (isinstance(starting, int) and starting > position.planned):
            return first_offset(self._handover, self._options, position)
        return position.planned

    def _rows_of(self, txid: int) -> int:
        manifest = self._manifests[txid] = self._manifest(txid, None)
        return manifest.rows

    def _manifest(self, txid: int, attempt: int | None) -> Manifest:
        known = self._manifests.get(txid)
        return known if known is not None and attempt in (None, known.attempt_id) else self._handover.manifest(txid, attempt)

    def _older_folder_error(self, begin: int, last: int) -> HandoverError:
        text = f"{self._handover.storage.url}: the checkpoint of this query has txid {begin}, but the newest txid here is {last}"
        hint = (
            "The folder was recreated, restored from an older copy, or is another one. Use the folder that belongs to the checkpoint, "
            "or a new checkpoint with a new consumer."
        )
        return HandoverError(text, hint=hint)


def _txid(offset: Mapping[str, int]) -> int:
    """Return the txid of an offset. Raise HandoverError for any other value, because a damaged checkpoint may contain one."""
    value: object = offset
    txid = value.get(TXID) if isinstance(value, Mapping) else None
    if type(txid) is not int or not 0 <= txid < 2**63:
        text = f"the checkpoint of this query has the offset {value!r}, which is not an offset of this source"
        raise HandoverError(text, hint="Use the checkpoint of this query. If it is damaged, restore it from a copy.")
    return txid
