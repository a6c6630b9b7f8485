"""A checkpoint must continue from the planned txid of its consumer. Otherwise the query is refused, so no batch is skipped."""

import pytest

from spark_bridge.handover import HandoverError
from spark_bridge.source.stream_reader import HandoverStreamReader
from tests.spark_bridge.source.makes_reader import MakesReader, at, position, rows_of
from tests.spark_bridge.writing import Writer

pytestmark = pytest.mark.guarantee("SP-1", "SP-3")


def started_again(query: HandoverStreamReader, txid: int) -> HandoverStreamReader:
    """Restart a reader, as Spark 4.1 does for a checkpoint at this txid."""
    assert query.partitions(at(txid), at(txid)) == []
    return query


def test_a_checkpoint_that_lost_its_last_entry_continues(writer: Writer, reader: MakesReader) -> None:
    """Spark does not fsync its log, so a power failure can lose the entry. The next micro-batch then has the same batches."""
    writer.commit_many(4)
    first = reader()
    first.partitions(at(0), at(2))
    rows = rows_of(first, first.partitions(at(2), at(4)))
    writer.commit_many(5)
    for start in (None, at(2)):
        again = started_again(reader(), 2)
        assert again.latestOffset(start) == at(4)
        assert rows_of(again, again.partitions(at(2), at(4))) == rows
        assert again.latestOffset(start and at(4)) == at(9)


@pytest.mark.parametrize("start", [None, 0])
def test_a_checkpoint_that_lost_more_entries_is_refused(writer: Writer, reader: MakesReader, start: int | None) -> None:
    writer.commit_many(9)
    first = reader()
    for begin, end in ((0, 2), (2, 4)):
        first.partitions(at(begin), at(end))
    again = started_again(reader(), 0)
    with pytest.raises(HandoverError, match=r"continues after txid 0, but its consumer 'c' has planned up to txid 4") as raised:
        again.latestOffset(None if start is None else at(start))
    assert "put back a set that belongs together" in str(raised.value)
    with pytest.raises(HandoverError, match="continues after txid 0"):
        again.partitions(at(0), at(9))
    assert (position(writer).planned, position(writer).committed) == (4, 0)


def test_a_recreated_folder_is_refused(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(3)
    with pytest.raises(HandoverError, match="has txid 5, but the newest txid here is 3"):
        started_again(reader(), 5).latestOffset()  # Spark has not written 3 down
    writer.commit_many(5)
    with pytest.raises(HandoverError, match="continues after txid 5, but its consumer 'c' has planned up to txid 0") as raised:
        started_again(reader(), 5).latestOffset()
    assert '.option("startingTxid", "6")' in str(raised.value)
    told = started_again(reader(startingTxid="6"), 5)
    assert told.latestOffset() == at(8)
    told.partitions(at(5), at(8))
    assert position(writer).planned == 8


def test_a_self_join_reads_the_same_rows_or_is_refused(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(4)
    left, right = reader(), reader()
    for query in (left, right):
        query.partitions(at(0), at(4))
    writer.commit_many(2)
    left.partitions(at(4), at(6))
    with pytest.raises(HandoverError, match="joins the stream with itself"):
        right.partitions(at(4), at(5))
    with pytest.raises(HandoverError, match="joins the stream with itself"):
        right.latestOffset()


def test_a_removed_consumer_is_not_added_again_by_its_stream(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(4)
    query = reader()
    query.partitions(at(0), at(2))
    writer.handover.consumer("c").remove()
    for ask in (query.latestOffset, lambda: query.partitions(at(2), at(4)), lambda: query.commit(at(2))):
        with pytest.raises(HandoverError, match="no consumer 'c'"):
            ask()
    assert writer.handover.consumers() == {}


def test_a_requested_reread_keeps_its_transactions(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(9)
    first = reader()
    first.partitions(at(0), at(5))
    first.partitions(at(5), at(7))
    first.commit(at(5))
    new = reader(startingTxid="2")
    assert (new.latestOffset(), new.initialOffset()) == (at(9), at(1))
    new.partitions(at(1), at(4))
    assert (position(writer).planned, position(writer).committed) == (4, 1)
    again = reader(startingTxid="2", maxTransactionsPerBatch="3")
    assert again.initialOffset() == at(1)
    again.partitions(at(1), at(4))
    assert again.latestOffset() == at(7)
    older = started_again(reader(startingTxid="2"), 1)
    assert older.latestOffset() == at(4)
