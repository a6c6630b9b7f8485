"""kill -9 of the children of a simulated run, and restarts of its tasks, at the moments of its plan."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from engine import Run
from engine.runtime.processes.process_bolt import ProcessBoltExecutor
from engine.testing import VirtualTimeLoop
from tests.processes.children import children_of
from tests.simulation.plan import ChildKill, TaskRestart

PATIENCE_SECS = 0.002
"""Real time that a jump of virtual time waits for sockets. Time stands still while a child works, so nothing else can arrive."""
CHILD_SECS = 5.0
"""Longest wait for the end of a child whose run has ended."""
METHODS = {"close": "close_child", "call": "call_child"}
"""Methods of the actor that send a message. A method that receives one has its name."""


class ChildKills:
    """Kills children of one run as its plan says."""

    def __init__(self, kills: Sequence[ChildKill], restarts: Sequence[TaskRestart]) -> None:
        self.kills, self.restarts = kills, restarts
        self.killed: list[str] = []
        """One entry for each killed child, by the moment."""

    async def play(self, run: Run) -> None:
        """Kill and restart until all timed faults have happened. Other kills may happen later."""
        assert run._assembly is not None
        for bolt in run._assembly.bolts:
            if isinstance(bolt, ProcessBoltExecutor):
                self._watch(bolt)
        timed = [kill for kill in self.kills if kill.message is None]
        await asyncio.gather(*(self._kill_later(run, kill) for kill in timed), *(_restart(run, each) for each in self.restarts))

    def _watch(self, bolt: ProcessBoltExecutor) -> None:
        """Count the messages to and from the child."""
        place = (bolt.info.component_id, bolt.info.task_index)
        for kill in self.kills:
            if kill.message is not None and (kill.component_id, kill.task_index) == place:
                name = METHODS.get(kill.message, f"_on_{kill.message}")
                setattr(bolt, name, self._counted(bolt, kill, getattr(bolt, name)))

    def _counted(self, bolt: ProcessBoltExecutor, kill: ChildKill, handle: Callable[..., Any]) -> Callable[..., Any]:
        left = kill.number

        def counted(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                self._kill(bolt, f"child at {kill.message}")
            return handle(*arguments)

        return counted

    async def _kill_later(self, run: Run, kill: ChildKill) -> None:
        await asyncio.sleep(kill.at_secs)
        if run._assembly is not None:
            for bolt in run._assembly.bolts:
                if (bolt.info.component_id, bolt.info.task_index) == (kill.component_id, kill.task_index):
                    self._kill(bolt, "child at a time")

    def _kill(self, bolt: Any, moment: str) -> None:
        child = bolt._child
        if child is not None and not child._gone.done():
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
                self.killed.append(moment)


async def _restart(run: Run, restart: TaskRestart) -> None:
    """Replace a task's instance, as an operator would (SV-9)."""
    await asyncio.sleep(restart.at_secs)
    if run.state == "running":
        run.restart_task(run.task_ids(restart.component_id)[restart.task_index])


def children_left(topology: str) -> list[str]:
    """Return the names of the children that outlive their run (PR-2). One whose start was cancelled needs a moment to end."""
    end = time.monotonic() + CHILD_SECS
    while (left := [child.name for child in children_of(topology) if child.is_running]) and time.monotonic() < end:
        time.sleep(0.01)
    return left


@contextmanager
def impatient_loops() -> Iterator[None]:
    """Let jumps of virtual time wait only shortly for the sockets of children."""
    before = VirtualTimeLoop.socket_patience_secs
    VirtualTimeLoop.socket_patience_secs = PATIENCE_SECS
    try:
        yield
    finally:
        VirtualTimeLoop.socket_patience_secs = before
