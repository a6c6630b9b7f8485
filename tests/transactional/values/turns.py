"""Tasks that call their databases one after the other, in an order that is drawn: each interleaving of their calls can be had."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

from engine.transactional.values import OpenValues
from engine.transactional.values.redis import RedisStore


class Turns:
    """Holds each call of its tasks until all of them wait, then lets one go, drawn at random."""

    def __init__(self, draws: Random) -> None:
        self._draws = draws
        self._waiting: list[asyncio.Event] = []
        self._running = 0
        self._changed = asyncio.Event()

    def hold(self, values: OpenValues[Any, Any]) -> None:
        """Hold the calls of this map: in Redis each script, since an undo and a write are several there; else each call of the store."""
        store: Any = values._store
        if isinstance(store, RedisStore):
            link: Any = store._link
            link.run = self._held(link.run)
            return
        for name in ("look", "undo", "write"):
            setattr(store, name, self._held(getattr(store, name)))

    def _held(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def held(*what: Any) -> Any:
            turn = asyncio.Event()
            self._waiting.append(turn)
            self._changed.set()
            await turn.wait()
            return await call(*what)

        return held

    async def play(self, *updates: Coroutine[Any, Any, object]) -> None:
        """Run these to their ends; raises what they raise."""
        self._running = len(updates)
        tasks = [asyncio.create_task(self._counted(update)) for update in updates]
        while self._running:
            if len(self._waiting) < self._running:
                self._changed.clear()
                await self._changed.wait()
            else:
                self._waiting.pop(self._draws.randrange(len(self._waiting))).set()
        await asyncio.gather(*tasks)

    async def _counted(self, update: Coroutine[Any, Any, object]) -> None:
        try:
            await update
        finally:
            self._running -= 1
            self._changed.set()
