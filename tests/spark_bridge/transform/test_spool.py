"""Removal of a spool with its task, even if a cancelled job or call still writes into it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import StateUnavailable
from engine.transactional import TransactionAttempt
from spark_bridge.process import spool_folder
from spark_bridge.process_identity import process_identity
from spark_bridge.transform import spool


def test_a_spool_with_a_late_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "spool"
    folder.mkdir()
    once = iter([True])

    def rmtree_then_write(path: str, **options: Any) -> None:
        real(path, **options)
        if next(once, False):  # the job writes after the removal
            writer = Thread(target=lambda: (folder.mkdir(), (folder / "late.arrow").touch()))
            writer.start()
            writer.join()

    real = spool_folder.shutil.rmtree
    monkeypatch.setattr(spool_folder.shutil, "rmtree", rmtree_then_write)
    spool_folder.remove_spool_folder(str(folder))
    assert not folder.exists()


async def test_a_folder_that_a_cancelled_call_still_creates_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun, may_create = Event(), Event()
    real: Callable[..., str] = spool_folder.tempfile.mkdtemp

    def mkdtemp(**options: Any) -> str:
        has_begun.set()
        may_create.wait(10)
        return real(**options)

    monkeypatch.setattr(spool_folder.tempfile, "mkdtemp", mkdtemp)
    opened = spool.OpenSpool(str(tmp_path), "transform")
    creation = asyncio.create_task(opened.run_in_thread(lambda: opened.create_files(TransactionAttempt(1, 1))))
    await asyncio.to_thread(has_begun.wait, 10)
    creation.cancel()
    await asyncio.wait([creation])
    closing = asyncio.create_task(opened.close())
    await asyncio.sleep(0)
    may_create.set()
    await closing
    await asyncio.to_thread(opened._pool.shutdown)  # waits for calls that were queued
    assert os.listdir(tmp_path) == []


def test_folders_of_dead_processes_are_removed_and_of_others_kept(tmp_path: Path) -> None:
    def left() -> list[str]:
        return sorted(os.listdir(tmp_path))

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        of_the_other = process_identity(other.pid)
        assert of_the_other is not None
        place, _, ticks = of_the_other.split("-")
        elsewhere = f"{spool_folder.PREFIX}{place[:-1]}0-{2**22}-{ticks}-abc"  # a container with the same host name
        names = sorted([f"{spool_folder.PREFIX}{of_the_other}-abc", f"{spool_folder.PREFIX}unknown-abc", elsewhere, "another folder"])
        for name in names:
            (tmp_path / name).mkdir()
        spool_folder.remove_leftovers(str(tmp_path))
        assert left() == names, "the other process is alive"
        other.kill()
    spool_folder.remove_leftovers(str(tmp_path))
    names.remove(f"{spool_folder.PREFIX}{of_the_other}-abc")
    assert left() == names


async def test_the_folder_of_this_process_is_kept_by_another_task(tmp_path: Path) -> None:
    first, second = spool.OpenSpool(str(tmp_path), "one"), spool.OpenSpool(str(tmp_path), "two")
    first.create_files(TransactionAttempt(1, 1))
    second.create_files(TransactionAttempt(1, 1))
    assert len(os.listdir(tmp_path)) == 2
    await first.close()
    await second.close()
    assert os.listdir(tmp_path) == []


def test_a_result_with_fewer_rows_than_spark_wrote_is_refused(tmp_path: Path) -> None:
    files = spool.OpenSpool(str(tmp_path), "transform").create_files(TransactionAttempt(1, 1))
    batch = pa.RecordBatch.from_pydict({"word": ["a", "b"]})
    with pa.OSFile(files.result_path, "wb") as file, pa.ipc.new_stream(file, batch.schema) as writer:
        writer.write_batch(batch)
    assert list(files.read_slices(2)) == [[("a",), ("b",)]]
    for rows in (1, 3):
        with pytest.raises(StateUnavailable, match=f"it has 2 rows, but Spark wrote {rows}"):
            list(files.read_slices(rows))
