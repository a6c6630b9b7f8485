"""`ProgramState` is what a child takes over of the program that starts it."""

import multiprocessing
import os
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import process, spawn
from pathlib import Path
from typing import Any, Final

from engine.topology.process_factory import main_module

_UMASK: Final = re.compile(r"^Umask:\s*([0-7]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProgramState:
    """The state of the program when it starts a child."""

    pid: int
    environment: dict[bytes, bytes]
    umask: int
    recursion_limit: int
    preparation: dict[str, Any]
    """Argument of `multiprocessing.spawn.prepare`, which also imports the program."""

    @classmethod
    def now(cls, name: str) -> "ProgramState":
        """Return the present state. name: of the child."""
        preparation = {
            "name": name,
            "authkey": bytes(multiprocessing.current_process().authkey),
            "sys_path": search_path(),
            "sys_argv": sys.argv,
            "orig_dir": process.ORIGINAL_DIR,  # type: ignore[attr-defined]
            **main_module(),
        }
        method = multiprocessing.get_start_method(allow_none=True)  # asked for otherwise, it would be fixed from now on
        if method is not None:
            preparation["start_method"] = method
        return cls(os.getpid(), dict(os.environb), _umask(), sys.getrecursionlimit(), preparation)

    def adopt(self, folder: int) -> None:
        """Let this new process have the state, and import the program. folder: its open working directory."""
        os.environb.clear()
        os.environb.update(self.environment)
        time.tzset()
        os.umask(self.umask)
        sys.setrecursionlimit(self.recursion_limit)
        with suppress(OSError):  # it may not be entered any more
            os.fchdir(folder)
        current: Any = multiprocessing.current_process()
        current._inheriting = True  # so that a program without a guard gets an error, and no children of its own
        try:
            spawn.prepare(self.preparation)
        finally:
            del current._inheriting


def search_path() -> list[str]:
    """Return `sys.path` without objects that are no str. Python passes over them."""
    entries: list[Any] = sys.path
    return [each for each in entries if isinstance(each, str)]


def _umask() -> int:
    """Return the umask. Only Linux can tell it. Elsewhere it must be set for a moment, to one that makes other threads' files private."""
    with suppress(OSError):
        found = _UMASK.search(Path("/proc/self/status").read_text())
        if found is not None:
            return int(found[1], 8)
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
