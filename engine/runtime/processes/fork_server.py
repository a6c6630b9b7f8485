"""`ForkServer` is the process that all children of this program are forked from.

It has imported the engine and nothing of the program, so a child starts within milliseconds and shares nothing with its siblings. It is
reached over a pair of sockets that it was born with. So it needs no file, and no folder that somebody may remove. One that has ended or
hangs is replaced by the next start, while its children go on ([decision 13](../../../docs/decisions/0013-processes.md)).
"""

import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from multiprocessing import resource_tracker, spawn, util
from pathlib import Path
from typing import Final, cast

from engine.forks import unshare
from engine.runtime.processes.forked_process import ANSWER, ForkedProcess, forget_ended
from engine.runtime.processes.program_state import search_path

READY: Final = b"r"
REQUEST: Final = b"f"
PASSED_FILES: Final = 4
"""Number of files that go with a request: connection, working directory, pipe of the resource tracker, socket of the status."""
START_SECS: Final = 60.0
"""Longest wait for a new server, which imports the engine."""
ANSWER_SECS: Final = 5.0
"""Longest wait for a fork, which takes a few milliseconds."""
_END_SECS: Final = 1.0
_ROOT: Final = Path(__file__).absolute().parents[3]
_MAIN: Final = """\
import os, sys
library = os.path.dirname(os.__file__)
sys.path[:0] = [library, os.path.join(library, "lib-dynload"), {root!a}]
sys.path += {path!a}
from engine.runtime.processes.fork_service import ForkService
ForkService({control}, {parent}).serve()
"""
"""Program of the server. The standard library comes first: a module of the user may have a name of it, such as random or queue."""
_READ_AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "DYLD_", "MALLOC_", "GLIBC_")
"""Beginnings of the environment variables that only a new program reads."""


class ServerLost(OSError):
    """The fork server has ended, or it hangs."""


class ForkServer:
    """Starts the fork server when it is needed, and asks it for children. Its calls block, and threads may call them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._handed_down: object = None
        """What the server got from this process when it started."""

    @property
    def pid(self) -> int | None:
        """The id of the server, if there is one."""
        return None if self._process is None else self._process.pid

    def fork(self, name: str) -> tuple[socket.socket, ForkedProcess]:
        """Return this end of the connection to a new child, and the child. Raises OSError if the system cannot start one."""
        with self._lock:
            forget_ended()
            if self._process is None or self._handed_down != _handed_down():
                self._replace()
            try:
                return self._request(name)
            except ServerLost:
                self._replace()
                return self._request(name)

    def end(self) -> None:
        """End the server, whatever it does. Its children end when their connections do."""
        process, self._process = self._process, None
        control, self._control = self._control, None
        if control is not None:
            control.close()
        if process is not None:
            process.kill()
            with suppress(subprocess.TimeoutExpired):  # in an uninterruptible system call
                process.wait(_END_SECS)

    def forget(self) -> None:
        """Begin anew in a process that has just been forked. The sockets to the server and the children are closed there (PR-2)."""
        self._lock = threading.Lock()
        if self._process is not None:
            self._process.returncode = 0  # no child of this process, which must not wait for it
        self._process = self._control = None

    def _replace(self) -> None:
        """Start a server in place of one that has ended, hangs, or would hand down what this process has changed."""
        self.end()
        self._handed_down = _handed_down()
        with ExitStack() as opened:
            self._control, theirs = _socket_pair()
            control, parent = theirs.detach(), _own_pidfd()
            passed = [_above_standard(number) for number in (control, parent) if number is not None]
            for number in passed:
                opened.callback(os.close, number)
            control, *rest = passed
            code = _MAIN.format(root=str(_ROOT), path=search_path(), control=control, parent=rest[0] if rest else None)
            command = [os.fsdecode(spawn.get_executable()), *_interpreter_flags(), "-P", "-c", code]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd="/", pass_fds=passed)
        self._control.settimeout(START_SECS)
        with _talking():
            ready = self._control.recv(len(READY))
        if ready != READY:
            raise ServerLost("the fork server of bolts in processes ended during its start. Its error output has the reason")
        self._control.settimeout(ANSWER_SECS)

    def _request(self, name: str) -> tuple[socket.socket, ForkedProcess]:
        if self._control is None:
            raise ServerLost("the fork server of bolts in processes did not start")
        with ExitStack() as opened, ExitStack() as kept:
            connection, theirs = _socket_pair()
            answers, status = socket.socketpair()
            for each in (connection, answers):
                kept.callback(each.close)
            for each in (theirs, status):
                opened.callback(each.close)
            folder = _open_folder()
            opened.callback(os.close, folder)
            passed = [theirs.fileno(), folder, _tracker(), status.fileno()]
            answers.settimeout(ANSWER_SECS)
            with _talking():
                socket.send_fds(self._control, [REQUEST], passed)
                status.close()  # so that the end of the server ends the wait, too
                answer, pidfds, _, _ = socket.recv_fds(answers, ANSWER.size, 1)
            if len(answer) != ANSWER.size:
                raise ServerLost("the fork server of bolts in processes has ended")
            (pid,) = ANSWER.unpack(answer)
            if pid < 0:
                raise OSError(-pid, os.strerror(-pid))
            for number in pidfds:
                os.set_inheritable(number, False)
            kept.pop_all()
            return connection, ForkedProcess(name, pid, pidfds[0] if pidfds else None, answers.detach())


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return a pair that processes forked by the program close. They may outlive it, and a child ends when its connection hangs up."""
    pair = socket.socketpair()
    unshare(*pair)
    return pair


@contextmanager
def _talking() -> Iterator[None]:
    """Raise ServerLost if the server has ended, or does not answer in time."""
    try:
        yield
    except OSError as error:
        raise ServerLost(f"the fork server of bolts in processes does not answer ({error})") from error


def _handed_down() -> object:
    """Return what a child would have from the server, and could not change itself. Everything else comes from `ProgramState`."""
    limits = [resource.getrlimit(getattr(resource, name)) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")]
    variables = {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_START)}
    return os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups(), limits, variables


def _interpreter_flags() -> list[str]:
    """Return the options of this interpreter, such as -O or -W, as `multiprocessing` does."""
    return cast("list[str]", util._args_from_interpreter_flags())  # type: ignore[attr-defined]


def _tracker() -> int:
    """Return the pipe to the resource tracker of the program. The first call starts the tracker.

    `multiprocessing` hands standard error down to it, and takes no other `sys.stderr` than a file. A program may have put any object there.
    """
    try:
        return cast(int, resource_tracker.getfd())
    except BaseException:  # noqa: BLE001 - from `sys.stderr.fileno()`, or from what it has returned
        replaced, sys.stderr = sys.stderr, sys.__stderr__
        try:
            return cast(int, resource_tracker.getfd())
        finally:
            sys.stderr = replaced


def _own_pidfd() -> int | None:
    """Return a pidfd of this process, None if the system has none.

    The server and its children watch it, because a process that C code forks from this one holds the other ends of their sockets.
    """
    try:
        return os.pidfd_open(os.getpid())
    except (AttributeError, OSError):  # no Linux, or a kernel before 5.3
        return None


def _above_standard(number: int) -> int:
    """Move an open file to a number that is no standard stream. Here these may be closed, and then their numbers are free."""
    try:
        return fcntl(number, F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(number)


def _open_folder() -> int:
    """Return the open working directory. A child gets it even if its path is gone."""
    try:
        return os.open(".", os.O_RDONLY)
    except OSError:  # may not be read, or is on a file system that is gone
        return os.open("/", os.O_RDONLY)


FORK_SERVER: Final = ForkServer()
os.register_at_fork(after_in_child=FORK_SERVER.forget)
