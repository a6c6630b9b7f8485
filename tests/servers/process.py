"""One server process. It ends when the program that started it ends."""

import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.servers.keeper import is_stopped, living, signal_family

HOST: Final = "127.0.0.1"
PORTS: Final = range(10_240, 32_768)
"""Ports outside the range that Linux, macOS and the BSDs give to clients."""
READY_SECS: Final = 60.0
PAUSE_SECS: Final = 0.025
STOP_SECS: Final = 20.0
TAIL_CHARACTERS: Final = 2000
LEFT: Final[list["subprocess.Popen[bytes]"]] = []
"""Processes that were released. They stay referenced, because another program waits for them."""
KEEPER: Final = Path(__file__).with_name("keeper.py")


def free_port() -> int:
    """Return a free port. The system gives it to no client while the server is down."""
    draws = secrets.SystemRandom()
    return next(port for port in iter(lambda: draws.choice(PORTS), None) if is_free(port))


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this port now."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            tried.bind((HOST, port))
            return True
    return False


def accepts(port: int) -> bool:
    """Tell whether something accepts connections on this port."""
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


class ServerProcess:
    """The process of one server. Its folder has `server.log` and `server.lock`.

    Every holder of a shared lock on `server.lock` keeps the server alive: this program from `start` on, other programs through `shared`.
    Without a holder, `last_signal` ends the server and its child processes at once.
    """

    def __init__(self, name: str, folder: Path, *, last_signal: signal.Signals = signal.SIGKILL) -> None:
        self.name, self.folder = name, folder
        self._last_signal = last_signal
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError if the server does not run."""
        if self._process is None:
            raise RuntimeError(f"{self.name} in {self.folder} was not started, or has ended")
        return self._process.pid

    def start(self, command: Sequence[str], is_ready: Callable[[], bool], environment: Mapping[str, str] | None = None) -> None:
        """Start the server and return when it is ready. Raises RuntimeError with the end of its log if it dies or is late."""
        if self._process is not None:
            raise RuntimeError(f"{self.name} in {self.folder} runs already")
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(environment or {})}
            )
        try:
            self._keep()
            self._wait_until(is_ready)
        except BaseException:
            self.kill()
            raise

    def _keep(self) -> None:
        """Start the keeper, which kills the server when this program dies."""
        path = self.folder / "server.lock"
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        command = [sys.executable, "-I", "-S", str(KEEPER), str(path), str(self.pid), str(int(self._last_signal))]
        self._keeper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        assert self._keeper.stdout is not None
        with self._keeper.stdout as said:
            if not said.readline():
                raise RuntimeError(f"{' '.join(command)}: did not start")

    def _wait_until(self, is_ready: Callable[[], bool]) -> None:
        assert self._process is not None
        for _ in range(int(READY_SECS / PAUSE_SECS)):
            if is_ready():
                return
            with suppress(subprocess.TimeoutExpired):
                status = self._process.wait(PAUSE_SECS)
                raise RuntimeError(f"{self.name} ended with status {status} before it was ready: {self.log_tail()}")
        raise RuntimeError(f"{self.name} was not ready after {READY_SECS:g} s: {self.log_tail()}")

    def log_tail(self) -> str:
        """Return the end of its output, and the path of all of it."""
        path = self.folder / "server.log"
        return f"{path}:\n{path.read_text(errors='replace')[-TAIL_CHARACTERS:]}"

    def send_signal(self, number: signal.Signals) -> None:
        """Send the server a signal."""
        os.kill(self.pid, number)

    def freeze(self) -> None:
        """Stop the server and its child processes. Returns when no thread of them runs any longer."""
        family = signal_family(self.pid, signal.SIGSTOP)
        for _ in range(int(STOP_SECS / PAUSE_SECS)):  # the signal stops a thread only when the system next schedules it
            if all(map(is_stopped, family)):
                return
            time.sleep(PAUSE_SECS)
        raise RuntimeError(f"{self.name} in {self.folder}: of the processes {family}, some were not stopped within {STOP_SECS:g} s")

    def thaw(self) -> None:
        """Continue the stopped processes."""
        signal_family(self.pid, signal.SIGCONT)

    def wait(self) -> int:
        """Wait until it ends by itself. Returns its status."""
        assert self._process is not None
        return self._process.wait()

    def kill(self) -> None:
        """End it and its child processes by kill -9. Does nothing if it does not run."""
        if self._process is None:
            return
        family = signal_family(self.pid, signal.SIGKILL) if self._process.poll() is None else []
        self._end()
        for _ in range(int(STOP_SECS / PAUSE_SECS)):  # after this the locks and ports of the child processes are free
            if len(family) < 2 or living().keys().isdisjoint(family):
                return
            time.sleep(PAUSE_SECS)
        raise RuntimeError(f"{self.name} in {self.folder}: of the processes {family}, some did not end within {STOP_SECS:g} s of kill -9")

    def end(self) -> None:
        """End the server with `last_signal`."""
        self.stop(self._last_signal)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask the server to end, and wait. Kills it after a timeout."""
        if self._process is None:
            return
        if number is not signal.SIGKILL and self._process.poll() is None:
            self.send_signal(number)
            self.thaw()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECS)
        self.kill()

    def release(self) -> None:
        """Release the lock. If no other program holds it, the server is killed at once."""
        LEFT.extend(process for process in (self._process, self._keeper) if process is not None)
        self._process = self._keeper = None
        self._let_go()

    def _let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _end(self) -> None:
        """End the keeper before the process id becomes free, so that the keeper cannot kill another process."""
        assert self._process is not None
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait()
            self._keeper = None
        self._process.wait()
        self._process = None
        self._let_go()
