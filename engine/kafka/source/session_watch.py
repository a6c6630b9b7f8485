"""Whether this process slept for longer than its session may last: then its partitions may be others' by now (KS-6)."""

import asyncio
from typing import Final

from engine.clock import Clock
from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.source.partitions import Partitions

_PAUSE_SECS: Final = 0.1


class SessionWatch:
    """After too long a sleep nothing is emitted before the group has said that we are still its member.

    A process that was paused, or whose loop was blocked, hears of its lost session only with the answer to its next heartbeat; until then
    it would emit what others do. `most_secs`: the session, less a heartbeat that may have been due; every `period_secs` it is looked at.
    """

    def __init__(self, link: ConsumerLink, partitions: Partitions, clock: Clock, *, most_secs: float, period_secs: float) -> None:
        self._link, self._partitions, self._clock = link, partitions, clock
        self._most_secs, self._period_secs = most_secs, period_secs
        self._loop = asyncio.get_running_loop()
        self._looked = self._clock.now()
        self._asking: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(period_secs, self._look)

    def stop(self) -> None:
        """Watch no more."""
        self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()

    def _look(self) -> None:
        """Called by a timer, not by a coroutine: after a sleep it comes before the spout's turn."""
        now = self._clock.now()
        if now - self._looked > self._most_secs and not self._partitions.suspended:
            self._partitions.suspend()
            self._asking = self._loop.create_task(self._ask(self._partitions.suspensions))
        self._looked = now
        self._timer = self._loop.call_later(self._period_secs, self._look)

    async def _ask(self, suspension: int) -> None:
        """Go on where we are still a member; where we are not, the next assignment goes on."""
        while self._partitions.suspensions == suspension and self._link.membership == self._partitions.membership:
            if await self._link.is_member():
                self._partitions.go_on(suspension)
                return
            await asyncio.sleep(_PAUSE_SECS)
