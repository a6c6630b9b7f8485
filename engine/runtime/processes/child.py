"""`run_child` is the main function of the process of a bolt task."""

import asyncio
import os
import signal
import socket
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any, Final

from engine.kernel import exit_at_hangup

_LEFT_ALONE: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals that a terminal or a service manager sends to all processes. The run ends the children itself, after their last tuples."""
_MASK: Final = threading.local()
"""Signal mask of a thread before its running fork."""


def run_child(connection: socket.socket, parent: "Connection[Any, Any] | None", plan: bytes) -> None:
    """Run the task of a pickled `TaskPlan`, until the other end of the connection ends it.

    parent: pidfd of the run's process. If that process or the other end is gone, this process ends at once, whatever it does (PR-2).
    """
    for number in _LEFT_ALONE:
        signal.signal(number, _ignore)  # no SIG_IGN, which programs that a bolt starts would inherit
    os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_restore_signals)
    watched = os.dup(connection.fileno()), -1 if parent is None else os.dup(parent.fileno())
    threading.Thread(target=exit_at_hangup, args=(*watched, 0), daemon=True).start()
    from engine.runtime.processes.child_task import serve  # imported here: the run itself needs none of it

    with asyncio.Runner() as runner:
        try:
            runner.run(serve(connection, plan))
        except BaseException:  # noqa: BLE001 - also a SystemExit of a signal handler or a callback of the loop
            _die()


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
    _MASK.before = signal.pthread_sigmask(signal.SIG_BLOCK, _LEFT_ALONE)


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _MASK.before)


def _ignore(number: int, frame: object) -> None:
    """Ignore a signal."""
