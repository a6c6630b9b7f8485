"""Which process runs a topology: a key that it keeps alive, and that is gone `lease_secs` after it died, or at once when it ends cleanly.

It keeps nobody from writing; the owner of the topology does that. Those that stand by wait for it.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from engine.errors import StateError, StateUnavailable
from engine.state.lease import this_process
from engine.state.redis.link import RedisLink
from engine.state.redis.scripts import RELEASE, RENEW

LONGEST_PAUSE_SECS: Final = 1.0
SHORTEST_PAUSE_SECS: Final = 0.02
"""Between two tries of who stands by."""
LOGGER: Final = logging.getLogger("engine.state")


class RedisLease:
    """One topology's key. Its value says which provider has it, and which process that is."""

    def __init__(self, link: RedisLink, key: str, token: str) -> None:
        self._link = link
        self._key = key
        self._value = f"{token} {this_process()}"
        self._secs = link.address.lease_secs
        self._keeping: asyncio.Task[None] | None = None

    async def holder(self) -> str | None:
        """Return which process has it; None where none does."""
        value = await self._link.command("GET", self._key)
        return None if value is None else str(value.decode("utf-8", "replace").partition(" ")[2])

    async def begin(self) -> None:
        """Say that this process runs the topology, whoever has said so before, and go on saying so."""
        if self._keeping is None:
            await self._link.command("SET", self._key, self._value, "PX", self._milliseconds)
            self._keep()

    async def wait(self, on_waiting: Callable[[str], None]) -> None:
        """Wait until no process runs the topology, then say that this one does; `on_waiting` is told once which one does."""
        asked = False
        while self._keeping is None:
            pause = LONGEST_PAUSE_SECS
            try:
                if await self._link.command("SET", self._key, self._value, "NX", "PX", self._milliseconds):
                    self._keep()
                    return
                if not asked:
                    asked = True
                    on_waiting(await self.holder() or "")
                pause = min(pause, int(await self._link.command("PTTL", self._key)) / 1000)
            except StateUnavailable as error:
                LOGGER.info("%s. Waiting on.", error.message)
            await asyncio.sleep(max(pause, SHORTEST_PAUSE_SECS))

    async def end(self) -> None:
        """Let go of it, if this process has it."""
        keeping, self._keeping = self._keeping, None
        if keeping is None:
            return
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        with suppress(StateError):  # then it goes by itself
            await self._link.run(RELEASE, [self._key], [self._value])

    @property
    def _milliseconds(self) -> int:
        return int(self._secs * 1000)

    def _keep(self) -> None:
        self._keeping = asyncio.get_running_loop().create_task(self._renew(), name="lease")

    async def _renew(self) -> None:
        """Until another process has it. Where Redis cannot be reached, whoever writes says so."""
        is_ours = True
        while is_ours:
            await asyncio.sleep(self._secs / 3)
            with suppress(StateError):
                is_ours = bool(await self._link.run(RENEW, [self._key], [self._value, self._milliseconds]))
