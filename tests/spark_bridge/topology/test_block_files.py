"""Blocks on their way through files and through the driver: order, bounded pieces, repeated tries (CL-2, CL-3, CL-5)."""

import zipfile
import zipimport
from pathlib import Path
from typing import Any

import pytest

from spark_bridge.topology import job
from spark_bridge.topology.block_files import append_blocks, blocks_in, pieces_of
from spark_bridge.topology.blocks import NOTICE, Block, pack
from spark_bridge.topology.job import PieceNumbers, write_results
from spark_bridge.topology.result_files import ResultBlock, read_blocks
from spark_bridge.topology.worker_process import shorten_pauses


def block(source: int, sequence: int, content: Any = b"", attempt: int = 1) -> Block:
    return Block(2, 0, source, sequence, 0, attempt, pack(content))


@pytest.mark.guarantee("CL-2")
def test_a_file_gives_back_the_blocks_in_order(tmp_path: Path) -> None:
    written = [block(task, number, bytes(number)) for task in (3, 1) for number in range(50)]
    path = str(tmp_path / "blocks")
    append_blocks(path, written[:60])
    append_blocks(path, written[60:])
    assert list(blocks_in(path)) == written


@pytest.mark.guarantee("CL-5")
def test_pieces_are_bounded_and_lose_nothing() -> None:
    blocks = [block(1, number, bytes(number * 100)) for number in range(100)]
    largest = max(len(each.payload) for each in blocks)
    pieces = list(pieces_of(blocks, 20_000))
    assert [each for piece in pieces for each in piece] == blocks
    assert max(sum(len(each.payload) for each in piece) for piece in pieces) < 20_000 + largest
    assert len(pieces) > 10


@pytest.mark.guarantee("CL-5")
def test_results_through_the_driver_come_in_numbered_pieces_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "PIECE_BYTES", 1_000)
    partitions = [[block(task, number, bytes(150)) for number in range(30)] for task in (1, 2)]
    size = sum(len(each.payload) for each in partitions[0])
    numbers = PieceNumbers([0, size, 2 * size])
    numbered = [pair for index, blocks in enumerate(partitions) for pair in numbers(index, blocks)]
    assert [piece for piece, _ in numbered] == sorted(piece for piece, _ in numbered)
    assert numbered[-1][0] <= 2 * size // 1_000
    by_piece: dict[int, int] = {}
    for piece, each in numbered:
        by_piece[piece] = by_piece.get(piece, 0) + len(each.payload)
    assert max(by_piece.values()) < 1_000 + 200


@pytest.mark.guarantee("CL-3")
def test_results_of_another_try_than_the_counted_one_are_refused(tmp_path: Path) -> None:
    rows = ResultBlock(0, [("default", [(1,), (2,)])])
    [file] = write_results([block(5, 1, tuple(rows), attempt=8)], {8, 9}, str(tmp_path))
    assert list(read_blocks(file)) == [rows]
    with pytest.raises(ValueError, match="task 5 again"):
        write_results([block(5, 1, tuple(rows), attempt=7)], {8, 9}, str(tmp_path))
    assert block(NOTICE, 0).source == NOTICE


def test_finders_of_sparks_own_archives_are_dropped_and_those_of_users_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, users = str(tmp_path / "pyspark.zip"), str(tmp_path / "users.zip")
    for path in (own, users):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("module.py", "")
    cache: dict[str, Any] = {own: zipimport.zipimporter(own), users: zipimport.zipimporter(users), str(tmp_path): None}
    monkeypatch.setattr("sys.path_importer_cache", cache)
    monkeypatch.setenv("PYTHONPATH", f"/elsewhere:{own}")
    monkeypatch.setattr("spark_bridge.topology.worker_process._freeze_modules", lambda: None)
    shorten_pauses()
    assert set(cache) == {users, str(tmp_path)}
