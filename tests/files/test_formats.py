"""Rows of random files, judged by Python's csv, json and gzip modules (FI-1, FI-2)."""

import csv
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from engine.files import input_file, read_ahead
from tests.files.play import play, rows_of, write
from tests.tiers import cases

SEEDS = range(cases(300))


def small_pieces(monkeypatch: pytest.MonkeyPatch, draw: random.Random) -> None:
    """Read random small pieces, so that each boundary between rows and pieces occurs."""
    monkeypatch.setattr(input_file, "PIECE_BYTES", draw.choice([1, 2, 7, 30, 200, 128 * 1024]))
    monkeypatch.setattr(read_ahead, "READ_BYTES", draw.choice([1, 50, 2**20]))


def text(draw: random.Random, letters: str, longest: int = 6) -> str:
    return "".join(draw.choice(letters) for _ in range(draw.randrange(longest)))


def lines_file(draw: random.Random) -> tuple[bytes, list[tuple[Any, ...]], dict[str, Any]]:
    lines = [text(draw, 'ab \t,"é€😀\x0b\u2028') for _ in range(draw.randrange(30))]
    ends = draw.choice(["\n", "\r\n"])
    data = ends.join(lines) + (ends if draw.random() < 0.5 else "")
    expected = data.split("\n")[: None if data and not data.endswith("\n") else -1]
    return data.encode(), [(line.removesuffix("\r"),) for line in expected], {"format": "lines"}


def json_file(draw: random.Random) -> tuple[bytes, list[tuple[Any, ...]], dict[str, Any]]:
    values = [{"user": text(draw, 'ab"\\\né€'), "n": draw.randrange(9), "x": [None, {}]} for _ in range(draw.randrange(30))]
    end = draw.choice(["\n", "\r\n", "\n\n"])
    data = "".join(json.dumps(value, ensure_ascii=draw.random() < 0.5) + end for value in values)
    if draw.random() < 0.5:
        data = data.rstrip()
    parsed = [json.loads(line) for line in data.split("\n") if line.strip()]
    if draw.random() < 0.5:
        return data.encode(), [(value["n"], value["user"]) for value in parsed], {"format": "jsonl", "fields": ("n", "user")}
    return data.encode(), [(value,) for value in parsed], {"format": "jsonl"}


def csv_file(draw: random.Random) -> tuple[bytes, list[tuple[Any, ...]], dict[str, Any]]:
    columns, delimiter = [f"c{number}" for number in range(draw.randrange(1, 4))], draw.choice(",;\t")
    letters = draw.choice(['ab,;"\n é', "abé"])
    records = [[text(draw, letters) for _ in columns] for _ in range(draw.randrange(25))]
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator=draw.choice(["\n", "\r\n"]), quoting=draw.choice([0, 0, 1]))
    has_header = draw.random() < 0.7
    if has_header:
        writer.writerow(columns)
    writer.writerows(records)
    if draw.random() < 0.2:
        file.write("\n\n")
    data = file.getvalue() if draw.random() < 0.7 else file.getvalue().rstrip("\r\n")
    expected = [row for row in csv.reader(io.StringIO(data, newline=""), delimiter=delimiter) if row][has_header:]
    options: dict[str, Any] = {"format": "csv", "delimiter": delimiter, "header": has_header}
    take = list(range(len(columns)))
    if not has_header or draw.random() < 0.5:
        if has_header:
            draw.shuffle(take)
        options["fields"] = [columns[number] for number in take]
    bom = b"\xef\xbb\xbf" if draw.random() < 0.3 else b""
    return bom + data.encode(), [tuple(row[number] for number in take) for row in expected], options


def compressed(draw: random.Random, data: bytes) -> bytes:
    """Return gzip data of one or several members."""
    cuts = sorted(draw.randrange(len(data) + 1) for _ in range(draw.randrange(3)))
    parts = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return b"".join(gzip.compress(part) + bytes(draw.choice([0, 3])) for part in parts)


@pytest.mark.guarantee("FI-1")
@pytest.mark.parametrize("kind", [lines_file, json_file, csv_file])
def test_random_files_have_the_rows_that_python_reads(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        draw = random.Random(seed)
        data, expected, options = kind(draw)
        while not data and options.get("format") == "csv":
            data, expected, options = kind(draw)
        is_gzip = draw.random() < 0.4
        path = write(tmp_path / ("rows.gz" if is_gzip else "rows"), compressed(draw, data) if is_gzip else data)
        with monkeypatch.context() as patch:
            small_pieces(patch, draw)
            assert rows_of(path, **options) == expected, f"seed {seed}: {data!r}"


@pytest.mark.guarantee("FI-5")
@pytest.mark.parametrize("kind", [lines_file, json_file, csv_file])
def test_a_position_behind_each_row_continues_with_the_next_row(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(cases(40)):
        draw = random.Random(1000 + seed)
        names = [f"{number}{draw.choice(['', '.gz'])}" for number in range(draw.randrange(1, 4))]
        data, _, options = kind(draw)
        if not data:
            continue
        for number, name in enumerate(names):
            content = data if number == 0 or options["format"] == "csv" else kind(draw)[0]
            write(tmp_path / name, compressed(draw, content) if name.endswith(".gz") else content)
        options = {
            "fields": ("n", "user") if options["format"] == "jsonl" else (),
            **options,
            "add_fields": ("file", "line_number", "offset"),
        }
        with monkeypatch.context() as patch:
            small_pieces(patch, draw)
            whole = play(tmp_path, **options)
            for number in draw.sample(range(len(whole.rows)), min(len(whole.rows), 8)):
                rest = play(tmp_path, start=whole.positions[number], **options)
                assert rest.rows == whole.rows[number + 1 :], f"seed {seed}, row {number}"
        for name in names:
            (tmp_path / name).unlink()


@pytest.mark.guarantee("FI-1")
def test_columns_are_taken_by_name_whatever_their_order(tmp_path: Path) -> None:
    write(tmp_path / "1.csv", "user,page\nada,/\n")
    write(tmp_path / "2.csv", "page,hour,user\n/x,3,bob\n")
    assert rows_of(f"{tmp_path}/*.csv", "csv", add_fields="line_number") == [("ada", "/", 2), ("bob", "/x", 2)]


@pytest.mark.guarantee("FI-1")
def test_lines_can_be_bytes_and_other_encodings(tmp_path: Path) -> None:
    path = write(tmp_path / "lines", "gr\xfcn\n".encode("latin-1"))
    assert rows_of(path, encoding=None) == [(b"gr\xfcn",)]
    assert rows_of(path, encoding="latin-1") == rows_of(path, encoding="cp1252") == [("gr\xfcn",)]
    assert rows_of(path, errors="replace") == [("gr\ufffdn",)]
    sjis = write(tmp_path / "sjis", "表,ソ\n能,x\n".encode("shift_jis"))
    assert rows_of(sjis, "csv", encoding="shift_jis", header=False, fields=("a", "b")) == [("表", "ソ"), ("能", "x")]
