"""A task that is cancelled while it waits for Redis ends, even if the client handles the cancellation wrongly (CP-8)."""

import asyncio
from typing import Any

import pytest

from engine.state.redis.link import RedisAddress, RedisLink
from engine.state.redis.scripts import RELEASE
from tests.patience import PATIENCE_SECS


class Deaf:
    """A client that answers or fails in spite of a cancellation."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    async def execute_command(self, *_: object) -> bytes:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if self.error is not None:
                raise self.error from None
        return b"an answer"

    def pipeline(self, **_: object) -> Any:
        return self

    execute = execute_command


@pytest.mark.parametrize("error", [None, TimeoutError("while it read")])
@pytest.mark.parametrize("ask", ["command", "run"])
async def test_a_cancellation_during_a_call_of_redis_is_not_lost(ask: str, error: Exception | None) -> None:
    link = RedisLink(RedisAddress("127.0.0.1", 1, 0, password=None, prefix="test"), 1.0)
    link._opened = Deaf(error)  # type: ignore[assignment]
    asked = link.command("GET", "a") if ask == "command" else link.run(RELEASE, ["a"], ["b"])
    waiting = asyncio.create_task(asked)
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, PATIENCE_SECS)
