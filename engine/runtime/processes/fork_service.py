"""`ForkService` runs in the fork server. Its module imports all that a child needs, and nothing of the program."""

import concurrent.futures.thread  # noqa: F401 - as tokenize, so that no child looks for it, or what it imports, on the program's path
import errno
import os
import signal
import socket
import sys
import tokenize  # noqa: F401
import traceback
from contextlib import suppress
from multiprocessing.connection import wait

from engine.runtime.processes.child import LEFT_ALONE, ignore_signal, run_child
from engine.runtime.processes.fork_server import PASSED_FILES, READY, REQUEST
from engine.runtime.processes.forked_process import ANSWER


class ForkService:
    """Forks a child for each request, and tells its id and the status of its end, until the program has ended.

    Only the program ends this process. A signal to all processes of a service must leave it, because a drain may need another child.
    """

    def __init__(self, control: int, parent: int | None) -> None:
        """control: socket of the requests. parent: pidfd of the program."""
        while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
            continue  # else a file of a child could become its standard output
        os.close(spare)
        for number in (control, parent):
            if number is not None:
                os.set_inheritable(number, False)
        self._parent = parent
        self._bells, self._bell = os.pipe()
        for pipe_end in (self._bells, self._bell):
            os.set_blocking(pipe_end, False)
        signal.signal(signal.SIGCHLD, ignore_signal)
        for handled in LEFT_ALONE:
            if signal.getsignal(handled) != signal.SIG_IGN:  # as under nohup, also for the programs that a bolt starts
                signal.signal(handled, ignore_signal)
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        self._requests = socket.socket(fileno=control)
        self._children: dict[int, socket.socket] = {}
        """By process id, the sockets on which their program waits for their status."""

    def serve(self) -> None:
        """Serve until the program closes its end, or ends. A process that it has forked may hold its end open."""
        self._requests.sendall(READY)
        watched: list[socket.socket | int] = [self._requests, self._bells]
        if self._parent is not None:
            watched.append(self._parent)
        while True:
            ready = wait(watched)
            if self._parent in ready:
                return
            if self._bells in ready:
                os.read(self._bells, 4096)
                self._tell_ends()
            if self._requests in ready:
                request, passed, _, _ = socket.recv_fds(self._requests, len(REQUEST), PASSED_FILES)
                if not request:
                    return
                self._handle(passed)

    def _handle(self, passed: list[int]) -> None:
        """Fork a child that gets the passed files. If the system has not passed all of them, the program hears of no child."""
        for number in passed:
            os.set_inheritable(number, False)  # else programs that a bolt starts would have them
        if len(passed) == PASSED_FILES:
            status = socket.socket(fileno=passed.pop())
            self._fork(status, passed)
        for number in passed:
            os.close(number)

    def _fork(self, status: socket.socket, passed: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            with status:
                _tell(status, -(error.errno or errno.EAGAIN))
            return
        if pid == 0:
            self._become_child(status, passed)
        self._children[pid] = status
        try:
            pidfd = os.pidfd_open(pid)  # opened here, because nothing else can have this id before `_tell_ends`
        except (AttributeError, OSError):  # no Linux, or a kernel before 5.3
            _tell(status, pid)
        else:
            _tell(status, pid, pidfd)
            os.close(pidfd)

    def _become_child(self, status: socket.socket, passed: list[int]) -> None:
        """Run the task, and end this process."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (self._requests, status, *self._children.values()):
                each.close()
            for number in (self._bells, self._bell):
                os.close(number)
            connection, folder, tracker = passed
            code = run_child(connection, folder, tracker, self._parent)
        except BaseException:  # noqa: BLE001 - nothing of a child may get into the loop of the server
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def _tell_ends(self) -> None:
        while self._children:
            pid, code = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with self._children.pop(pid) as told:
                _tell(told, os.waitstatus_to_exitcode(code))


def _tell(status: socket.socket, number: int, pidfd: int | None = None) -> None:
    with suppress(OSError):  # nobody waits for it any more
        if pidfd is None:
            status.sendall(ANSWER.pack(number))
        else:
            socket.send_fds(status, [ANSWER.pack(number)], [pidfd])
