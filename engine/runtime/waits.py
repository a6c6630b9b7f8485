"""The time of trees: what only waits is refreshed, then the ackers rotate (ACK-8).

Between two rotations every tuple in a mailbox, put aside or deferred sends a reset for its roots, in slices; the rotation
waits for the end of that walk, so a tree that only waits never times out. The hot path pays nothing.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from engine.config import Config
from engine.kernel import LIFETIME, BoltCore, Signal
from engine.runtime.acker_executor import AckerExecutor
from engine.runtime.bolt_executor import BoltExecutor

TUPLES_PER_STEP: Final = 2048
SLICE_SECS: Final = 0.005


def rotation_secs(config: Config) -> float:
    """Seconds between two rotations: a tree dies on the LIFETIME-th after its last progress.

    A wait that ended since the last rotation was noted by that one, so one rotation more than T has must pass.
    """
    return config.message_timeout_secs / (LIFETIME - 2)


class TreeClock:
    """Drives the rotations of all ackers of a run."""

    def __init__(self, config: Config, bolts: Sequence[BoltExecutor], ackers: Sequence[AckerExecutor]) -> None:
        self._period_secs = rotation_secs(config)
        self._refreshes = config.timeout_from == "progress"
        self._cores: list[BoltCore] = [bolt.core for bolt in bolts]
        self._ackers = ackers

    async def run(self) -> None:
        """Rotate until cancelled."""
        while True:
            await asyncio.sleep(self._period_secs)  # from the end of the last one: two are never closer, and no tree dies early
            if self._refreshes:
                await self._refresh()
            for acker in self._ackers:
                acker.inbox.signal(Signal.ROTATE)

    async def _refresh(self) -> None:
        """Walk over all that waits; others get their turn every 5 ms."""
        now = asyncio.get_running_loop().time
        began = now()
        for core in self._cores:
            for walk in (core.refresh_waiting, core.deferred_acks.refresh):
                position = 0
                while position >= 0:
                    position = walk(position, TUPLES_PER_STEP)
                    if now() - began >= SLICE_SECS:
                        await asyncio.sleep(0)
                        began = now()
            core.refresh_held()
