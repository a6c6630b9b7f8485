"""A process that a bolt has forked lives on after the run. It holds neither the lock of the state nor the port of the page."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from engine.state.sqlite.file import FileLock, lock_of
from tests.project.sources import ROOT
from tests.state.forking_program import NAME

pytestmark = [pytest.mark.guarantee("RUN-5"), pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")]


@contextmanager
def forking(way: str, folder: Path) -> "Iterator[tuple[subprocess.Popen[str], socket.socket, int]]":
    """Start the program, and connect to its page. Yield it, the connection, and the id of the process that it has forked then."""
    command = [sys.executable, "-m", "tests.state.forking_program", way, str(folder)]
    forked = 0
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdin is not None
            assert program.stdout is not None
            with socket.create_connection(("127.0.0.1", int(program.stdout.readline()))) as connection:
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                assert connection.recv(4) == b"HTTP"
                program.stdin.write("x")
                program.stdin.flush()
                forked = int(program.stdout.readline())
                yield program, connection, forked
        finally:
            program.kill()
            with suppress(ProcessLookupError):
                if forked:
                    os.kill(forked, signal.SIGKILL)


@pytest.mark.guarantee("CP-8", "WEB-4")
@pytest.mark.parametrize("end", ["killed", "ended"])
@pytest.mark.parametrize("way", ["pool", "fork", "thread"])
def test_a_forked_process_holds_neither_lock_nor_port(way: str, end: str, tmp_path: Path) -> None:
    lock = lock_of(tmp_path / "state.db", NAME)
    assert lock is not None
    with forking(way, tmp_path) as (program, connection, forked):
        page = connection.getpeername()
        assert lock.is_taken() is True
        if end == "killed":
            program.kill()
        else:
            assert program.stdin is not None
            program.stdin.close()
        program.wait()

        os.kill(forked, 0)  # it lives
        assert lock.is_taken() is False
        connection.settimeout(20)
        while connection.recv(4096):  # until the end of the connection
            pass
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(page)
            listening.listen()


@pytest.mark.guarantee("CP-8")
def test_a_released_lock_is_free_although_another_process_has_its_file_open(tmp_path: Path) -> None:
    held, asked = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert held.take()
    [number] = [int(each) for each in os.listdir("/proc/self/fd") if os.path.realpath(f"/proc/self/fd/{each}") == str(held.path)]
    copy = os.dup(number)  # as a fork in C code copies it
    held.release()
    assert asked.is_taken() is False
    os.close(copy)
