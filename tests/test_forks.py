"""A forked process closes the files and sockets of the run, and the run keeps them."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.forks import open_unshared, unshare

pytestmark = [pytest.mark.guarantee("RUN-5"), pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")]


def in_fork(look: Callable[[], bytes]) -> bytes:
    """Return what a forked process sees."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writes, look())
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as answer:
        seen = answer.read()
    os.waitpid(pid, 0)
    return seen


def target(file: "socket.socket | int") -> bytes:
    number = file if isinstance(file, int) else file.fileno()
    return os.readlink(f"/proc/self/fd/{number}").encode()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system has no /proc")
def test_a_forked_process_closes_unshared_files_and_the_run_keeps_them() -> None:
    ours, theirs = open_unshared(socket.socket), socket.socket()
    with ours, theirs:
        assert in_fork(lambda: target(ours)) == b"/dev/null"
        assert in_fork(lambda: target(theirs)).startswith(b"socket:")
        assert target(ours).startswith(b"socket:")
        assert in_fork(lambda: in_fork(lambda: target(ours))) == b"/dev/null"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system has no /proc")
def test_a_closed_file_is_ignored_although_its_number_is_in_use_again(tmp_path: Path) -> None:
    class Raises:
        def fileno(self) -> int:
            raise ValueError("closed")

    closed, raises = open_unshared(socket.socket), Raises()
    unshare(raises)
    number = closed.fileno()
    closed.close()
    with (tmp_path / "another").open("w") as another:
        assert another.fileno() == number
        assert in_fork(lambda: target(number)).endswith(b"another")


def test_a_fork_in_another_thread_waits_until_an_open_file_is_noted() -> None:
    opening, forked = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def fork() -> None:
        opening.wait()
        seen.append(in_fork(lambda: b"" if files[0].fileno() < 0 else os.readlink(f"/proc/self/fd/{files[0].fileno()}").encode()))
        forked.set()

    def slowly() -> socket.socket:
        opened = socket.socket()
        files.append(opened)
        opening.set()
        assert not forked.wait(0.2)
        return opened

    files: list[socket.socket] = []
    thread = threading.Thread(target=fork)
    thread.start()
    with open_unshared(slowly):
        thread.join()
    assert seen == [b"/dev/null"]
