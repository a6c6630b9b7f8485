"""Files of lines as the source of batches: each line is read once, even if the files are renamed (TX-7, TX-10)."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import ComponentError, Config, UsageError
from engine.runtime.run import Run
from engine.testing import Finished, KillTask, run_topology
from engine.transactional import FailedBatch, FileOpaqueSpout, FileTransactionalSpout, TransactionAttempt
from tests.transactional.test_memory_spout import Kept, topology

pytestmark = pytest.mark.guarantee("TX-10")

BOTH = pytest.mark.parametrize("kind", [FileTransactionalSpout, FileOpaqueSpout])


def write(path: Path, *names: str, many: int = 1) -> list[str]:
    """Append lines to a file; return them."""
    lines = [f"{name} {number}" for name in names for number in range(many)]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)
    return lines


def run_spout(spout: Any, kept: Kept, *, pending: int = 3, state: Path | None = None, **how: Any) -> Finished:
    settings = {} if state is None else {"state_provider": f"sqlite:///{state}"}
    return run_topology(topology(spout, kept), Config(max_spout_pending=pending, **settings), **how)


def follow(spout: Any, script: Callable[[Kept], Any], **how: Any) -> Kept:
    """Run a spout that follows its files during a script."""
    kept = Kept()

    async def during(run: Run) -> None:
        await script(kept)
        await run.stop()

    run_spout(spout, kept, during=during, **how)
    return kept


async def wait_for_lines(kept: Kept, lines: int) -> None:
    async with asyncio.timeout(60):
        while len(kept.rows) < lines:  # noqa: ASYNC110 - a list has no event to wait for
            await asyncio.sleep(0.001)


@BOTH
@pytest.mark.parametrize("where", ["lines", "lines/*.txt", "lines/1.txt"])
def test_a_relative_path_keeps_its_meaning(kind: Any, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("here", "elsewhere"):
        (tmp_path / folder / "lines").mkdir(parents=True)
        write(tmp_path / folder / "lines" / "1.txt", folder)
    monkeypatch.chdir(tmp_path / "here")
    spout, kept = kind(where, stop_at_end=True), Kept()
    monkeypatch.chdir(tmp_path / "elsewhere")  # like an executor of Spark

    run_spout(spout, kept)

    assert kept.rows == ["here 0"]


async def until(kept: Kept, lines: list[str]) -> None:
    await wait_for_lines(kept, len(lines))
    await asyncio.sleep(2)
    assert sorted(kept.rows) == sorted(lines)


def fail_at(kept: Kept, *txids: int, by: Callable[[], object] = lambda: None) -> list[int]:
    """Let the commits of these txids fail, each as often as it is listed. Return the list of those still to fail."""
    left = list(txids)

    def fail(attempt: TransactionAttempt) -> None:
        if attempt.txid in left:
            left.remove(attempt.txid)
            by()
            raise FailedBatch

    kept.before_commit = fail
    return left


@BOTH
@pytest.mark.parametrize("pending", [1, 4])
@pytest.mark.parametrize(
    "limits", [{"batch_lines": 7}, {"batch_bytes": 90}, {"files_at_once": 1}, {"files_at_once": 2, "batch_lines": 30}, {}]
)
def test_all_lines_of_all_files_are_read_once(tmp_path: Path, kind: Any, limits: Any, pending: int) -> None:
    lines = [line for name in "abcde" for line in write(tmp_path / name, name, many=25)]
    (tmp_path / "empty").touch()
    (tmp_path / ".hidden").write_text("no\n")
    (tmp_path / "last").write_text("the last line")
    kept = Kept()
    assert run_spout(kind(tmp_path, stop_at_end=True, **limits), kept, pending=pending).state == "complete"
    assert sorted(kept.rows) == sorted([*lines, "the last line"])


@BOTH
def test_a_batch_takes_the_configured_number_of_lines_of_each_file(tmp_path: Path, kind: Any) -> None:
    for name in "ab":
        write(tmp_path / name, name, many=5)
    kept = Kept()
    run_spout(kind(tmp_path, stop_at_end=True, batch_lines=2), kept, pending=1)
    assert [len(batch) for batch in kept.batches.values() if batch] == [4, 4, 2]


def test_a_pattern_selects_the_files(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    lines = write(tmp_path / "app-1.log", "a") + write(tmp_path / "below" / "app-2.log", "b")
    write(tmp_path / "app-3.txt", "no")
    kept = Kept()
    run_spout(FileTransactionalSpout(tmp_path / "**" / "app-*.log", ("line",), stop_at_end=True), kept)
    assert sorted(kept.rows) == sorted(lines)


def test_a_single_file_may_be_named(tmp_path: Path) -> None:
    lines = write(tmp_path / "a[1]", "a", many=3)
    write(tmp_path / "a1", "no")
    kept = Kept()
    run_spout(FileTransactionalSpout(tmp_path / "a[1]", stop_at_end=True), kept)
    assert kept.rows == lines


def test_a_file_with_two_names_is_read_once(tmp_path: Path) -> None:
    lines = write(tmp_path / "a", "a", many=3)
    os.link(tmp_path / "a", tmp_path / "b")
    os.symlink(tmp_path / "a", tmp_path / "c")
    kept = Kept()
    run_spout(FileTransactionalSpout(tmp_path, stop_at_end=True), kept)
    assert kept.rows == lines


@BOTH
@pytest.mark.guarantee("TX-7")
@pytest.mark.parametrize("task", ["rows", "keep", "rows/coordinator"])
def test_failures_and_deaths_lose_and_repeat_no_line(tmp_path: Path, kind: Any, task: str) -> None:
    lines = [line for name in "abc" for line in write(tmp_path / name, name, many=20)]
    kept = Kept()
    left = fail_at(kept, 1, 2, 2, 4)
    faults = [KillTask(task, at_call={9, 30}, of="keep")] if task != "rows/coordinator" else []
    run_spout(kind(tmp_path, stop_at_end=True, batch_lines=3), kept, faults=faults)
    assert not left
    assert sorted(kept.rows) == sorted(lines)


@BOTH
def test_new_lines_and_new_files_are_read_when_they_appear(tmp_path: Path, kind: Any) -> None:
    async def script(kept: Kept) -> None:
        lines = write(tmp_path / "a", "first")
        await until(kept, lines)
        lines += write(tmp_path / "a", "second", many=30)
        lines += write(tmp_path / "b", "new", many=30)
        await until(kept, lines)

    follow(kind(tmp_path, batch_lines=4), script)


@BOTH
def test_a_line_is_read_only_when_it_is_complete(tmp_path: Path, kind: Any) -> None:
    async def script(kept: Kept) -> None:
        path = tmp_path / "a"
        path.write_text("to\nb")
        await until(kept, ["to"])
        batches = len(kept.attempts)
        await asyncio.sleep(10)
        assert len(kept.attempts) <= batches + 1, "an incomplete line must not make batches"
        with path.open("a") as file:
            file.write("e\nor")
        await until(kept, ["to", "be"])

    follow(kind(tmp_path), script)


@BOTH
def test_an_idle_folder_makes_no_batches(tmp_path: Path, kind: Any) -> None:
    async def script(kept: Kept) -> None:
        await until(kept, write(tmp_path / "a", "a", many=10))
        batches = len(kept.attempts)
        await asyncio.sleep(100)
        assert len(kept.attempts) == batches

    follow(kind(tmp_path), script)


@BOTH
@pytest.mark.guarantee("TX-7")
def test_rotated_files_are_read_on_under_their_new_names(tmp_path: Path, kind: Any) -> None:
    async def script(kept: Kept) -> None:
        lines = []
        for turn in range(12):
            lines += write(tmp_path / "log", f"{turn} a", many=3)
            if turn % 3:
                await until(kept, lines)
            lines += write(tmp_path / "log", f"{turn} b", many=50)
            if turn % 4 == 1:
                await until(kept, lines)
            rotate(tmp_path, keep=100)
        await until(kept, lines)

    follow(kind(tmp_path, batch_lines=8), script)


@BOTH
@pytest.mark.guarantee("TX-7")
def test_a_new_file_may_have_the_inode_of_a_deleted_one(tmp_path: Path, kind: Any) -> None:
    async def script(kept: Kept) -> None:
        lines = []
        for turn in range(12):
            lines += write(tmp_path / "log", f"{turn}", many=20 if turn % 2 else 40)
            await until(kept, lines)
            inodes.append((tmp_path / "log").stat().st_ino)
            rotate(tmp_path, keep=2)

    inodes: list[int] = []
    follow(kind(tmp_path, batch_lines=8), script)
    if len(set(inodes)) == len(inodes):
        pytest.skip("this file system gives each file another inode")


def rotate(folder: Path, *, keep: int) -> None:
    """Rotate like logrotate's `create`: delete the oldest file and number the others up. The next write creates a new file."""
    (folder / f"log.{keep}").unlink(missing_ok=True)
    for number in range(keep - 1, 0, -1):
        if (folder / f"log.{number}").exists():
            (folder / f"log.{number}").rename(folder / f"log.{number + 1}")
    (folder / "log").rename(folder / "log.1")


@BOTH
@pytest.mark.guarantee("TX-9")
def test_a_restart_continues_even_if_all_names_have_changed(tmp_path: Path, kind: Any) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = write(folder / "log", "old", many=10) + write(folder / "log.1", "older", many=10)
    kept = Kept()
    run_spout(kind(folder, stop_at_end=True), kept, state=tmp_path / "state.db")
    (folder / "log.1").rename(folder / "log.2")
    lines += write(folder / "log", "late")
    (folder / "log").rename(folder / "log.1")
    lines += write(folder / "log", "new", many=10)
    run_spout(kind(folder, stop_at_end=True), kept, state=tmp_path / "state.db")
    assert sorted(kept.rows) == sorted(lines)


def test_a_restored_file_is_read_on(tmp_path: Path) -> None:
    """Another inode, with the same name and content."""
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = write(folder / "log", "old", many=10)
    kept = Kept()
    run_spout(FileTransactionalSpout(folder, stop_at_end=True), kept, state=tmp_path / "state.db")
    content = (folder / "log").read_bytes()
    (folder / "log").rename(tmp_path / "backup")
    (folder / "log").write_bytes(content)
    lines += write(folder / "log", "new", many=10)
    run_spout(FileTransactionalSpout(folder, stop_at_end=True), kept, state=tmp_path / "state.db")
    assert sorted(kept.rows) == sorted(lines)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.write_text("short\n"), r"it has 6 bytes, and had \d+ at least"),
        (lambda path: path.write_text("other\n" * 500), r"its first \d+ bytes are not those that were read"),
    ],
)
def test_a_file_that_was_changed_under_its_name_ends_a_transactional_run(tmp_path: Path, change: Any, why: str) -> None:
    async def script(kept: Kept) -> None:
        await until(kept, write(tmp_path / "log", "a", many=10))
        change(tmp_path / "log")
        await asyncio.sleep(5)

    with pytest.raises(ComponentError, match=rf"log' was truncated or replaced: {why}") as raised:
        follow(FileTransactionalSpout(tmp_path), script)
    assert "copytruncate" in str(raised.value.error)


def test_a_file_that_was_changed_is_a_new_one_for_an_opaque_spout(tmp_path: Path) -> None:
    async def script(kept: Kept) -> None:
        lines = write(tmp_path / "log", "a", many=10)
        await until(kept, lines)
        (tmp_path / "log").write_text("short\n")
        await until(kept, [*lines, "short"])

    follow(FileOpaqueSpout(tmp_path), script)


@pytest.mark.guarantee("TX-7")
def test_a_replay_of_a_deleted_file_ends_a_transactional_run(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    write(folder / "log", "a", many=10)
    kept = Kept()
    fail_at(kept, 2, by=lambda: (folder / "log").rename(tmp_path / "away"))
    with pytest.raises(
        ComponentError, match=r"batch 2 .* holds the bytes 12 to 24 of the file '.*log', which cannot be read again: it is missing"
    ):
        run_spout(FileTransactionalSpout(folder, stop_at_end=True, batch_lines=3), kept, pending=1)


@pytest.mark.guarantee("TX-7")
@pytest.mark.parametrize("pending", [1, 3])
@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_file_that_is_missing_between_two_attempts_is_read_to_its_end_later(tmp_path: Path, at: int, pending: int) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = write(folder / "a", "a", many=20) + write(folder / "b", "b", many=20)
    kept = Kept()
    steps = [lambda: (folder / "a").rename(tmp_path / "a"), lambda: (tmp_path / "a").rename(folder / "a")]
    left = fail_at(kept, at, at, by=lambda: steps.pop(0)())
    run_spout(FileOpaqueSpout(folder, stop_at_end=True, batch_lines=3), kept, pending=pending)
    assert not left
    assert sorted(kept.rows) == sorted(lines)


def test_a_run_that_stops_at_the_end_waits_for_a_file_that_disappeared_before_it_was_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = write(folder / "a", "a", many=20)

    async def during(run: Run) -> None:
        await wait_for_lines(kept, 3)
        (folder / "a").rename(tmp_path / "a")
        await asyncio.sleep(30)
        assert run.state == "running"
        (tmp_path / "a").rename(folder / "a")

    kept = Kept()
    run_spout(FileOpaqueSpout(folder, stop_at_end=True, batch_lines=1), kept, pending=1, during=during)
    assert sorted(kept.rows) == sorted(lines)
    assert "bytes are not read" in caplog.text


@BOTH
def test_a_run_waits_for_a_missing_folder(tmp_path: Path, kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()

    async def script(kept: Kept) -> None:
        lines = write(folder / "a", "a", many=20)
        await until(kept, lines)
        folder.rename(tmp_path / "away")
        await asyncio.sleep(30)
        (tmp_path / "away").rename(folder)
        lines += write(folder / "a", "b", many=20)
        await until(kept, lines)

    follow(kind(folder, forget_after_secs=10), script)
    assert caplog.text.count("is missing. Its files are read when it is back") == 1


@pytest.mark.guarantee("TX-9")
def test_a_file_that_is_gone_for_long_is_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()

    async def script(kept: Kept) -> None:
        lines = write(folder / "a", "a", many=3)
        await until(kept, lines)
        (folder / "a").rename(tmp_path / "a")
        await asyncio.sleep(30)
        lines += write(folder / "b", "b", many=3)
        await until(kept, lines)
        (tmp_path / "a").rename(folder / "a")
        await asyncio.sleep(5)
        assert sorted(kept.rows) == sorted([*lines, "a 0", "a 1", "a 2"])

    follow(FileTransactionalSpout(folder, forget_after_secs=10), script)


def test_a_folder_that_is_missing_at_the_start_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match=r"the input folder '.*nowhere' does not exist"):
        run_spout(FileTransactionalSpout(tmp_path / "nowhere"), Kept())


@pytest.mark.parametrize(
    ("arguments", "limits", "text"),
    [
        ((None,), {}, "None is not a path or a pattern"),
        (("",), {}, "'' is not a path or a pattern"),
        (("logs",), {"batch_lines": 0}, r"FileTransactionalSpout\(batch_lines\) is 0"),
        (("logs",), {"batch_lines": True}, r"\(batch_lines\) is True"),
        (("logs",), {"batch_bytes": 1.5}, r"\(batch_bytes\) is 1.5"),
        (("logs",), {"max_line_bytes": 1000}, r"\(max_line_bytes\) is 1000.*\n.*262,144 at least"),
        (("logs",), {"forget_after_secs": float("nan")}, r"\(forget_after_secs\) is nan"),
        (("logs",), {"batch_size": 5}, "has no setting 'batch_size'"),
        (("logs", ("word",)), {}, "the fields of a line are"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, limits: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        FileTransactionalSpout(*arguments, **limits)
