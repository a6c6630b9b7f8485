"""Resources that outlive an attempt at a task: opened once, also for several waiting attempts, and closed once."""

import asyncio
from typing import Any

import pytest

from engine.transactional.resources import OpenResources

pytestmark = pytest.mark.guarantee("TX-5")


class Door:
    """A resource whose opening the test controls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.may_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, context: Any) -> "Door":
        self.calls.append("open")
        await self.may_open
        return self

    async def close(self) -> None:
        self.calls.append("close")


async def test_a_cancelled_attempt_does_not_cancel_the_opening_for_others() -> None:
    resources, door = OpenResources(None), Door()  # type: ignore[arg-type]
    first, second = (asyncio.ensure_future(resources.opened(door)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    door.may_open.set_result(None)
    assert await second is await resources.opened(door) is door
    await resources.close()
    assert door.calls == ["open", "close"]


async def test_a_failed_opening_is_repeated() -> None:
    resources, door = OpenResources(None), Door()  # type: ignore[arg-type]
    door.may_open.set_exception(OSError("shut"))
    for _ in range(2):
        with pytest.raises(OSError, match="shut"):
            await resources.opened(door)
    await resources.close()
    assert door.calls == ["open", "open"]


async def test_an_opening_is_abandoned_when_the_task_ends() -> None:
    resources, door = OpenResources(None), Door()  # type: ignore[arg-type]
    waiting = asyncio.ensure_future(resources.opened(door))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await resources.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert door.calls == ["open"]
