"""Tasks that call their databases in random order, to test each interleaving."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, Final

from engine.errors import StateUnavailable
from engine.state.redis.values import RedisValueStore
from engine.transactional.values import OpenValues

FAULTY: Final = 0.4
"""Share of calls with a fault, while more faults are allowed."""


class Turns:
    """Holds each call of its tasks until all of them wait, then lets a random one proceed.

    `faults` is the largest number of faults. A fault loses the answer, or abandons the call, which then arrives in a later turn.
    """

    def __init__(self, draws: Random, faults: int = 0) -> None:
        self._draws = draws
        self._faults = faults
        self._faults_left = 0
        self._late: list[Callable[[], Awaitable[Any]]] = []
        self.delivered = 0
        """Number of calls that arrived late."""
        self._waiting: list[asyncio.Event] = []
        self._running = 0
        self._changed = asyncio.Event()

    def hold(self, values: OpenValues[Any, Any]) -> None:
        """Hold the calls of this map; in Redis each script, because an undo and a write have several."""
        store: Any = values._store
        if isinstance(store, RedisValueStore):
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
            fate = self._draws.random() if self._faults_left else 1.0
            self._faults_left -= fate < FAULTY
            if fate < FAULTY / 2:
                self._late.append(lambda: call(*what))
                raise StateUnavailable("injected: no answer; it arrives late")
            answer = await call(*what)
            if fate < FAULTY:
                raise StateUnavailable("injected: the answer is lost")
            return answer

        return held

    async def deliver(self, most: int = 1_000_000) -> None:
        """Let abandoned calls arrive, in any order."""
        while self._late and most > 0:
            most -= 1
            self.delivered += 1
            await self._late.pop(self._draws.randrange(len(self._late)))()

    async def play(self, *updates: Coroutine[Any, Any, object]) -> None:
        """Run these to their ends, and raise their exceptions."""
        self._running, self._faults_left = len(updates), self._faults
        tasks = [asyncio.create_task(self._counted(update)) for update in updates]
        while self._running:
            if len(self._waiting) < self._running:
                self._changed.clear()
                await self._changed.wait()
            else:
                await self.deliver(self._draws.choice((0, 0, 1)))
                self._waiting.pop(self._draws.randrange(len(self._waiting))).set()
        await asyncio.gather(*tasks)

    async def _counted(self, update: Coroutine[Any, Any, object]) -> None:
        try:
            await update
        finally:
            self._running -= 1
            self._changed.set()
