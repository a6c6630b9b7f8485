"""Forms of the bolts that campaigns draw: single tuples or bursts, in the run or in processes. Also finds these processes from outside."""

import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeVar

from tests.servers.keeper import command_line, descendants, living

BOLTS: Final = ("plain", "plain", "bursts", "processes", "bursts in processes")
"""Forms of the bolts, each in one round of five."""
DEATHS: Final = ("task_died", "rollback")
"""Reasons of the failures that the death of a bolt's process causes."""
SIGNALS: Final = (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP)
"""Signals that strike the process of a bolt. One that is stopped is killed after `PROCESS_TIMEOUT_SECS`."""
PROCESS_TIMEOUT_SECS: Final = 10.0
"""A process that runs must not be silent for so long on a busy machine."""
FORK_SERVER: Final = "ForkService"
"""Text in the command lines of a fork server and of its children."""

EachT = TypeVar("EachT")


def choose_in_turn(all_of: Sequence[EachT], seed: int, number: int) -> EachT:
    """Choose an element, so that each comes once in random order before any repeats."""
    cycle, at = divmod(number, len(all_of))
    return random.Random(f"{seed} cycle {cycle}").sample(all_of, len(all_of))[at]


def bolt_processes(run: int) -> list[int]:
    """Return the processes of the bolts of a run, by the process of the run. They are the children of its fork server."""
    parents = living()
    return [pid for pid in descendants(run) if parents.get(pid, run) != run and FORK_SERVER in command_line(pid)]


def strike_bolt_process(run: int, draws: random.Random, signals: Sequence[signal.Signals] = SIGNALS) -> bool:
    """Kill or stop a process of a bolt. Return False if there is none."""
    there = sorted(bolt_processes(run))
    return bool(there) and _send(draws.choice(there), draws.choice(signals))


def kill_run(run: int) -> list[int]:
    """Kill the process of a run with kill -9. Return the processes of its bolts, which end too, after a stopped one continues (PR-2)."""
    bolts = bolt_processes(run)
    _send(run, signal.SIGKILL)
    for pid in bolts:
        _send(pid, signal.SIGCONT)
    return bolts


def _send(pid: int, number: signal.Signals) -> bool:
    """Send a signal. Return False if the process has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
