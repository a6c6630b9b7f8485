"""The folder of a spool goes with its task, even if a cancelled job of Spark still writes into it."""

from pathlib import Path
from threading import Thread
from typing import Any

import pytest

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

    real = spool.shutil.rmtree
    monkeypatch.setattr(spool.shutil, "rmtree", rmtree_then_write)
    spool._remove_folder(str(folder))
    assert not folder.exists()
