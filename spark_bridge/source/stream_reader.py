"""Offsets, partitions and commits of a streaming query. It lives in a process of the driver; its copies on executors only read."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_bridge.handover import Consumer, Handover, HandoverError, Manifest, Position
from spark_bridge.source.admission import admitted
from spark_bridge.source.continuing import check_follows
from spark_bridge.source.file_partition import FilePartition, partitions_of, read_partition
from spark_bridge.source.options import SourceOptions
from spark_bridge.source.starting import check_consumer, check_not_planned, first_offset

if TYPE_CHECKING:

    class SupportsTriggerAvailableNow:
        """Of Spark 4.2 and later."""

else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        SupportsTriggerAvailableNow = object

TXID: Final = "txid"


class HandoverStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The offset is the newest txid that was taken: {"txid": n}.

    What Spark calls, seen on 4.1. New checkpoint: latestOffset, initialOffset, partitions. Restart: partitions(n, n), then, where a
    micro-batch was planned and not done, partitions of the same range once more; else latestOffset. Restart before the first micro-batch
    is done: initialOffset, partitions. `commit(n)` comes when the micro-batch behind it is planned, and not at the end of a query.

    From 4.2 on Spark says where a micro-batch begins; before, it is counted from what the consumer has planned.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target: int | None = None
        """The newest txid when a query with the trigger availableNow began (Spark 4.2)."""
        self._manifests: dict[int, Manifest] = {}
        """Those whose rows were counted, until they are planned."""
        self._asked: set[str] = set()
        """Which offsets Spark has asked for before it planned anything: a new checkpoint needs both."""
        self._is_unbroken = False
        """True once no manifest was found missing."""
        self._at: int | None = None
        """Up to where the checkpoint has come, as far as Spark has said it."""

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
        """Where the checkpoint begins; asked for until its first micro-batch is done."""
        position = self._position()
        self._see("initial", position)
        return {TXID: first_offset(self._handover, self._options, position)}

    def latestOffset(self, start: Mapping[str, int] | None = None, limit: object = None) -> dict[str, int]:
        """The last txid of the next micro-batch. `start` and `limit`: from Spark 4.2 on."""
        position = self._position()
        self._see("latest", position)
        newest = self._newest(position, start)
        begin = self._at if start is None else _txid(start)
        if begin is not None and newest < begin:
            raise self._older_than_checkpoint(begin, newest)  # before Spark writes down the lower one
        if begin is not None and self._consumer is not None and begin != position.planned:
            if begin == position.began and "planned" not in self._asked:
                return {TXID: position.planned}  # the checkpoint has lost its last entry: what it planned then comes again
            check_follows(self._handover, self._options, position, begin, None, is_new="initial" in self._asked)
        if self._target is not None:
            newest = min(newest, self._target)
        options = self._options
        if type(limit).__name__ == "ReadAllAvailable" or (options.max_transactions is None and options.max_rows is None):
            return {TXID: newest}
        begin = self._begin(position) if begin is None else begin
        return {TXID: admitted(begin, newest, options.max_transactions, options.max_rows, self._rows_of)}

    def _newest(self, position: Position, start: Mapping[str, int] | None) -> int:
        """The newest txid. Raises TransactionMissing where it is behind a gap, before Spark writes it down as an offset."""
        newest = self._handover.newest(position.planned)
        if not self._is_unbroken or self._handover.contract.by_attempt:  # else manifests are followed one by one
            begin = self._at if start is None else _txid(start)
            if begin is None:
                begin = position.planned or first_offset(self._handover, self._options, position)
            self._handover.check_unbroken(begin, newest)
            self._is_unbroken = True
        return newest

    def getDefaultReadLimit(self) -> Any:
        """Spark 4.2 and later: what `latestOffset` is given unless a trigger wants all. The number is not used: the options are."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # type: ignore[import-not-found]

        bound = self._options.max_rows or self._options.max_transactions
        return ReadAllAvailable() if bound is None else ReadMaxRows(bound)

    def prepareForTriggerAvailableNow(self) -> None:
        """Spark 4.2 and later: what comes from now on is not taken."""
        self._target = self._handover.newest(self._position().planned)

    def reportLatestOffset(self) -> dict[str, int]:
        """Spark 4.2 and later: the newest txid there is, for the progress of the query."""
        return {TXID: self._handover.newest(self._position().planned)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The files behind `start` up to `end`, which the consumer has noted when this returns.

        Raises HandoverError, which names the txid, for what is not there.
        """
        begin, last = _txid(start), _txid(end)
        if last < begin:
            raise self._older_than_checkpoint(begin, last)
        if last == begin:
            self._at = begin
            return []
        position = self._position()
        manifests = [self._manifest(txid, position.attempts.get(txid)) for txid in range(begin + 1, last + 1)]
        if self._consumer is not None:
            check_follows(self._handover, self._options, position, begin, last, is_new="initial" in self._asked)
            by_attempt = self._handover.contract.by_attempt
            self._consumer.plan(last, {each.txid: each.attempt_id for each in manifests} if by_attempt else {}, begin=begin)
        self._asked, self._at = {"planned"}, last
        self._manifests = {txid: manifest for txid, manifest in self._manifests.items() if txid > last}
        return partitions_of(manifests, self._options.table, self._options.max_partition_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, on an executor."""
        assert isinstance(partition, FilePartition)
        return read_partition(self._options, partition)

    def commit(self, end: dict[str, int]) -> None:
        """Note that nothing up to `end` is asked for again."""
        if self._consumer is not None:
            self._position()  # raises where the consumer was removed
            self._consumer.commit(_txid(end))

    def _see(self, offset: str, position: Position) -> None:
        """A micro-batch that comes again has its end in the checkpoint: Spark asks for the latest offset of a new one alone."""
        self._asked.add(offset)
        if self._asked == {"initial", "latest"}:
            check_not_planned(self._handover, self._options, position)

    def _position(self) -> Position:
        if self._consumer is None:
            return Position()
        position = self._consumer.find()
        if position is None:
            check_consumer(self._handover, self._consumer.name)  # a command has removed it, and it does not come back by itself
        return position or Position()

    def _begin(self, position: Position) -> int:
        """Where the next micro-batch begins, before Spark 4.2; a new checkpoint begins where `first_offset` says."""
        if self._consumer is None:
            hint = 'Add .option("consumer", name): on this version of Spark the bound is counted from what a consumer has planned.'
            raise HandoverError("maxTransactionsPerBatch or maxRowsPerBatch is given, and no consumer", hint=hint)
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

    def _older_than_checkpoint(self, begin: int, last: int) -> HandoverError:
        text = f"{self._handover.storage.url}: the checkpoint of this query has txid {begin}, and the newest txid here is {last}"
        hint = (
            "Was the folder begun anew, or restored from an older copy, or is it another one than before? Use the folder that belongs to "
            "the checkpoint, or a new checkpoint (and with it a new consumer)."
        )
        return HandoverError(text, hint=hint)


def _txid(offset: Mapping[str, int]) -> int:
    """Return the txid of an offset; raise HandoverError for what can be none, as a damaged checkpoint may give it."""
    given: object = offset
    txid = given.get(TXID) if isinstance(given, Mapping) else None
    if type(txid) is not int or not 0 <= txid < 2**63:
        text = f"the checkpoint of this query has the offset {given!r}, which is none of this source"
        raise HandoverError(text, hint="It is of another query, or damaged: use that of this query, or restore it from a copy.")
    return txid
