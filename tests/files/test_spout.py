"""Failed rows, bad rows, missing and unusual files, several tasks, and the settings of a `FileSpout` (FI-2, FI-4 to FI-9)."""

import dataclasses
import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from engine import ComponentError, Config, ConfigError, FailTuple, FileSpout, TopologyBuilder, UsageError, bolt
from engine.files import FileOptions, FileSettings
from engine.state.codec import MessagePack
from engine.testing import Capture, Finished, RunUnfinished, run_topology
from tests.files.play import Kept, play, rows_of, run_observed, topology, write


def run_with(capture: Capture, paths: Any, format: Any = "lines", bad: Capture | None = None, **options: Any) -> Finished:
    return run_topology(topology(lambda: FileSpout(paths, format, **options), capture=capture, bad=bad))


def metrics(finished: Finished) -> dict[str, float]:
    sums: dict[str, float] = {}
    for metric in finished.snapshot.user_metrics:
        sums[metric.name] = sums.get(metric.name, 0) + metric.value
    return sums


def error_of(paths: Any, format: Any = "lines", **options: Any) -> str:
    """Return the error that ends a run."""
    with pytest.raises(ComponentError) as raised:
        rows_of(paths, format, **options)
    return str(raised.value)


# Paths


@pytest.mark.guarantee("FI-2")
def test_a_list_keeps_its_order_and_each_file_comes_once(tmp_path: Path) -> None:
    for name in "cab":
        write(tmp_path / f"{name}.txt", f"{name}\n")
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    assert rows_of([tmp_path / "c.txt", f"{tmp_path}/*.txt"]) == [("c",), ("a",), ("b",)]


@pytest.mark.guarantee("FI-2")
def test_a_folder_has_its_files_that_are_not_hidden(tmp_path: Path) -> None:
    write(tmp_path / "a", "1\n")
    write(tmp_path / ".hidden", "2\n")
    (tmp_path / "folder").mkdir()
    assert rows_of(tmp_path) == [("1",)]


@pytest.mark.guarantee("FI-2")
def test_tasks_share_the_files(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path / f"{number}", "".join(f"{number} {line}\n" for line in range(100)))
    kept = Kept()
    run_observed(kept, tmp_path, tasks=3)
    assert sorted(kept.values()) == sorted(f"{number} {line}" for number in range(20) for line in range(100))
    files = [set(spout.position()) for spout in kept.last.values()]
    assert sum(map(len, files)) == len(set.union(*files)) == 20


@pytest.mark.guarantee("FI-5")
def test_the_number_of_tasks_may_change_between_runs(tmp_path: Path) -> None:
    for number in range(10):
        write(tmp_path / f"{number}", "".join(f"{number} {line}\n" for line in range(50)))
    first, second = Kept(), Kept()
    run_observed(first, tmp_path, tasks=3)
    position = {key: place for at in first.positions[len(first.positions) // 2 :][:1] for key, place in at.items()}
    done = sum(place[3] for place in position.values())
    run_observed(second, tmp_path, start=position, tasks=2)
    assert len(second.rows) == 500 - done
    assert len(set(second.rows)) == len(second.rows)


@pytest.mark.guarantee("FI-2")
def test_what_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert "'nothing.txt': the file does not exist" in error_of("nothing.txt")
    assert "no file matches the pattern" in error_of(f"{tmp_path}/*.log")
    assert "the folder has no files" in error_of(tmp_path / "empty")
    assert "it is not a regular file" in error_of(tmp_path / "pipe")
    assert "write follow=True to wait" in error_of("nothing.txt")


@pytest.mark.guarantee("FI-2")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    write(tmp_path / "secret", "1\n").chmod(0)
    assert "may not be read" in error_of(tmp_path / "secret")


# Bad rows


@pytest.mark.guarantee("FI-6")
@pytest.mark.parametrize(
    ("format", "data", "line", "error"),
    [
        ("lines", b"1\n\xff\n3\n", 2, "its byte 1 (0xff) is not valid utf-8"),
        ("jsonl", b'{"n":1}\n\n{"n":\n{"n":3}\n', 3, "it is not valid JSON: Expecting value"),
        ("jsonl", b'{"n":1}\n{"m":2}\n', 2, "it has no 'n' (it has: m)"),
        ("jsonl", b'{"n":1}\n[2]\n', 2, "it is [2], and not an object"),
        ("jsonl", b'{"n":1}\n' + b"[" * 100_000 + b"\n", 2, "its JSON is nested too deeply"),
        ("csv", b"n\n1\n2,2\n3\n", 3, "it has 2 fields instead of 1"),
        ("csv", b"n\n1\na\rb\n3\n", 3, "it is not valid CSV"),
        ("csv", b'n\n1\n"2\n\xff"\n3\n', 3, "its byte 1 (0xff) is not valid utf-8"),
        ("csv", b'n\n1\n"2\n3\n', 3, "it opens a quote that is not closed before the end of the file"),
    ],
)
def test_a_bad_row_ends_the_run_or_is_skipped_or_diverted(format: Any, data: bytes, line: int, error: str, tmp_path: Path) -> None:
    path = write(tmp_path / "rows", data)
    options: dict[str, Any] = {"fields": "n"} if format == "jsonl" else {}
    assert f"file {str(path)!r}, line {line}: {error}" in error_of(path, format, **options)
    skipped, diverted = Capture(), Capture()
    finished = run_with(skipped, path, format, on_bad="skip", **options)
    assert metrics(finished)["file_bad_rows"] == 1
    assert f"line {line}: {error}" in finished.errors[0].text
    quarantine = Capture()
    run_with(diverted, path, format, on_bad="divert", bad=quarantine, **options)
    [(file, number, text, raw)] = quarantine.values
    assert (file, number) == (str(path), line)
    assert error in text
    assert raw in data
    assert diverted.values == skipped.values
    assert len(skipped.values) == {"lines": 2}.get(format, 2 if b"3" in data and b"[" not in data else 1)


@pytest.mark.guarantee("FI-6")
@pytest.mark.parametrize("name", ["rows", "rows.gz"])
@pytest.mark.parametrize("format", ["lines", "csv"])
def test_a_huge_line_is_bad_and_takes_little_memory(format: Any, name: str, tmp_path: Path) -> None:
    data = b"n\n" + b"x" * 5_000_000 + b'\n2\n"open\n' + b"y" * 3_000_000 + b"\n" + b"z" * 3_000_000
    path = write(tmp_path / name, gzip.compress(data) if name.endswith("gz") else data)
    capture = Capture()
    finished = run_with(capture, path, format, on_bad="skip")
    assert capture.values == ([("2",)] if format == "csv" else [("n",), ("2",), ('"open',)])
    assert metrics(finished)["file_bad_rows"] == (4 if format == "csv" else 3)
    assert "it has 5,000,001 bytes, and max_line_bytes is 1,048,576" in finished.errors[0].text
    if format == "lines":
        whole = play(path, format, on_bad="skip")
        assert [play(path, format, at, on_bad="skip").rows for at in whole.positions] == [whole.rows[n:] for n in (1, 2, 3)]


@pytest.mark.guarantee("FI-6")
def test_a_quote_that_is_never_closed_costs_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", 'n\n1\n"2\n' + "".join(f"{number}\n" for number in range(400_000)))
    capture = Capture()
    finished = run_with(capture, path, "csv", on_bad="skip")
    assert len(capture.values) == 400_001
    assert "line 3: it opens a quote that is not closed before the end of 1,048,576 bytes" in finished.errors[0].text


@pytest.mark.guarantee("FI-6")
def test_a_row_that_no_bolt_can_take_is_bad(tmp_path: Path) -> None:
    path = write(tmp_path / "rows", '{"k":1}\n{"k":{}}\n{"k":3}\n')
    capture = Capture()
    builder = TopologyBuilder("keys")
    builder.set_spout("rows", lambda: FileSpout(path, "jsonl", fields="k", on_bad="skip"))
    builder.set_bolt("sink", capture, 2).fields_grouping("rows", "k")
    finished = run_topology(builder.build())
    assert sorted(capture.values) == [(1,), (3,)]
    assert "line 2: it cannot be emitted" in finished.errors[0].text


@pytest.mark.guarantee("FI-6")
def test_diverted_rows_need_a_reader(tmp_path: Path) -> None:
    builder = TopologyBuilder("files")
    builder.set_spout("rows", lambda: FileSpout(write(tmp_path / "a", "1\n"), on_bad="divert"))
    builder.set_bolt("sink", Capture()).shuffle_grouping("rows")
    with pytest.raises(ComponentError, match="nobody reads its stream 'bad'"):
        run_topology(builder.build())


@pytest.mark.guarantee("FI-4")
def test_compressed_files_that_are_damaged_or_cut_end_the_run(tmp_path: Path) -> None:
    whole = gzip.compress(os.urandom(100_000).hex().encode())
    assert "ends in the middle of its compressed data" in error_of(write(tmp_path / "cut.gz", whole[:-9]))
    assert "is damaged" in error_of(write(tmp_path / "bad.gz", whole[:50_000] + b"\0" * 50 + whole[50_050:]))
    assert "is not compressed by gzip" in error_of(write(tmp_path / "text.gz", b"text\n"))


# Failed rows


@pytest.mark.guarantee("FI-7")
def test_a_failed_row_is_emitted_again_until_it_is_processed(tmp_path: Path) -> None:
    path = write(tmp_path / "rows", "1\n2\n3\n")
    tries: dict[str, int] = {}

    @bolt()
    def picky(tup: Any) -> None:
        tries[tup["line"]] = tries.get(tup["line"], 0) + 1
        if tup["line"] == "2" and tries["2"] < 5:
            raise FailTuple

    builder = TopologyBuilder("files")
    builder.set_spout("rows", lambda: FileSpout(path))
    builder.set_bolt("picky", picky).shuffle_grouping("rows")
    finished = run_topology(builder.build())
    assert tries == {"1": 1, "2": 5, "3": 1}
    assert not finished.snapshot.undone


@pytest.mark.guarantee("FI-7")
def test_a_row_is_given_up_after_its_retries_and_told(tmp_path: Path) -> None:
    @bolt()
    def never(tup: Any) -> None:
        raise FailTuple("no")

    builder = TopologyBuilder("files")
    builder.set_spout("rows", lambda: FileSpout(write(tmp_path / "rows", "1\n"), max_retries=2))
    builder.set_bolt("never", never).shuffle_grouping("rows")
    finished = run_topology(builder.build())
    assert finished.snapshot.undone.failed == 1
    assert "was given up after 3 emits" in finished.errors[0].text
    assert metrics(finished)["file_rows_given_up"] == 1


@pytest.mark.guarantee("FI-7")
def test_at_most_max_in_flight_rows_are_open(tmp_path: Path) -> None:
    path = write(tmp_path / "rows", "".join(f"{number}\n" for number in range(1000)))
    capture = Capture(settles=False)
    with pytest.raises(RunUnfinished):
        run_topology(
            topology(lambda: FileSpout(path, max_in_flight=10), capture=capture), Config(enable_message_timeouts=False), limit_secs=10
        )
    assert len(capture.values) == 10


# Lost positions


@pytest.mark.guarantee("FI-5")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.write_text("1\n"), "4 bytes of it were read, and it has 2 bytes now"),
        (lambda path: path.write_text("x\n2\n3\n"), "4 bytes of it were read, and other bytes are there now"),
        (lambda path: path.rename(path.with_name("elsewhere")), "4 bytes of it were read, and there is no such file now"),
    ],
)
def test_a_lost_position_ends_the_run_or_is_told(change: Any, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "rows.log", "1\n2\n3\n")
    write(tmp_path / "other.log", "4\n")
    pattern = f"{tmp_path}/*.log"
    whole = play(pattern)
    behind = next(at for at in whole.positions if any(place[2] == 4 for place in at.values()))
    change(path)
    with pytest.raises(ComponentError) as raised:
        play(pattern, start=behind)
    assert f"the position in file {str(path)!r} is lost: {why}" in str(raised.value)
    assert 'on_lost="skip"' in str(raised.value)
    kept = Kept()
    finished = run_observed(kept, pattern, start=behind, on_lost="skip")
    assert metrics(finished)["file_positions_lost"] == 1
    assert why in caplog.text
    left = path.read_text().split() if path.exists() else []
    assert kept.values() == left
    codec = MessagePack()
    again = play(pattern, start=codec.decode(codec.encode(kept.last[0].position())), on_lost="fail")
    assert again.rows == []


@pytest.mark.guarantee("FI-5")
def test_a_file_that_was_read_to_its_end_may_be_removed(tmp_path: Path) -> None:
    path = write(tmp_path / "1.log", "1\n")
    write(tmp_path / "2.log", "2\n")
    kept = play(f"{tmp_path}/*.log")
    path.unlink()
    assert play(f"{tmp_path}/*.log", start=kept.last[0].position()).rows == []


@pytest.mark.guarantee("FI-5")
def test_a_position_of_something_else_is_refused(tmp_path: Path) -> None:
    for position in (7, {"a": 3}, {"a": [1, 2]}):
        with pytest.raises(ComponentError, match="this is no position of a FileSpout"):
            play(write(tmp_path / "a", "1\n"), start=position)  # type: ignore[arg-type]


@pytest.mark.guarantee("FI-5")
def test_a_seek_in_the_middle_of_a_run_goes_back(tmp_path: Path) -> None:
    path = write(tmp_path / "rows", "".join(f"{number}\n" for number in range(5000)))

    class Back(FileSpout):
        polls = 0

        def next_tuples(self, limit: int) -> None:
            super().next_tuples(limit)
            type(self).polls += 1
            if self.polls == 4:
                self.at = self.position()
            if self.polls == 8:
                self.seek(self.at)

    capture = Capture()
    run_topology(topology(lambda: Back(path), capture=capture))
    numbers = [int(line) for (line,) in capture.values]
    [back] = [index for index in range(1, len(numbers)) if numbers[index] != numbers[index - 1] + 1]
    assert numbers == [*range(numbers[back - 1] + 1), *range(numbers[back], 5000)]
    assert 0 < numbers[back] < numbers[back - 1]


# Settings


@pytest.mark.guarantee("FI-2")
def test_all_faults_of_the_settings_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        FileSpout([], "lines", fields=("a", "b"), add_fields="x", errors="?", delimiter="ab", on_bad="drop")  # type: ignore[arg-type]
    assert "on_bad" in str(raised.value)
    with pytest.raises(ConfigError) as raised:
        FileSpout([], "lines", fields=("a", "b"), add_fields="x", errors="?", delimiter="ab")
    assert len(raised.value.faults) == 5
    with pytest.raises(ConfigError, match="without a header the columns have no names"):
        FileSpout("a.csv", "csv", header=False)
    with pytest.raises(UsageError, match=r"the columns of 'missing.csv' are unknown: there is no file yet"):
        FileSpout("missing.csv", "csv")
    with pytest.raises(ConfigError, match="nonsense"):
        FileSpout("a", nonsense=1)  # type: ignore[call-arg]


@pytest.mark.guarantee("FI-1")
def test_a_file_whose_header_lacks_a_column_ends_the_run(tmp_path: Path) -> None:
    write(tmp_path / "1.csv", "user,page\nada,/\n")
    write(tmp_path / "2.csv", "user,url\nbob,/\n")
    assert "2.csv' has no column 'page' in its header (it has: user, url)" in error_of(f"{tmp_path}/*.csv", "csv")
    assert "has several columns 'a'" in error_of(write(tmp_path / "3.csv", "a,a\n1,2\n"), "csv", fields="a")


@pytest.mark.guarantee("FI-9")
def test_metrics_count_files_rows_and_bytes(tmp_path: Path) -> None:
    write(tmp_path / "1", "1\n2\n")
    write(tmp_path / "2", "3\n")
    counted = metrics(run_with(Capture(), tmp_path))
    assert {name: value for name, value in counted.items() if value} == {"files_read": 2, "file_rows": 3, "file_bytes": 6}


def test_each_setting_is_an_option() -> None:
    assert {field.name for field in dataclasses.fields(FileSettings)} == {"paths", "format", "fields", *FileOptions.__annotations__}
