"""Detects that this process slept longer than its session, after which other members may own its partitions (KS-6)."""

import asyncio
from typing import Final

from engine.clock import Clock
from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.source.partitions import Partitions

_PAUSE_SECS: Final = 0.1


class SessionWatch:
    """Suspends emitting after a long sleep, until the group confirms the membership.

    After a pause of the process or a blocked loop, only the next heartbeat reports that the session is lost. Until then the spout would
    emit records of other members. most_secs: the session timeout minus one heartbeat interval. period_secs: the interval of the checks.
    """

    def __init__(self, link: ConsumerLink, partitions: Partitions, clock: Clock, *, most_secs: float, period_secs: float) -> None:
        self._link, self._partitions, self._clock = link, partitions, clock
        self._most_secs, self._period_secs = most_secs, period_secs
        self._loop = asyncio.get_running_loop()
        self._looked = self._clock.now()
        self._asking: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(period_secs, self._look)

    def stop(self) -> None:
        """Stop watching."""
        self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()

    def _look(self) -> None:
        """Check the time. Called by a timer and not by a coroutine, because after a sleep timers run before the spout."""
        now = self._clock.now()
        if now - self._looked > self._most_secs and not self._partitions.suspended:
            self._partitions.suspend()
            self._asking = self._loop.create_task(self._ask(self._partitions.suspensions))
        self._looked = now
        self._timer = self._loop.call_later(self._period_secs, self._look)

    async def _ask(self, suspension: int) -> None:
        """Resume if the group still knows this member. If not, the next assignment resumes."""
        while self._partitions.suspensions == suspension and self._link.membership == self._partitions.membership:
            if await self._link.is_member():
                self._partitions.end_suspension(suspension)
                return
            await asyncio.sleep(_PAUSE_SECS)
