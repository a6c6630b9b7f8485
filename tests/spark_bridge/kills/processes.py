"""A process of a round: reads its output, kills it, and checks that its descendants end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.kills.forks import ForkedProgram, start_forked
from tests.servers.keeper import command_line, descendants, living

FAMILY_SECS: Final = 30.0
"""Longest time that descendants may outlive a killed process."""
LOOK_SECS: Final = 0.05
CHILD: Final = "spark_bridge.process.child"
JVM: Final = "org.apache.spark.deploy.SparkSubmit"


class NotInTime(Exception):
    """An awaited condition did not come true in time."""


async def until(condition: Callable[[], bool], secs: float, what: str) -> None:
    """Wait for a condition. Raise NotInTime."""
    for _ in range(int(secs / LOOK_SECS)):
        if condition():
            return
        await asyncio.sleep(LOOK_SECS)
    raise NotInTime(f"{what}: not within {secs:g} s")


class LivingProcess:
    """One process: call `start`, then `kill` or `ended`."""

    def __init__(self, module: str, argument: str, log: Path) -> None:
        self._module, self._argument = module, argument
        self._log = log
        self.last_line = ""
        """Last line of its stdout."""
        self._process: ForkedProgram | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def start(self) -> "LivingProcess":
        """Start the process."""
        with self._log.open("ab") as log:
            self._process = await start_forked(self._module, self._argument, stderr=log)
        self._hearing = asyncio.create_task(self._hear())
        return self

    @property
    def process(self) -> ForkedProgram:
        """The process."""
        assert self._process is not None
        return self._process

    @property
    def has_ended(self) -> bool:
        """True after its end."""
        return self.process.returncode is not None

    async def _hear(self) -> None:
        while line := await self.process.stdout.readline():
            self.last_line = line.decode().strip()

    def say(self, line: str) -> None:
        """Write a line to its stdin."""
        self.process.write_stdin(f"{line}\n".encode())

    def family_member(self, marking: str) -> int | None:
        """Return the descendant with this text in its command line."""
        if self.has_ended:
            return None
        return next((pid for pid in descendants(self.process.pid) if marking in command_line(pid)), None)

    async def ended(self, secs: float) -> int | None:
        """Wait for its end. Return its status, or None if it still runs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(secs):
                await self.process.wait()
        return self.process.returncode

    async def kill(self) -> tuple[int | None, list[int]]:
        """Kill it with SIGKILL. Return its status, and the descendants that outlived it, which are killed too."""
        family = [] if self.has_ended else descendants(self.process.pid)
        self.process.kill()
        await self.process.wait()
        assert self._hearing is not None
        with contextlib.suppress(NotInTime):
            await until(lambda: living().keys().isdisjoint(family), FAMILY_SECS, "the end of its family")
        left = sorted(living().keys() & set(family))
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self._hearing
        await self.process.close()
        return self.process.returncode, left
