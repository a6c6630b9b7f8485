"""Kill points in bolts on executors. A file chooses point and victim."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.servers.keeper import command_line, living

POINTS: Final = ("split: prepare", "split: execute", "count: execute", "count: finish", "count: cleanup")
VICTIMS: Final = ("python worker", "jvm of a python worker")


def choose(folder: Path, point: str, victim: str) -> None:
    """Choose the point at which the victim dies, once."""
    (folder / "chosen").write_text(json.dumps([point, victim]))
    (folder / "chosen").rename(folder / "strike")


def is_chosen(folder: Path) -> bool:
    """Tell whether the victim has not died yet."""
    return (folder / "strike").exists()


def forget(folder: Path) -> bool:
    """Take the choice back. Return False if the victim has died."""
    with suppress(FileNotFoundError):
        (folder / "strike").unlink()
        return True
    return False


def strike_at(folder: Path, point: str) -> None:
    """Kill the victim if this is the chosen point. Of several tasks at the point, one strikes."""
    try:
        chosen, victim = json.loads((folder / "strike").read_text())
        if chosen != point:
            return
        (folder / "strike").unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid() if victim == VICTIMS[0] else _jvm(), signal.SIGKILL)


def _jvm() -> int:
    """Return the JVM whose daemon has forked this Python worker: an executor, or Spark's driver."""
    parents, pid = living(), os.getpid()
    while "java" not in command_line(pid).partition(" ")[0]:
        pid = parents[pid]
        assert pid > 1, "no JVM has started this process"
    return pid
