"""Programs of kill tests, forked from a process that has imported the engine: a start takes milliseconds.

A fork is a process like any other: it has its own pid, signals, files and sockets. Python's fork server starts it, one server for each
process of pytest. Programs that a user would start stay programs.
"""

import asyncio
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import IO, Final

IMPORTS: Final = (
    "engine.checkpoint.barrier_wiring",
    "engine.flow.spout",
    "engine.kafka.transactional",
    "engine.runtime.run",
    "engine.state.postgres.values",
    "engine.state.redis.provider",
    "engine.state.sqlite.provider",
    "engine.state.zookeeper.provider",
    "engine.transactional.transactions",
    "engine.transactional.values",
    "aiokafka",
    "spark_bridge.topology.cluster_run",
    "spark_bridge.writer.spark_handover",
    "pyarrow.parquet",
)
"""Slow imports of the programs. The fork server does them once, and passes over those that are not installed."""


_POLLING: Final = threading.Lock()
"""Held while a process is polled. `start` polls all processes of its parent, too, and may run in another thread.

The exit status can be read once. Without the lock, a second thread would read nothing, and Python would make it 255.
"""


class ForkedProgram:
    """A running `python -m MODULE ARGUMENT ...`. Has the part of `asyncio.subprocess.Process` that the tests use."""

    def __init__(self, process: ForkServerProcess, stdin: int, stdout: asyncio.StreamReader, close_stdout: Callable[[], None]) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self.stdout = stdout
        self._process = process
        self._stdin = stdin
        self._close_stdout = close_stdout
        self._status: int | None = None
        self._is_closed = False

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal. None while it runs."""
        if self._status is None:
            with _POLLING:
                self._status = self._process.exitcode
        return self._status

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def write_stdin(self, line: bytes) -> None:
        """Write to its standard input."""
        os.write(self._stdin, line)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for its end. Return its exit status."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        if self.returncode is None:
            loop.add_reader(self._process.sentinel, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(self._process.sentinel)
        assert self.returncode is not None
        return self.returncode

    async def close(self) -> None:
        """Wait for its end, and close its files. Further calls do nothing."""
        await self.wait()
        if not self._is_closed:
            self._is_closed = True
            os.close(self._stdin)
            self._close_stdout()
            self._process.close()


async def start_forked(module: str, *arguments: str, stderr: IO[bytes] | None = None) -> ForkedProgram:
    """Start a program. Its standard error goes to a file, or to `stdout` with the rest of its output. The caller awaits `close()`."""
    child_stdin, stdin = os.pipe()
    stdout, child_stdout = os.pipe()
    child_stderr = os.dup(child_stdout if stderr is None else stderr.fileno())
    process = await asyncio.to_thread(_start, (module, *arguments), child_stdin, child_stdout, child_stderr)
    reader = asyncio.StreamReader()
    pipe = os.fdopen(stdout, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return ForkedProgram(process, stdin, reader, transport.close)


def run_forked(module: str, *arguments: str, secs: float = 60.0) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, as `subprocess.run` does. Kill it after `secs`, and raise TimeoutError."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        nothing = os.open(os.devnull, os.O_RDONLY)
        process = _start((module, *arguments), nothing, os.dup(stdout.fileno()), os.dup(stderr.fileno()))
        wait([process.sentinel], secs)
        with _POLLING:
            status = process.exitcode
        if status is None:
            process.kill()
            process.join()
        process.close()
        said = []
        for file in (stdout, stderr):
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
    if status is None:
        raise TimeoutError(f"{module} did not end within {secs:g} s: {said[1]}")
    return subprocess.CompletedProcess([module, *arguments], status, *said)


def _start(argv: tuple[str, ...], *files: int) -> ForkServerProcess:
    """Fork a process with these files as standard input, output and error. Closes the files in this process."""
    ends = [Connection(file, writable=False) if number == 0 else Connection(file, readable=False) for number, file in enumerate(files)]
    process = _context().Process(target=_run, args=(argv, *ends))
    with _POLLING:
        process.start()
    for end in ends:
        end.close()
    return process


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTS))
    return context


def _run(argv: tuple[str, ...], *ends: Connection) -> None:
    """Be the program. Runs in the fork."""
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115 - open until the end of the process
    sys.argv = list(argv)
    sys.modules.pop(argv[0], None)  # the main module of the tests may have imported it, and runpy would warn
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
