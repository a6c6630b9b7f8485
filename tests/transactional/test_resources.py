"""What outlives an attempt at a task: opened once, whoever waits for it, and closed once."""

import asyncio
from typing import Any

import pytest

from engine.transactional.resources import OpenResources

pytestmark = pytest.mark.guarantee("TX-5")


class Door:
    """A resource that is opened when it is told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.may_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, context: Any) -> "Door":
        self.calls.append("open")
        await self.may_open
        return self

    async def close(self) -> None:
        self.calls.append("close")


async def test_an_attempt_that_is_cancelled_takes_nothing_from_those_behind_it() -> None:
    resources, door = OpenResources(None), Door()  # type: ignore[arg-type]
    first, second = (asyncio.ensure_future(resources.opened(door)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    door.may_open.set_result(None)
    assert await second is await resources.opened(door) is door
    await resources.close()
    assert door.calls == ["open", "close"]


async def test_one_that_could_not_be_opened_is_tried_again() -> None:
    resources, door = OpenResources(None), Door()  # type: ignore[arg-type]
    door.may_open.set_exception(OSError("shut"))
    for _ in range(2):
        with pytest.raises(OSError, match="shut"):
            await resources.opened(door)
    await resources.close()
    assert door.calls == ["open", "open"]


async def test_what_is_being_opened_when_the_task_ends_is_given_up() -> None:
    resources, door = OpenResources(None), Door()  # type: ignore[arg-type]
    waiting = asyncio.ensure_future(resources.opened(door))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await resources.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert door.calls == ["open"]
