"""One topology's part of a Redis server: who owns it, and its numbered steps."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from engine.errors import StateError, StateUnavailable
from engine.randomness import RunRandom
from engine.state.redis.errors import Overtaken
from engine.state.redis.lease import RedisLease
from engine.state.redis.link import RedisLink
from engine.state.redis.names import KeyNames
from engine.state.redis.scripts import CLAIM, Arg, Script

FORMAT: Final = 1
"""Of the keys; kept under a key of its own."""
CLAIM_TRIES: Final = 10
LOGGER: Final = logging.getLogger("engine.state")


class Lane:
    """What is done one step after the other; see `scripts`."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.lock: Final = asyncio.Lock()
        self._step = 0

    def next_step(self) -> int:
        """Return the number of the step that begins."""
        self._step += 1
        return self._step


class RedisTopology:
    """What stores and ledgers of one provider share."""

    def __init__(self, link: RedisLink, names: KeyNames) -> None:
        self.link: Final = link
        self.names: Final = names
        self._token = f"{RunRandom().seed:016x}"
        """Names this provider among all that ever own the topology."""
        self.lease: Final = RedisLease(link, names.lease, self._token)
        self._owner = ""
        """Who must own the topology while this provider writes: itself once it has claimed a ledger, until then whoever did at `open`."""
        self._lanes: dict[str, Lane] = {}

    async def open(self) -> None:
        """Raise StateError where the keys are of a newer format, or the server would throw them away."""
        await check_server(self.link)
        if not await self.check_format():
            await self.link.command("SET", self.names.format, FORMAT, "NX")
        self._owner = await self.seen_owner()

    async def check_format(self) -> bool:
        """Tell whether anything is stored; raise StateError where it is of a newer format."""
        stored = await self.link.command("GET", self.names.format)
        if stored is None:
            return False
        if not stored.isdigit():
            raise StateError(f"{self.link}: {self.names.format} is none of ours: {stored[:40]!r}", hint="Choose another ?prefix=.")
        if int(stored) > FORMAT:
            raise StateError(
                f"{self.link}: the state was written by a newer version of the engine (format {int(stored)}; this one knows {FORMAT})",
                hint="Install that version; nothing was changed.",
            )
        return True

    async def seen_owner(self) -> str:
        """Return who owns the topology now, "" where nobody does."""
        owner = await self.link.command("GET", self.names.owner)
        return "" if owner is None else str(owner.decode("ascii", "replace"))

    def lane(self, name: str) -> Lane:
        """Return the lane of this name; the same one for the same name."""
        name = f"{self._token}:{name}"
        return self._lanes.setdefault(name, Lane(name))

    async def step(self, lane: Lane, script: Script, keys: Sequence[str], args: Sequence[Arg]) -> None:
        """Do one step of a lane; raise StateFenced where another process has claimed the topology."""
        async with lane.lock:
            guarded: list[Arg] = [self._owner, lane.name, lane.next_step(), *args]
            await self.link.run(script, [self.names.owner, self.names.lanes, *keys], guarded)

    async def claim(self, lane: Lane, ledger: str) -> int:
        """Take the topology from whoever has it, and raise the epoch of a ledger; the newest claim wins.

        It names the owner that it takes the topology from: a claim of a dead process that arrives late takes it from nobody.
        """
        names = self.names
        async with lane.lock:
            for _ in range(CLAIM_TRIES):
                args: list[Arg] = [self._token, lane.name, lane.next_step(), await self.seen_owner(), ledger]
                try:
                    epoch = await self.link.run(CLAIM, [names.owner, names.lanes, names.epochs], args)
                except Overtaken:
                    continue
                self._owner = self._token
                await self.lease.begin()
                return int(epoch)
        raise StateUnavailable(
            f"{self.link}: other processes claim this topology again and again", hint="Run each topology in one process."
        )

    async def hash(self, key: str) -> dict[bytes, bytes]:
        """Return a small hash."""
        found: dict[Any, Any] = await self.link.command("HGETALL", key)
        return found


async def check_server(link: RedisLink) -> None:
    """Raise StateError where the server would throw keys away; warn where it keeps no log."""
    memory = await link.about("memory")
    policy = str(memory.get("maxmemory_policy", "noeviction"))
    if policy.startswith("allkeys") and memory.get("maxmemory"):
        raise StateError(
            f"{link} throws away any key when it is full (maxmemory-policy {policy}); state must not be lost so",
            hint="Set maxmemory-policy noeviction, or give the state a server of its own.",
        )
    if (await link.about("persistence")).get("aof_enabled") == 0:
        LOGGER.warning("%s keeps no log of what it acknowledges, and may lose it when it dies. Set appendonly yes", link)
