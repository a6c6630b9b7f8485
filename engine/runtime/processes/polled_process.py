"""`PolledProcess` is a process whose status several threads may ask for."""

import os
import threading
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from multiprocessing.popen_forkserver import Popen
from multiprocessing.process import BaseProcess


class PolledProcess(ForkServerProcess):
    """A process of the fork server. Each start of a process polls all others too, on the thread of the starts."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> "_OnePoll":
        return _OnePoll(process_obj)


class _OnePoll(Popen):
    """Lets one thread at a time read the status. A second reader would find its end, and take it for status 255."""

    def __init__(self, process_obj: BaseProcess) -> None:
        self._polls = threading.Lock()
        # What `Popen.__init__` does, without its flush of the standard streams. The fork server needs none, and no child could start
        # while a stream is closed, full, or an object of the program that raises.
        self._fds: list[int] = []
        self.returncode = None
        self.finalizer = None  # type: ignore[assignment]  # `_launch` sets it, as for every Popen
        self._launch(process_obj)  # type: ignore[attr-defined]  # typeshed leaves it out

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        """Return the status, or None while the process runs. With the flag 0, wait for its end."""
        if flag != os.WNOHANG and self.returncode is None:
            wait([self.sentinel])
        with self._polls:
            return super().poll()
