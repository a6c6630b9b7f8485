"""What a file spout knows about its files, for event time: which are open or still to be read, and which are at their end (ET-3)."""

import asyncio
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import pytest

from engine import Config, FileSpout, Run, Spout
from engine.files.input_file import InputFile
from engine.files.read_ahead import READ_BYTES
from engine.files.reader import ROTATED_SECS
from engine.testing import Capture, run_topology
from tests.files.play import topology, write
from tests.files.test_follow import append

pytestmark = pytest.mark.guarantee("ET-3")

UNKNOWN = Spout.UNKNOWN_PARTITIONS


class Observed(FileSpout):
    """Notes the file of each row at its emit, and that the file is not at its end before the emit returns."""

    def __init__(self, *args: Any, play: "Play", **options: Any) -> None:
        super().__init__(*args, **options)
        self.play = play

    async def open(self) -> None:
        await super().open()
        self.collector = Stamping(self)  # type: ignore[assignment]
        assert self.partitions() == UNKNOWN
        assert self.caught_up() is False
        self.play.spouts[self.context.task_index] = self

    def next_tuples(self, limit: int) -> None:
        emitted = self.port.emitted
        super().next_tuples(1)
        if self.port.emitted > emitted:
            self.play.caught_up_within.append(self.caught_up(self.play.stamped[-1]))


class Stamping:
    """Collector that notes the partitions of rows."""

    def __init__(self, spout: Observed) -> None:
        self.inner, self.spout = spout.collector, spout
        self.report_error, self.ready = self.inner.report_error, self.inner.ready

    @property
    def rows_emitted(self) -> int:
        return self.inner.rows_emitted

    def emit_many(self, rows: Any, message_ids: Any = None, stream: str = "default") -> None:
        self.spout.play.stamped += map(self.spout.partition_of, message_ids)
        self.inner.emit_many(rows, message_ids, stream)

    def emit(self, values: Any, message_id: Any = None, stream: str = "default") -> None:
        self.spout.play.stamped.append(self.spout.partition_of(message_id))
        self.inner.emit(values, message_id, stream)


class Play:
    """The spouts of a run, by task, and the files of the emitted rows."""

    run: Run

    def __init__(self) -> None:
        self.spouts: dict[int, Observed] = {}
        self.stamped: list[Hashable] = []
        self.caught_up_within: list[bool] = []
        self.capture = Capture()

    @property
    def spout(self) -> Observed:
        return self.spouts[0]

    @property
    def ends(self) -> dict[str, bool]:
        """Tell for each file of the only task whether it is caught up, by its first name."""
        spout = self.spout
        return {Path(str(key).rpartition("#")[0]).name: spout.caught_up(key) for key in spout.partitions() if key not in UNKNOWN}

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def until_ends(self, **ends: bool) -> None:
        """Wait until these are the files, and are caught up or not."""
        await self.until(lambda: self.ends == ends)
        assert self.spout.caught_up() is all(ends.values())

    def follow(self, paths: Any, script: Callable[[], Any], *, tasks: int = 1, follow: bool = True, **options: Any) -> None:
        """Run until the script has ended."""

        async def during(run: Run) -> None:
            self.run = run
            await script()
            if follow:
                await run.stop()

        make = lambda: Observed(paths, play=self, follow=follow, **options)  # noqa: E731
        run_topology(topology(make, parallelism=tasks, capture=self.capture), Config(), during=during)


def test_a_followed_file_is_caught_up_behind_its_last_whole_line(tmp_path: Path) -> None:
    write(tmp_path / "a", "1\n2\n")
    write(tmp_path / "b", "")
    play = Play()

    async def script() -> None:
        await play.until(lambda: len(play.capture.values) == 2)
        await play.until_ends(a=True, b=True)
        append(tmp_path / "b", "3\n4")
        await play.until(lambda: len(play.capture.values) == 3)
        await play.until_ends(a=True, b=False)
        await asyncio.sleep(60)
        assert play.ends == {"a": True, "b": False}, "the line without its end may become a row"
        append(tmp_path / "b", "\n")
        await play.until_ends(a=True, b=True)
        write(tmp_path / "c", "5\n")
        await play.until(lambda: len(play.capture.values) == 5)
        await play.until_ends(a=True, b=True, c=True)

    play.follow(tmp_path / "*", script)
    assert [Path(str(key)).name[0] for key in play.stamped] == ["a", "a", "b", "b", "c"]


def test_each_emitted_file_is_known_and_not_caught_up_before(tmp_path: Path) -> None:
    """Given rows that come one in each poll, when more of a file wait, then it is not caught up."""
    write(tmp_path / "a", "".join(f"{number}\n" for number in range(300)))
    play = Play()

    async def script() -> None:
        await play.until(lambda: len(play.capture.values) == 300)
        await play.until_ends(a=True)

    play.follow(tmp_path / "a", script)
    assert play.caught_up_within == [False] * 300
    assert len(set(play.stamped)) == 1


def test_a_rotated_file_stays_until_it_is_gone(tmp_path: Path) -> None:
    log = write(tmp_path / "log", "1\n")
    play = Play()

    async def script() -> None:
        await play.until_ends(log=True)
        [before] = play.spout.partitions()
        log.rename(tmp_path / "log.1")
        await asyncio.sleep(1)
        write(log, "2\n")
        await play.until(lambda: len(play.spout.partitions()) == 2 and play.spout.caught_up())
        assert before in play.spout.partitions()
        append(tmp_path / "log.1", "late\n")
        await play.until(lambda: len(play.capture.values) == 3)
        assert play.stamped[-1] == before
        (tmp_path / "log.1").unlink()
        await asyncio.sleep(ROTATED_SECS + 1)
        assert before not in play.spout.partitions()
        await play.until_ends(log=True)

    play.follow(tmp_path / "log*", script)


def test_a_truncated_file_is_another_partition(tmp_path: Path) -> None:
    log = write(tmp_path / "log", "1\n2\n")
    play = Play()

    async def script() -> None:
        await play.until_ends(log=True)
        before = set(play.spout.partitions())
        write(log, "3\n")
        await play.until(lambda: len(play.capture.values) == 3)
        await play.until_ends(log=True)
        assert before.isdisjoint(play.spout.partitions())

    play.follow(log, script)


def test_a_file_that_comes_back_is_a_partition_again(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    log = write(tmp_path / "log", "1\n")
    play = Play()

    async def script() -> None:
        await play.until_ends(log=True)
        before = set(play.spout.partitions())
        log.rename(tmp_path / "away" / "log")
        await play.until(lambda: not play.spout.partitions())
        assert play.spout.caught_up() is True
        (tmp_path / "away" / "log").rename(log)
        await play.until_ends(log=True)
        assert set(play.spout.partitions()) == before
        append(log, "2\n")
        await play.until(lambda: len(play.capture.values) == 2)
        await play.until_ends(log=True)

    play.follow(log, script)


def test_a_line_that_is_written_after_the_last_read_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a writer that appends right behind the read that has found the end, then the next look finds the line."""
    log = write(tmp_path / "log", "1\n")
    play, next_piece, lines = Play(), InputFile.next_piece, ["2\n"]

    def then_written(file: InputFile, *, to_the_end: bool) -> object:
        piece = next_piece(file, to_the_end=to_the_end)
        if piece is None and lines:
            append(log, lines.pop())
        return piece

    monkeypatch.setattr(InputFile, "next_piece", then_written)

    async def script() -> None:
        await play.until(lambda: len(play.capture.values) == 2)
        await play.until_ends(log=True)

    play.follow(log, script)


def test_files_that_are_not_followed_leave_with_their_last_row(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path / name, f"{name}\n")
    play = Play()
    left: list[tuple[str, ...]] = []

    class Noting(Observed):
        def next_tuples(self, limit: int) -> None:
            try:
                super().next_tuples(1)
            finally:
                if self.partitions() != UNKNOWN:
                    assert self.caught_up() is (not self.partitions())
                    left.append(tuple(sorted(Path(str(key)).name[0] for key in self.partitions())))

    run_topology(topology(lambda: Noting(f"{tmp_path}/*", play=play), capture=play.capture))
    assert list(dict.fromkeys(left)) == [("a", "b", "c"), ("b", "c"), ("c",), ()]


def test_a_task_without_files_knows_that_it_has_none(tmp_path: Path) -> None:
    write(tmp_path / "a", "1\n")
    play = Play()

    async def script() -> None:
        await play.until(lambda: sorted(len(set(one.partitions()) - UNKNOWN) for one in play.spouts.values()) == [0, 1])
        await play.until(lambda: all(one.caught_up() for one in play.spouts.values()))
        assert sorted(len(one.partitions()) for one in play.spouts.values()) == [0, 1]

    play.follow(tmp_path / "*", script, tasks=2)


@pytest.mark.parametrize("follow", [True, False])
def test_a_row_that_waits_for_its_retry_keeps_its_file(tmp_path: Path, follow: bool) -> None:
    write(tmp_path / "a", "1\n")
    play = Play()
    play.capture = Capture(settles=False)

    async def script() -> None:
        for tries in range(1, 8):
            await play.until(lambda: len(play.capture.tuples) == tries)  # noqa: B023
            await play.until(lambda: play.spout.caught_up())
            play.capture.fail(play.capture.tuples[-1])
            if tries >= 5:  # its pause is longer than those of this test
                await play.until_ends(a=False)
        await play.until(lambda: len(play.capture.tuples) == 8)
        await play.until(lambda: play.ends == ({"a": True} if follow else {}))
        play.capture.ack(play.capture.tuples[-1])

    play.follow(tmp_path / "a", script, follow=follow)
    assert len(set(play.stamped)) == 1


def test_a_held_back_spout_is_not_caught_up(tmp_path: Path) -> None:
    """Given a spout that is paused, when rows wait, then their file is not caught up, and no file when the spout looks no more."""
    write(tmp_path / "a", "1\n")
    write(tmp_path / "b", "2\n")
    play = Play()

    async def script() -> None:
        await play.until_ends(a=True, b=True)
        await play.run.deactivate()
        append(tmp_path / "a", "3\n")
        write(tmp_path / "c", "4\n")
        await play.until_ends(a=False, b=True, c=False)
        append(tmp_path / "a", "5\n" * READ_BYTES)
        await play.until_ends(a=False, b=False, c=False)
        await asyncio.sleep(60)
        assert not any(play.ends.values())

    play.follow(tmp_path / "*", script)


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_an_unfinished_row_of_several_lines_is_more_to_read(tmp_path: Path, format: str) -> None:
    begun, rest = ('n\n"a\n', 'b"\n') if format == "csv" else ('{"n": 1}\n{"n"', ": 2}\n")
    log = write(tmp_path / "log", begun)
    play = Play()

    async def script() -> None:
        await asyncio.sleep(5)
        assert play.ends == {"log": False}
        append(log, rest)
        await play.until_ends(log=True)

    play.follow(log, script, format=format)
    assert play.capture.values
