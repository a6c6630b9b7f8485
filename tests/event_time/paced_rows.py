"""A source of rows with times at a slow pace, and a bolt that checks its watermarks."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from engine import Bolt, Tuple, spout
from engine.event_time import NO_WATERMARK, EventTime

DAY = 1_700_000_000_000
"""Some time in milliseconds."""
PACE_SECS = 0.05
MARKS = EventTime("at", wait_for_acks=False)
"""Only the order on the paths keeps these watermarks behind the rows."""


def times_of(count: int, step_ms: int = 1000) -> list[int]:
    return [DAY + number * step_ms for number in range(count)]


@spout("at", max_retries=5)
async def paced() -> AsyncIterator[tuple[int]]:
    for at in times_of(60):
        await asyncio.sleep(PACE_SECS)
        yield (at,)


class Check(Bolt):
    """Records the watermarks, and each row that comes behind one."""

    def __init__(self, watermarks: list[int], late: list[int]) -> None:
        self.watermarks, self.late = watermarks, late
        self.watermark = NO_WATERMARK

    def pass_watermark(self, watermark: int) -> Iterator[None]:
        self.watermark = watermark
        self.watermarks.append(watermark)
        return iter(())

    def execute(self, tup: Tuple) -> None:
        if tup["at"] * 1000 < self.watermark:
            self.late.append(tup["at"])
        self.collector.ack(tup)
