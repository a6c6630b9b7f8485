"""`run_child` is the main function of the process of a bolt task."""

import asyncio
import atexit
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from multiprocessing import resource_tracker
from typing import Any, Final

from engine.kernel import exit_at_hangup
from engine.raised import headline
from engine.runtime.processes.child_task import serve
from engine.runtime.processes.frame_link import LENGTH
from engine.runtime.processes.program_state import ProgramState

LEFT_ALONE: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a terminal or a service manager sends to all processes, and that the program may handle.

The run ends the children itself, after their last tuples. If a signal ends the run, its children end because their connections do.
"""
_MASK: Final = threading.local()
"""Signal mask of a thread before its running fork."""


def run_child(connection: int, folder: int, tracker: int, parent: int | None) -> int:
    """Take over the state of the program, run the task of a pickled `TaskPlan`, and return the status of this process.

    connection: socket to the run, which sends both. If the other end is gone, or the process of the pidfd `parent`, this process ends at
    once, whatever it does (PR-2). folder: the working directory. tracker: pipe to the resource tracker of the program.
    """
    sentinel = os.dup(connection) if parent is None else parent
    watched = os.dup(connection), -1 if parent is None else parent
    threading.Thread(target=exit_at_hangup, args=(*watched, 0), daemon=True).start()
    os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_restore_signals)
    trackers: Any = resource_tracker
    trackers._resource_tracker._fd = tracker  # else its own one would remove shared memory of the program
    to_run = socket.socket(fileno=connection)
    state: ProgramState = pickle.loads(_read_frame(to_run))
    try:
        state.adopt(folder)
    except BaseException as error:  # noqa: BLE001 - code of the program's file
        frame = pickle.dumps(("unimportable", headline(error)), 5)
        to_run.sendall(LENGTH.pack(len(frame)) + frame)
        traceback.print_exc()
        return 1
    os.close(folder)
    process: Any = multiprocessing.Process(target=_run_task, args=(to_run, _read_frame(to_run)), name=state.preparation["name"])
    process._parent_pid = state.pid
    status: int = process._bootstrap(parent_sentinel=sentinel)
    if sys.version_info >= (3, 13):
        atexit._run_exitfuncs()  # as `multiprocessing` does since then
    return status


def _run_task(connection: socket.socket, plan: bytes) -> None:
    with asyncio.Runner() as runner:
        try:
            runner.run(serve(connection, plan))
        except BaseException:  # noqa: BLE001 - also a SystemExit of a signal handler or a callback of the loop
            _die()
    _end_pools()


def _end_pools() -> None:
    """End each `ProcessPoolExecutor` that nobody has shut down, as the end of any other program does, after the work that it has.

    `multiprocessing` would do so too, but first wait for the end of all processes, also of those that wait for work from such a pool.
    """
    pools: Any = sys.modules.get("concurrent.futures.process")
    if pools is not None:
        pools._python_exit()


def _read_frame(connection: socket.socket) -> bytes:
    return _read(connection, LENGTH.unpack(_read(connection, LENGTH.size))[0])


def _read(connection: socket.socket, size: int) -> bytes:
    """Read exactly so many bytes. If they do not come, the thread of `run_child` ends this process."""
    data = bytearray()
    while len(data) < size:
        data += connection.recv(size - len(data))
    return bytes(data)


def _die() -> None:
    """End this process, because its loop has ended before its task. A loop that goes on would serve a task that nobody can close."""
    try:
        traceback.print_exc(file=sys.__stderr__)  # the other one sends text to the run, and needs the loop
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
    finally:
        os._exit(1)


def _restore_signals() -> None:
    """Let signals end a process that the bolt forks. A `multiprocessing.Pool` ends its workers so."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _unblock_signals()


def _block_signals() -> None:
    """Let signals wait during a fork. Else a forked process would ignore one that arrives before `_restore_signals`."""
    _MASK.before = signal.pthread_sigmask(signal.SIG_BLOCK, LEFT_ALONE)


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _MASK.before)


def ignore_signal(number: int, frame: object) -> None:
    """Ignore a signal. SIG_IGN would also hold for programs that a bolt starts."""
