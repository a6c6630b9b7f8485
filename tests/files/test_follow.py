"""Followed files: appended rows, new, renamed, truncated, removed and compressed files (FI-3, FI-4, FI-5)."""

import asyncio
import gzip
import logging
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from engine.runtime.run import Run
from tests.files.play import Kept, Position, run_observed, write
from tests.tiers import cases


class Script:
    """What a test does while a spout follows its files."""

    def __init__(self, kept: Kept, run: Run) -> None:
        self.kept = kept
        self._run = run

    async def rows(self, count: int) -> list[Any]:
        """Wait until so many rows were emitted, and return the first value of each."""
        async with asyncio.timeout(60):
            while len(self.kept.rows) < count:  # noqa: ASYNC110 - a list has no event to wait for
                await asyncio.sleep(0.05)
        return self.kept.values()

    async def looks(self, count: int = 3) -> None:
        """Wait for some looks at the files."""
        await asyncio.sleep(count * 0.2)

    def metric(self, name: str) -> float:
        return sum(metric.value for metric in self._run.snapshot().user_metrics if metric.name == name)

    def position(self) -> Position:
        """Return the position of all tasks."""
        whole: Position = {}
        for spout in self.kept.last.values():
            mine = spout.position()
            assert not whole.keys() & mine.keys(), "two tasks report one file"
            whole |= mine
        return whole


def follow(paths: Any, script: Callable[[Script], Coroutine[Any, Any, None]], **options: Any) -> Kept:
    kept = Kept()

    async def during(run: Run) -> None:
        await script(Script(kept, run))
        await run.stop()

    run_observed(kept, paths, during=during, follow=True, **options)
    return kept


def append(path: Path, data: str) -> None:
    with path.open("a") as file:
        file.write(data)


@pytest.mark.guarantee("FI-3")
def test_appended_rows_and_new_files_are_read(tmp_path: Path) -> None:
    async def script(it: Script) -> None:
        await it.looks()
        append(tmp_path / "a.log", "1\n2\n3")
        assert await it.rows(2) == ["1", "2"]
        await it.looks()
        assert len(it.kept.rows) == 2, "a line without its end waits"
        append(tmp_path / "a.log", "3\n")
        append(tmp_path / "b.log", "4\n")
        assert sorted(await it.rows(4)) == ["1", "2", "33", "4"]
        assert it.metric("file_rows") == 4
        assert it.metric("file_lag_bytes") == 0

    follow(tmp_path / "*.log", script)


@pytest.mark.guarantee("FI-3")
def test_a_missing_file_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def script(it: Script) -> None:
        await it.looks()
        write(tmp_path / "late.log", "1\n")
        assert await it.rows(1) == ["1"]

    with caplog.at_level(logging.INFO, "engine.files"):
        follow(tmp_path / "late.log", script)
    assert "the file does not exist. The spout waits for it" in caplog.text


@pytest.mark.guarantee("FI-3")
@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_a_rotated_file_is_read_to_its_end_before_the_new_one(pattern: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = write(tmp_path / "app.log", "1\n")

    async def script(it: Script) -> None:
        await it.rows(1)
        append(log, "".join(f"old {number}\n" for number in range(1000)))
        log.rename(tmp_path / "app.log.1")
        write(log, "new\n")
        rows = await it.rows(1002)
        assert rows == ["1", *(f"old {number}" for number in range(1000)), "new"]
        append(tmp_path / "app.log.1", "late\n")  # a writer that has not noticed the rotation
        assert (await it.rows(1003))[-1] == "late"
        assert it.metric("files_rotated") == 1

    with caplog.at_level(logging.INFO, "engine.files"):
        follow(tmp_path / pattern, script)
    assert ("was renamed to" if "*" in pattern else "was moved away or removed. Its rest is read") in caplog.text


@pytest.mark.guarantee("FI-4")
@pytest.mark.parametrize("longer", [False, True])
def test_a_truncation_is_told_and_the_file_is_read_anew(longer: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = write(tmp_path / "app.log", "1\n2\n")

    async def script(it: Script) -> None:
        await it.rows(2)
        await it.looks()
        write(log, "a\nb\nc\nd\n" if longer else "a\n")
        await it.rows(6 if longer else 3)
        assert it.metric("files_truncated") == 1
        assert next(place[5] for place in it.position().values()) == "closed"
        assert len(it.position()) == 2

    kept = follow(log, script)
    assert kept.values() == ["1", "2", *("abcd" if longer else "a")]
    assert "was truncated" in caplog.text


@pytest.mark.guarantee("FI-4")
def test_the_rest_of_a_removed_file_is_read(tmp_path: Path) -> None:
    log = write(tmp_path / "app.log", "1\n")

    async def script(it: Script) -> None:
        await it.rows(1)
        append(log, "2\n")
        log.unlink()
        assert await it.rows(2) == ["1", "2"]
        write(log, "3\n")
        assert await it.rows(3) == ["1", "2", "3"]
        await asyncio.sleep(20)
        assert it.metric("files_read") == 1

    follow(log, script)


@pytest.mark.guarantee("FI-4")
def test_a_folder_that_is_away_for_a_while_continues(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "logs").mkdir()
    log = write(tmp_path / "logs" / "app.log", "1\n")

    async def script(it: Script) -> None:
        await it.rows(1)
        (tmp_path / "logs").rename(tmp_path / "elsewhere")
        await asyncio.sleep(30)
        (tmp_path / "elsewhere").rename(tmp_path / "logs")
        await it.looks()
        append(log, "2\n")
        assert await it.rows(2) == ["1", "2"]
        [place] = it.position().values()
        assert place[2:4] == [4, 2]

    with caplog.at_level(logging.INFO, "engine.files"):
        follow(tmp_path / "logs", script)
    assert "is back. Reading continues" in caplog.text


@pytest.mark.guarantee("FI-5")
@pytest.mark.parametrize("is_seen_before", [False, True])
def test_a_compressed_copy_of_a_file_is_not_read_again(is_seen_before: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = write(tmp_path / "app.log", "1\n2\n")

    async def script(it: Script) -> None:
        await it.rows(2)
        rotated = log.rename(tmp_path / "app.log.1")
        write(log, "3\n")
        if is_seen_before:
            await it.looks()
        write(tmp_path / "app.log.1.gz", gzip.compress(rotated.read_bytes()))
        rotated.unlink()
        await it.rows(3)
        await it.looks()
        assert it.kept.values() == ["1", "2", "3"]

    with caplog.at_level(logging.INFO, "engine.files"):
        follow(tmp_path / "app.log*", script)
    assert "is taken for a compressed copy" in caplog.text


@pytest.mark.guarantee("FI-5")
def test_a_rotation_between_two_runs_is_recognized(tmp_path: Path) -> None:
    log, positions = write(tmp_path / "app.log", "1\n2\n3\n"), []

    async def first(it: Script) -> None:
        await it.rows(3)
        positions.append(it.kept.positions[1])

    follow(log, first)
    write(tmp_path / "app.log.1.gz", gzip.compress(log.read_bytes() + b"4\n"))
    log.unlink()
    write(log, "5\n")

    async def second(it: Script) -> None:
        assert await it.rows(3) == ["3", "4", "5"]
        await it.looks()

    assert follow(log, second, start=positions[0]).values() == ["3", "4", "5"]


@pytest.mark.guarantee("FI-3")
def test_a_compressed_file_that_is_being_written_waits_for_its_end(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"%d\n" % number for number in range(1000)))
    path = tmp_path / "app.gz"

    async def script(it: Script) -> None:
        for end in range(0, len(whole) + 1, 100):
            write(path, whole[:end])
            await it.looks(1)
        write(path, whole)
        assert await it.rows(1000) == [str(number) for number in range(1000)]

    follow(path, script)


@pytest.mark.guarantee("FI-3")
def test_more_files_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.files.reader.OPEN_FILES", 3)
    for number in range(20):
        write(tmp_path / f"{number}", f"{number}\n")

    async def script(it: Script) -> None:
        await it.rows(20)
        await it.looks()
        for number in range(20):
            append(tmp_path / f"{number}", f"{number + 20}\n")
        assert sorted(map(int, await it.rows(40))) == list(range(40))

    follow(tmp_path, script)


class Logs:
    """Random writers of log files, and a model of the rows that must arrive."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.folder, self.draw = folder, draw
        self.may_compress = True
        self.rows: list[str] = []
        self.truncations = 0
        self._partial: dict[str, str] = {}
        self._rotations = 0

    def step(self) -> None:
        path = self.folder / f"{self.draw.choice('ab')}.log"
        kind = self.draw.choices(["append", "rotate", "compress"], [8, 2, 1])[0]
        if kind == "append":
            self._append(path)
        elif kind == "rotate" and path.exists() and not self._partial.get(path.name):
            self._rotations += 1
            path.rename(self.folder / f"{path.name}.{self._rotations}")
        elif (
            kind == "compress"
            and self.may_compress
            and (rotated := sorted(path for path in self.folder.glob("*.log.*") if path.suffix != ".gz"))
        ):
            chosen = self.draw.choice(rotated)
            write(chosen.with_name(f"{chosen.name}.gz"), gzip.compress(chosen.read_bytes()))
            chosen.unlink()

    def _append(self, path: Path) -> None:
        for _ in range(self.draw.randrange(1, 20)):
            begun = self._partial.pop(path.name, "")
            row = begun or f"{path.name} {len(self.rows)} {'x' * self.draw.randrange(30)}"
            cut = self.draw.randrange(1, len(row)) if not begun and self.draw.random() < 0.1 else 0
            if cut:
                append(path, row[:cut])
                self._partial[path.name] = row
                self._cut = {**getattr(self, "_cut", {}), path.name: cut}
                return
            append(path, row[self._cut.pop(path.name) :] + "\n" if begun else row + "\n")
            self.rows.append(row)

    def finish(self) -> None:
        while any(self._partial.values()):
            for name in list(self._partial):
                self._append(self.folder / name)


@pytest.mark.guarantee("FI-3", "FI-5")
@pytest.mark.parametrize("seed", range(cases(25)))
def test_random_appends_and_rotations_across_runs(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    logs, tasks = Logs(tmp_path, draw), draw.choice([1, 3])
    seen: list[str] = []
    start: Position = {}

    async def script(it: Script) -> None:
        logs.may_compress = tasks == 1  # another task cannot know how far the one before has read
        for _ in range(draw.randrange(2, 12)):
            logs.step()
            if tasks == 1 or draw.random() < 0.5:
                await asyncio.sleep(draw.choice([0.01, 0.3, 1]))
        if is_last:
            logs.finish()
            await it.rows(len(logs.rows) - len(seen))
            await it.looks()
        start.update(it.position())
        seen.extend(it.kept.values())

    for is_last in (False, False, False, True):
        follow(tmp_path / "*.log*", script, start=dict(start), tasks=tasks)
        logs.may_compress = True
        for _ in range(0 if is_last else draw.randrange(6)):
            logs.step()
    assert sorted(seen) == sorted(logs.rows), f"seed {seed}"
