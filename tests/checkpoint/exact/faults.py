"""Faults within one process: rows that fail, and tasks and processes of bolts that die."""

import asyncio
import os
import random
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from engine import Run
from engine.names import ACKER_COMPONENT
from tests.kills.bolt_forms import strike_bolt_process

TASKS_OF: Final = ("numbers", "pass", "first", "second", ACKER_COMPONENT)


class RowFailed(Exception):
    """A bolt has failed a row."""


class Failing:
    """Fails calls at random, so many in all bolts and their processes together. A row fails about once."""

    def __init__(self, folder: str, share: float, *, only_pass: bool = False) -> None:
        """only_pass: only calls of the bolt `pass` fail."""
        self.folder, self.share, self.only_pass = Path(folder, "failures-left"), share, only_pass

    def allow(self, most: int) -> None:
        """Begin with this number of failures."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        for number in range(most):
            Path(self.folder, str(number)).touch()

    def may_fail(self, rows: int = 1, *, in_pass: bool = False) -> None:
        """Raise RowFailed now and then. rows: number of rows of the call. in_pass: True for a call of the bolt `pass`."""
        if self.only_pass and not in_pass:
            return
        if random.random() < self.share * rows and (left := next(self.folder.iterdir(), None)) is not None:
            with suppress(FileNotFoundError):  # another process was faster
                left.unlink()
                raise RowFailed


async def strike(run: Run, strikes: int, pause_secs: float, seed: int, has_output: bool) -> None:
    """Kill or restart a task, or kill the process of a bolt, so many times, each after a pause of this average length."""
    draws = random.Random(seed)
    components = (*TASKS_OF, *["output"] * 2 * has_output)
    for _ in range(strikes):
        await asyncio.sleep(draws.expovariate(1 / pause_secs))
        task = draws.choice(run.task_ids(draws.choice(components)))
        kind = draws.choice(["kill", "restart", "child"])
        if kind == "child" and strike_bolt_process(os.getpid(), draws, (signal.SIGKILL,)):
            continue
        if kind == "restart" and task not in run.task_ids(ACKER_COMPONENT):
            run.restart_task(task)
        else:
            run.kill_task(task)
