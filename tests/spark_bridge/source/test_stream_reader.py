"""Calls of Spark to the stream reader, in Spark's order, without Spark."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from spark_bridge.handover import HandoverError, TornFile, TransactionDeleted, TransactionMissing
from spark_bridge.source.file_partition import FilePartition
from spark_bridge.source.options import SourceOptions
from spark_bridge.source.stream_reader import HandoverStreamReader
from tests.spark_bridge.source.makes_reader import MakesReader, at, position, rows_of
from tests.spark_bridge.writing import TIME_MS, Writer


@pytest.mark.guarantee("SP-3")
def test_the_offset_is_the_txid(writer: Writer, reader: MakesReader) -> None:
    query = reader()
    assert query.latestOffset() == query.initialOffset() == at(0)
    writer.commit_many(3)
    assert query.latestOffset() == at(3)
    assert query.initialOffset() == at(0)


@pytest.mark.guarantee("SP-3")
def test_rows_come_once_with_their_txid_and_time(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(2, rows=2)
    query = reader()
    rows = rows_of(query, query.partitions(at(0), at(2)))
    assert [row[:3] for row in rows] == [("1", 0, 1), ("1", 1, 1), ("2", 0, 2), ("2", 1, 2)]
    assert [row[3].timestamp() * 1000 for row in rows] == [TIME_MS + 1, TIME_MS + 1, TIME_MS + 2, TIME_MS + 2]


@pytest.mark.guarantee("SP-3")
def test_planned_is_stored_before_the_partitions_and_committed_at_commit(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(4)
    query = reader()
    query.partitions(at(0), at(3))
    assert (position(writer).planned, position(writer).committed) == (3, 0)
    query.partitions(at(3), at(4))
    query.commit(at(3))
    assert (position(writer).planned, position(writer).committed) == (4, 3)


@pytest.mark.guarantee("SP-3")
def test_a_repeated_micro_batch_has_the_same_rows(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(4)
    first = reader()
    first.partitions(at(0), at(1))
    rows = rows_of(first, first.partitions(at(1), at(3)))
    again = reader()
    assert again.partitions(at(3), at(3)) == []
    assert rows_of(again, again.partitions(at(1), at(3))) == rows
    assert position(writer).planned == 3


@pytest.mark.guarantee("SP-3")
def test_before_spark_42_the_bound_counts_from_the_planned_txid(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(9)
    query = reader(maxTransactionsPerBatch="4")
    assert query.latestOffset() == at(4)
    query.partitions(at(0), at(4))
    assert query.latestOffset() == reader(maxTransactionsPerBatch="4").latestOffset() == at(8)
    query.partitions(at(4), at(8))
    assert query.latestOffset() == at(9)


@pytest.mark.guarantee("SP-3")
def test_since_spark_42_the_bound_counts_from_the_start_offset(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(9)
    query = HandoverStreamReader(SourceOptions.parse({"path": writer.folder, "maxTransactionsPerBatch": "4"}))
    assert query.latestOffset(at(3), None) == at(7)
    query.prepareForTriggerAvailableNow()
    writer.commit_many(3)
    assert query.latestOffset(at(7), None) == at(9)
    assert query.reportLatestOffset() == at(12)


@pytest.mark.guarantee("SP-3")
def test_a_micro_batch_is_bounded_by_rows(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(5, rows=10)
    query = reader(maxRowsPerBatch="25")
    assert query.latestOffset() == at(2)
    assert len(rows_of(query, query.partitions(at(0), at(2)))) == 20
    assert query.latestOffset() == at(4)


@pytest.mark.guarantee("SP-3")
def test_a_micro_batch_may_have_exactly_the_bound_of_rows(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(5, rows=10)
    assert reader(maxRowsPerBatch="20").latestOffset() == at(2)


def test_a_bound_needs_a_consumer_before_spark_42(writer: Writer) -> None:
    query = HandoverStreamReader(SourceOptions.parse({"path": writer.folder, "maxTransactionsPerBatch": "4"}))
    with pytest.raises(HandoverError, match="but no consumer"):
        query.latestOffset()


def test_small_neighbours_are_read_by_one_task(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(4)
    [together] = reader().partitions(at(0), at(4))
    assert [part.txid for part in together.value] == [1, 1, 2, 2, 3, 3, 4, 4]
    size = together.value[0].file.bytes
    apart = reader(maxPartitionBytes=str(3 * size)).partitions(at(0), at(4))
    assert [len(partition.value) for partition in apart] == [3, 3, 2]
    assert len(reader(maxPartitionBytes="1").partitions(at(0), at(4))) == 8


def test_an_empty_batch_has_no_partition(writer: Writer, reader: MakesReader) -> None:
    writer.commit()
    assert reader().partitions(at(0), at(1)) == []
    assert position(writer).planned == 1


@pytest.mark.guarantee("SP-3")
def test_the_error_of_an_unknown_consumer_names_the_others(writer: Writer, reader: MakesReader) -> None:
    with pytest.raises(HandoverError, match=r"no consumer 'd' \(it has: c\)"):
        reader(consumer="d").latestOffset()
    with pytest.raises(HandoverError, match="not a valid name of a consumer"):
        reader(consumer="../c").latestOffset()


@pytest.mark.guarantee("SP-3")
def test_a_new_checkpoint_for_a_consumer_with_a_position_is_refused(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(5)
    first = reader()
    first.partitions(at(0), at(3))
    first.commit(at(2))
    with pytest.raises(HandoverError, match="planned up to txid 3 and committed up to 2") as raised:
        reader().initialOffset()
    assert all(way in str(raised.value) for way in ("its old checkpoint", "consumer of its own", '"committed"'))


@pytest.mark.guarantee("SP-3")
@pytest.mark.parametrize("version", ["4.1", "4.2"])
def test_a_repeated_first_micro_batch_is_no_new_checkpoint(writer: Writer, reader: MakesReader, version: str) -> None:
    """Both call initialOffset while nothing is committed. Only a new query calls latestOffset, before or after it."""
    writer.commit_many(5)
    reader().partitions(at(0), at(3))
    again = reader()
    assert again.initialOffset() == at(0)
    again.partitions(at(0), at(3))
    assert again.latestOffset() == at(5)
    new = reader()
    with pytest.raises(HandoverError, match="planned up to txid 3 and committed up to 0"):
        (new.latestOffset(), new.initialOffset()) if version == "4.1" else new.latestOffset(new.initialOffset(), None)


@pytest.mark.guarantee("SP-3")
@pytest.mark.parametrize(("starting", "begin"), [("committed", 2), ("earliest", 0), ("2", 1), ("6", 5)])
def test_a_new_checkpoint_begins_at_starting_txid(writer: Writer, reader: MakesReader, starting: str, begin: int) -> None:
    writer.commit_many(5)
    reader().partitions(at(0), at(3))
    reader().commit(at(2))
    assert reader(startingTxid=starting).initialOffset() == at(begin)


def test_a_starting_txid_without_a_batch_is_refused(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(5)
    writer.delete_up_to(2)
    assert reader(startingTxid="earliest").initialOffset() == at(2)
    with pytest.raises(TransactionDeleted, match="all transactions up to txid 2 are deleted"):
        reader(startingTxid="2").initialOffset()
    with pytest.raises(HandoverError, match="the newest txid is 5"):
        reader(startingTxid="7").initialOffset()


@pytest.mark.guarantee("SP-3")
def test_a_bound_skips_deleted_txids(writer: Writer, reader: MakesReader) -> None:
    """Spark 4.1 calls latestOffset of a new checkpoint before initialOffset."""
    writer.commit_many(9)
    writer.delete_up_to(4)
    query = reader(maxTransactionsPerBatch="2")
    assert (query.latestOffset(), query.initialOffset()) == (at(6), at(4))
    assert reader(maxTransactionsPerBatch="2", startingTxid="8").latestOffset() == at(9)


@pytest.mark.guarantee("SP-3")
def test_a_deleted_txid_stops_the_query(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(5)
    writer.delete_up_to(2)
    with pytest.raises(TransactionDeleted, match="txid 1 is deleted"):
        reader().partitions(at(0), at(5))
    assert position(writer).planned == 0


@pytest.mark.guarantee("SP-3")
def test_a_missing_or_torn_manifest_stops_the_query(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(5)
    manifest = Path(writer.folder, "manifests", "000000000003.json")
    manifest.write_bytes(manifest.read_bytes()[:-20])
    with pytest.raises(TornFile, match="of txid 3 is damaged"):
        reader().partitions(at(0), at(5))
    query = reader()
    assert query.latestOffset() == at(5)
    manifest.unlink()
    with pytest.raises(TransactionMissing, match=r"manifest of txid 3 is missing, and 'manifests/000000000004\.json' is there"):
        query.partitions(at(0), at(5))


@pytest.mark.guarantee("SP-3")
@pytest.mark.parametrize("planned", [0, 2])
def test_a_stray_manifest_is_named_before_its_txid_is_an_offset(writer: Writer, reader: MakesReader, planned: int) -> None:
    writer.commit_many(3)
    if planned:
        reader().partitions(at(0), at(planned))
    manifests = Path(writer.folder, "manifests")
    stray = manifests / "000000001000.json"
    stray.write_bytes((manifests / "000000000003.json").read_bytes())
    again = reader()
    if planned:  # names are followed one by one from there
        assert again.partitions(at(planned), at(planned)) == []
        assert again.latestOffset() == at(3)
    else:
        with pytest.raises(TransactionMissing, match=r"txid 4 is missing, and 'manifests/000000001000\.json' is there") as raised:
            again.latestOffset()
        assert "move it away" in str(raised.value)
    stray.unlink()
    assert reader().latestOffset() == at(3)


@pytest.mark.guarantee("SP-3")
def test_a_file_that_is_missing_or_changed_stops_the_query(writer: Writer, reader: MakesReader) -> None:
    writer.commit([("a", 1)], [("b", 2)])
    query = reader()
    partitions = query.partitions(at(0), at(1))
    first, _ = (Path(writer.folder, part.file.name) for partition in partitions for part in partition.value)
    first.write_bytes(b"PAR1")
    with pytest.raises(HandoverError, match=r"'files/000000000001-.*' of txid 1 is not the file that was committed"):
        rows_of(query, partitions)
    first.unlink()
    with pytest.raises(HandoverError, match=r"'files/000000000001-.*' of txid 1 is missing"):
        rows_of(query, partitions)


@pytest.mark.parametrize("offset", [{}, {"txid": "3"}, {"txid": -1}, {"txid": None}, {"txid": 10**30}, {"topic": {"0": 3}}, []])
def test_a_wrong_offset_is_refused(offset: Any, writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(3)
    query = reader()
    for ask in (
        lambda: query.partitions(offset, at(3)),
        lambda: query.partitions(at(0), offset),
        lambda: query.latestOffset(offset),
        lambda: query.commit(offset),
    ):
        with pytest.raises(HandoverError, match="the checkpoint of this query has the offset"):
            ask()
    assert position(writer).planned == 0


def test_a_folder_older_than_the_checkpoint_stops_the_query(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(2)
    with pytest.raises(HandoverError, match="the checkpoint of this query has txid 5, but the newest txid here is 2"):
        reader().partitions(at(5), at(2))


def test_a_repeated_micro_batch_reads_the_planned_attempt(tmp_path: Path) -> None:
    """Manifests are named by attempt, and a higher attempt of the same txid appears later."""
    writer = Writer(tmp_path / "handover", consumers=["c"], by_attempt=True)
    writer.commit([("a", 1)], attempt=7)
    options = SourceOptions.parse({"path": writer.folder, "consumer": "c"})
    first = HandoverStreamReader(options)
    rows = rows_of(first, first.partitions(at(0), at(1)))
    writer.newest = 0
    writer.commit([("b", 2)], attempt=8)
    again = HandoverStreamReader(options)
    assert rows_of(again, again.partitions(at(0), at(1))) == rows
    without = HandoverStreamReader(SourceOptions.parse({"path": writer.folder}))
    assert rows_of(without, without.partitions(at(0), at(1)))[0][0] == "b"


def test_a_reader_is_pickled_without_open_files(writer: Writer, reader: MakesReader) -> None:
    writer.commit_many(2)
    query = reader()
    [partition] = query.partitions(at(0), at(2))
    copied, there = pickle.loads(pickle.dumps((query, partition)))
    assert isinstance(there, FilePartition)
    assert rows_of(copied, [there]) == rows_of(query, [partition])


def test_record_batches_are_bounded(tmp_path: Path) -> None:
    """The limit is in bytes: 64 rows of 256 kB come in several batches."""
    writer = Writer(tmp_path / "handover")
    writer.commit([(chr(97 + n % 26) * (1 << 18) + str(n), n) for n in range(64)])
    query = HandoverStreamReader(SourceOptions.parse({"path": writer.folder}))
    [partition] = query.partitions(at(0), at(1))
    batches = list(query.read(partition))
    assert len(batches) > 1
    assert sum(batch.num_rows for batch in batches) == 64
