"""Reading lines from the bytes of files (TX-10)."""

import random
from pathlib import Path
from typing import Any

import pytest

from engine import FatalError, UsageError
from engine.files.regular_file import OpenFile, open_file
from engine.transactional.files.lines import PIECE_BYTES, Limits, LineFormat, Piece, end_of_last_line, new_lines, same_lines

pytestmark = pytest.mark.guarantee("TX-10")

PLENTY = Limits(lines=10**9, bytes=10**9, line_bytes=10 * PIECE_BYTES)


def line_file(folder: Path, data: bytes) -> OpenFile:
    (folder / "file").write_bytes(data)
    file = open_file(str(folder), "file")
    assert file is not None
    return file


def joined(pieces: list[Piece], start: int = 0) -> bytes:
    """Join the bytes of pieces, after checking that they are adjacent and consist of whole lines."""
    for piece in pieces:
        assert piece.offset == start
        assert piece.data
        start = piece.end
    return b"".join(piece.data for piece in pieces)


def read(file: OpenFile, start: int = 0, limits: Limits = PLENTY, *, to_the_end: bool = False) -> bytes:
    return joined(list(new_lines(file, start, limits, to_the_end=to_the_end)), start)


def test_only_whole_lines_are_read(tmp_path: Path) -> None:
    with line_file(tmp_path, b"to\nbe\nor") as file:
        assert read(file) == b"to\nbe\n"
        assert read(file, 6) == b""
        assert read(file, 6, to_the_end=True) == b"or"
        assert read(file, to_the_end=True) == b"to\nbe\nor"


@pytest.mark.parametrize("seed", range(8))
def test_batches_of_any_size_give_every_line_once(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lengths = [rng.choice([0, 1, 5, 80, 3_000, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES]) for _ in range(rng.randint(1, 60))]
    lines = [bytes([97 + number % 26]) * length + b"\n" for number, length in enumerate(lengths)]
    data = b"".join(lines) + rng.choice([b"", b"rest"])
    with line_file(tmp_path, data) as file:
        got, ranges, start = b"", [], 0
        while start < file.size:
            limits = Limits(rng.choice([1, 2, 7, 10**6]), rng.choice([1, 100, 10_000, 10**6, 10**7]), PLENTY.line_bytes)
            batch = read(file, start, limits, to_the_end=True)
            assert batch
            assert batch.endswith(b"\n") or start + len(batch) == file.size
            assert batch.count(b"\n") <= limits.lines
            assert len(batch) <= limits.bytes or batch.count(b"\n") <= 1
            got += batch
            ranges.append((start, start + len(batch)))
            start += len(batch)
        assert got == data
        for start, end in ranges:
            assert joined(list(same_lines(file, start, end)), start) == data[start:end]


def test_pieces_are_small_except_for_a_long_line(tmp_path: Path) -> None:
    with line_file(tmp_path, b"a line of text\n" * 200_000) as file:
        assert max(len(piece.data) for piece in new_lines(file, 0, PLENTY, to_the_end=False)) <= PIECE_BYTES
        assert max(len(piece.data) for piece in same_lines(file, 0, file.size)) <= PIECE_BYTES


@pytest.mark.parametrize("tail", [b"", b"\nnext\n"])
def test_the_error_for_a_line_that_is_too_long_names_its_position(tmp_path: Path, tail: bytes) -> None:
    limits = Limits(1_000, 10**6, 2 * PIECE_BYTES)
    with line_file(tmp_path, b"to\n" + b"x" * (2 * PIECE_BYTES + 1) + tail) as file:
        with pytest.raises(FatalError, match=r"file 'file': the line at offset 3 has more than 524,288 bytes"):
            read(file, 3, limits)
    with line_file(tmp_path, b"to\n" + b"x" * (2 * PIECE_BYTES) + b"\n") as file:
        assert read(file, 3, limits).count(b"x") == 2 * PIECE_BYTES


def test_a_file_that_is_truncated_during_the_read_is_reported(tmp_path: Path) -> None:
    with line_file(tmp_path, b"to\nbe\n" * 1_000) as file:
        (tmp_path / "file").write_bytes(b"to\n")
        with pytest.raises(FatalError, match=r"file 'file' ends at offset 3, but had 6,000 bytes before"):
            read(file)
        with pytest.raises(FatalError, match="ends at offset 3"):
            list(same_lines(file, 0, 6_000))


@pytest.mark.parametrize(
    ("data", "end"),
    [(b"", 0), (b"to", 0), (b"to\n", 3), (b"to\nbe", 3), (b"\n\n", 2), (b"to\n" + b"x" * (2 * PIECE_BYTES), 3)],
)
def test_the_end_of_the_last_line_is_found_backwards(tmp_path: Path, data: bytes, end: int) -> None:
    with line_file(tmp_path, data) as file:
        assert end_of_last_line(file, 0, 4 * PIECE_BYTES) == end
        assert end_of_last_line(file, end, 4 * PIECE_BYTES) == end


def test_the_search_for_the_last_line_stops_after_the_longest_line(tmp_path: Path) -> None:
    with line_file(tmp_path, b"to\n" + b"x" * (3 * PIECE_BYTES)) as file:
        assert end_of_last_line(file, 0, PIECE_BYTES) == file.size


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        (("line",), [("to",), ("",), ("bé",)]),
        ("line", [("to",), ("",), ("bé",)]),
        (("file", "line"), [("log", "to"), ("log", ""), ("log", "bé")]),
        (("offset", "line"), [(10, "to"), (13, ""), (15, "bé")]),
        (("file",), [("log",)] * 3),
    ],
)
def test_a_line_becomes_a_tuple(fields: Any, rows: Any) -> None:
    assert LineFormat(fields, "utf-8", "strict").rows("to\n\r\nbé\n".encode(), 10, "log") == rows


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii", "cp1252", "gb18030"])
def test_text_is_decoded_the_same_as_one_piece_and_line_by_line(encoding: str) -> None:
    text = "to\nbe\r\nor\r\r\n\nnot\n"
    expected = [("to",), ("be",), ("or\r",), ("",), ("not",)]
    assert LineFormat(("line",), encoding, "strict").rows(text.encode(encoding), 0, "log") == expected
    assert LineFormat(("line",), None, "strict").rows(text.encode(), 0, "log") == [(line.encode(),) for (line,) in expected]


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_the_error_for_undecodable_bytes_names_their_position(encoding: str) -> None:
    data = b"to\nb\xff\n"
    with pytest.raises(FatalError, match=rf"file 'log': the byte 0xff at offset 104 is not valid {encoding}"):
        LineFormat(("line",), encoding, "strict").rows(data, 100, "log")
    assert LineFormat(("line",), encoding, "replace").rows(data, 0, "log") == [("to",), ("b\ufffd",)]
    assert LineFormat(("line",), None, "strict").rows(data, 0, "log") == [(b"to",), (b"b\xff",)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (((), "utf-8", "strict"), r"the fields of a line are \(\)"),
        ((("lines",), "utf-8", "strict"), r"the fields of a line are \('lines',\)"),
        ((("line", "line"), "utf-8", "strict"), r"each once"),
        ((("line",), "utf-9", "strict"), r"'utf-9' is not a known encoding"),
        ((("line",), 8, "strict"), r"8 is not a known encoding"),
        ((("line",), "utf-16", "strict"), r"lines of 'utf-16' do not end with the byte 0x0a"),
        ((("line",), "base64", "strict"), r"'base64' is not a known encoding"),
        ((("line",), "utf-8", "loose"), r"errors is 'loose'"),
        ((("line",), "utf-8", "xmlcharrefreplace"), r"errors is 'xmlcharrefreplace'"),
    ],
)
def test_wrong_settings_are_refused(arguments: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        LineFormat(*arguments)
