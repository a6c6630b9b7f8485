"""A process of a round: its lines are heard, it is killed with its family looked after, and it ends with this program."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.servers.keeper import descendants, living

FAMILY_SECS: Final = 30.0
"""How long what a killed process had started may outlive it."""
LOOK_SECS: Final = 0.05
CHILD: Final = "spark_bridge.process.child"
JVM: Final = "org.apache.spark.deploy.SparkSubmit"


class NotInTime(Exception):
    """What was waited for did not come about."""


async def until(condition: Callable[[], bool], secs: float, what: str) -> None:
    """Wait for a condition; raise NotInTime."""
    for _ in range(int(secs / LOOK_SECS)):
        if condition():
            return
        await asyncio.sleep(LOOK_SECS)
    raise NotInTime(f"{what}: not within {secs:g} s")


class LivingProcess:
    """One process; `start` it, then `kill` it or have it end."""

    def __init__(self, module: str, argument: str, log: Path) -> None:
        self._command = [sys.executable, "-m", module, argument]
        self._log = log
        self.last_line = ""
        """What it has said last by stdout."""
        self._process: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def start(self) -> "LivingProcess":
        """Start it."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE, stderr=log)
        self._hearing = asyncio.create_task(self._hear())
        return self

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The process."""
        assert self._process is not None
        return self._process

    @property
    def has_ended(self) -> bool:
        """True where it runs no more."""
        return self.process.returncode is not None

    async def _hear(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.last_line = line.decode().strip()

    def say(self, line: str) -> None:
        """Tell it something."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    def family_member(self, marking: str) -> int | None:
        """The process that comes from this one and has this in its command line."""
        if self.has_ended:
            return None
        return next((pid for pid in descendants(self.process.pid) if marking in command_line(pid)), None)

    async def ended(self, secs: float) -> int | None:
        """Wait until it ends by itself; return its status, None where it does not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(secs):
                await self.process.wait()
        return self.process.returncode

    async def kill(self) -> tuple[int | None, list[int]]:
        """End it by kill -9; return its status, and what has outlived it for too long, which is killed as well."""
        family = [] if self.has_ended else descendants(self.process.pid)
        if not self.has_ended:
            os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        assert self._hearing is not None
        with contextlib.suppress(NotInTime):
            await until(lambda: living().keys().isdisjoint(family), FAMILY_SECS, "the end of its family")
        left = sorted(living().keys() & set(family))
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self._hearing
        return self.process.returncode, left


def command_line(pid: int) -> str:
    """How a process was started; empty where it runs no more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
