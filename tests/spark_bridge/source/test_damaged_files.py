"""A damaged Parquet file is refused with its path and txid, before any row is returned (SP-2)."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_bridge.handover import HandoverError, TornFile
from spark_bridge.source.data_source import HandoverBatchReader
from spark_bridge.source.options import SourceOptions
from spark_bridge.source.stream_reader import HandoverStreamReader
from tests.spark_bridge.source.makes_reader import at, rows_of
from tests.spark_bridge.writer.playing import handover_at, run_hand_over
from tests.spark_bridge.writing import Writer

pytestmark = pytest.mark.guarantee("SP-2")
FLIPS: Final = 600


class Read:
    """A folder with eight batches of the engine, read as by an executor."""

    def __init__(self, folder: Path) -> None:
        self.handover = handover_at("local", folder)
        run_hand_over(self.handover, tasks=1)

    def rows(self, txid: int) -> Iterator[Any]:
        """Yield the record batches of a txid."""
        reader = HandoverBatchReader(SourceOptions.parse({"path": str(self.handover.folder), "fromTxid": str(txid), "toTxid": str(txid)}))
        for partition in reader.partitions():
            yield from reader.read(partition)

    def file(self, txid: int) -> Path:
        """Return the path of the only file of a txid."""
        [found] = Path(self.handover.folder, "files").glob(f"{txid:012}-*.parquet")
        return found


@pytest.fixture
def read(tmp_path: Path) -> Read:
    return Read(tmp_path / "spool")


def refused(read: Read, txid: int) -> str:
    """Return the error of a damaged txid. No row was returned before it."""
    given = []
    with pytest.raises(TornFile) as raised:
        given += read.rows(txid)
    assert not given
    assert read.file(txid).name in raised.value.message
    assert f"of txid {txid} " in raised.value.message
    return str(raised.value)


def test_a_flipped_byte_is_detected_anywhere(read: Read) -> None:
    path, seed = read.file(3), random.randrange(2**32)
    whole, chosen = path.read_bytes(), random.Random(seed)
    places = sorted({0, 3, len(whole) - 1, *(chosen.randrange(len(whole)) for _ in range(FLIPS))})
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= chosen.randrange(1, 256)
        path.write_bytes(changed)
        assert "is not the file that was committed" in refused(read, 3), f"seed {seed}, byte {place}"
    path.write_bytes(whole)
    assert sum(batch.num_rows for batch in read.rows(3)) == 4


def test_forty_overwritten_bytes_are_detected(read: Read) -> None:
    with open(read.file(2), "r+b") as file:
        file.seek(30)
        file.write(os.urandom(40))
    assert "its SHA-256 begins with" in refused(read, 2)


@pytest.mark.parametrize("lost", [1, 4, 8, 400, None])
def test_a_truncated_file_is_detected(read: Read, lost: int | None) -> None:
    size = read.file(1).stat().st_size
    left = 0 if lost is None else size - lost
    os.truncate(read.file(1), left)
    assert f"it has {left} bytes, and {size} were committed" in refused(read, 1)


def test_a_file_of_another_txid_is_detected(read: Read) -> None:
    """It is whole, has as many rows, and may have as many bytes."""
    read.file(4).write_bytes(read.file(5).read_bytes())
    assert "is not the file that was committed" in refused(read, 4)
    assert [row for batch in read.rows(5) for row in batch["number"].to_pylist()] == [16, 17, 18, 19]


def test_a_missing_file_is_named(read: Read) -> None:
    name = read.file(6).name
    read.file(6).unlink()
    with pytest.raises(HandoverError, match=f"{name}' of txid 6 is missing, and a manifest names it"):
        list(read.rows(6))


def test_files_of_an_earlier_version_are_read_and_their_size_is_verified(tmp_path: Path) -> None:
    """Its manifests have no digest, its pages no checksum."""
    old = Writer(tmp_path / "old", digests=False)
    old.commit_many(1, rows=4)
    [file, _] = old.handover.manifest(1).files
    assert file.digest is None
    query = HandoverStreamReader(SourceOptions.parse({"path": old.folder}))
    assert len(rows_of(query, query.partitions(at(0), at(1)))) == 4
    os.truncate(Path(old.folder, file.name), file.bytes - 1)
    with pytest.raises(TornFile, match=f"of txid 1 .* it has {file.bytes - 1} bytes, and {file.bytes} were committed"):
        rows_of(query, query.partitions(at(0), at(1)))
    Path(old.folder, file.name).write_bytes(b"x" * file.bytes)
    with pytest.raises(TornFile, match="of txid 1 cannot be read: ArrowInvalid"):
        rows_of(query, query.partitions(at(0), at(1)))


def test_pages_have_checksums_for_other_readers_too(read: Read) -> None:
    whole = read.file(3).read_bytes()
    assert len(pq.read_table(pa.BufferReader(whole), page_checksum_verification=True)) == 4
    column = pq.ParquetFile(read.file(3)).metadata.row_group(0).column(0)
    last = column.data_page_offset + column.total_compressed_size - 1
    changed = whole[: last - 8] + bytes([whole[last - 8] ^ 1]) + whole[last - 7 :]
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        pq.read_table(pa.BufferReader(changed), page_checksum_verification=True)
