"""Folders for temporary files that executors may reach. The name of each has the process that made it. The functions block."""

import os
import shutil
import tempfile
import threading
from typing import Final

from spark_bridge.process_identity import is_known_dead, process_identity

PREFIX: Final = "stormcell-spool-"
REMOVAL_PAUSES_SECS: Final = (0.05, 0.2, 0.5)


def make_spool_folder(root: str | None) -> str:
    """Create a folder in `root`, and remove those of processes that are known to be dead. None: the folder for temporary files."""
    parent = root or tempfile.gettempdir()
    remove_leftovers(parent)
    folder = tempfile.mkdtemp(prefix=f"{PREFIX}{process_identity(os.getpid()) or 'unknown'}-", dir=parent)
    os.chmod(folder, 0o755)  # executors may run as another user
    return folder


def remove_leftovers(root: str) -> None:
    """Remove the folders of processes that are known to be dead."""
    for name in os.listdir(root):
        if name.startswith(PREFIX) and is_known_dead(name.removeprefix(PREFIX).rpartition("-")[0]):
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)


def remove_spool_folder(folder: str) -> None:
    """Remove a folder with its content. Repeats a few times, because a cancelled job of Spark may still write into it."""
    for pause_secs in REMOVAL_PAUSES_SECS:
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        threading.Event().wait(pause_secs)
