"""Claims one topology in Redis, numbers its steps, and renews its lease."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from engine.errors import StateError, StateUnavailable
from engine.log import EngineLogger
from engine.randomness import RunRandom
from engine.state.checksums import BARE, FORMAT, MIXED, parse_format
from engine.state.redis.link import Overtaken, RedisLink
from engine.state.redis.names import KeyNames
from engine.state.redis.scripts import CLAIM, RELEASE, RENEW, Arg, Script
from engine.state.standby import process_name

CLAIM_TRIES: Final = 10
LOGGER: Final = EngineLogger("engine.state")


class Lane:
    """A numbered sequence of steps, one at a time. The module `scripts` explains why."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.lock: Final = asyncio.Lock()
        self._step = 0

    def next_step(self) -> int:
        """Return the number of the next step."""
        self._step += 1
        return self._step


class RedisTopology:
    """One stored topology, which the stores and ledgers of a provider share."""

    def __init__(self, link: RedisLink, names: KeyNames) -> None:
        self.link: Final = link
        self.names: Final = names
        self._token = f"{RunRandom().seed:016x}"
        """Identifies this provider among all owners of the topology."""
        self.lease: Final = RedisLease(link, names.lease, self._token)
        self._owner = ""
        """The owner that every write expects. After the claim it is this provider, before the claim the owner at `open`."""
        self._lanes: dict[str, Lane] = {}
        self._format = FORMAT

    async def open(self) -> None:
        """Check the server and the format. Raises StateError if the format is newer, or the server may evict keys."""
        await check_server(self.link)
        if not await self.check_format():
            await self.link.command("SET", self.names.format, FORMAT, "NX")
        self._owner = await self.seen_owner()

    async def check_format(self) -> bool:
        """Return whether anything is stored. Raises StateError for a newer format."""
        stored = await self.link.command("GET", self.names.format)
        if stored is None:
            return False
        self._format = parse_format(stored, f"{self.link}: {self.names.format}", hint="Choose another ?prefix=.")
        return True

    @property
    def has_bare_blocks(self) -> bool:
        """True if stored data may lack checksums, because an older version has run the topology."""
        return self._format < FORMAT

    async def seen_owner(self) -> str:
        """Return the current owner of the topology, "" if there is none."""
        owner = await self.link.command("GET", self.names.owner)
        return "" if owner is None else str(owner.decode("ascii", "replace"))

    def lane(self, name: str) -> Lane:
        """Return the lane of this name, always the same object."""
        name = f"{self._token}:{name}"
        return self._lanes.setdefault(name, Lane(name))

    async def run_step(self, lane: Lane, script: Script, keys: Sequence[str], args: Sequence[Arg]) -> None:
        """Run one step of a lane. Raises StateFenced if another process has claimed the topology."""
        async with lane.lock:
            guarded: list[Arg] = [self._owner, lane.name, lane.next_step(), *args]
            await self.link.run(script, [self.names.owner, self.names.lanes, *keys], guarded)

    async def claim(self, lane: Lane, ledger: str) -> str:
        """Take the topology over, raise the epoch of a ledger, and return the stored epoch. The newest claim wins.

        The claim names the owner that it replaces. So a late claim of a dead process has no effect.
        """
        names = self.names
        async with lane.lock:
            for _ in range(CLAIM_TRIES):
                bare = "bare" if self.has_bare_blocks else ""
                args: list[Arg] = [self._token, lane.name, lane.next_step(), await self.seen_owner(), ledger, bare]
                try:
                    epoch = await self.link.run(CLAIM, [names.owner, names.lanes, names.epochs], args)
                except Overtaken:
                    continue
                self._owner = self._token
                if self._format == BARE:  # before the first write with a checksum, which older versions cannot read
                    await self.link.command("SET", self.names.format, MIXED)
                    self._format = MIXED
                await self.lease.begin()
                return str(epoch.decode())
        raise StateUnavailable(
            f"{self.link}: other processes claim this topology again and again", hint="Run each topology in one process."
        )

    async def read_hash(self, key: str) -> dict[bytes, bytes]:
        """Return all fields of a small hash."""
        found: dict[Any, Any] = await self.link.command("HGETALL", key)
        return found


async def check_server(link: RedisLink) -> None:
    """Raise StateError if the server may evict keys. Warn if it does not log writes."""
    memory = await link.server_info("memory")
    policy = str(memory.get("maxmemory_policy", "noeviction"))
    if policy.startswith("allkeys") and memory.get("maxmemory"):
        raise StateError(
            f"{link} evicts any key when its memory is full (maxmemory-policy {policy}), so state could be lost",
            hint="Set maxmemory-policy noeviction, or use a separate server for the state.",
        )
    if (await link.server_info("persistence")).get("aof_enabled") == 0:
        LOGGER.warning("%s may lose acknowledged writes in a crash, because it does not log them. Set appendonly yes", link)


LONGEST_PAUSE_SECS: Final = 1.0
SHORTEST_PAUSE_SECS: Final = 0.02
"""Limits of the pause between two attempts of a standby process."""


class RedisLease:
    """Lease of one topology, which is a key with the provider and the name of the process."""

    def __init__(self, link: RedisLink, key: str, token: str) -> None:
        self._link = link
        self._key = key
        self._value = f"{token} {process_name()}"
        self._secs = link.address.lease_secs
        self._keeping: asyncio.Task[None] | None = None

    async def holder(self) -> str | None:
        """Return the process that holds the lease, None if none does."""
        value = await self._link.command("GET", self._key)
        return None if value is None else str(value.decode("utf-8", "replace").partition(" ")[2])

    async def begin(self) -> None:
        """Take the lease from any holder, and renew it from now on."""
        if self._keeping is None:
            await self._link.command("SET", self._key, self._value, "PX", self._milliseconds)
            self._keep()

    async def wait(self, on_waiting: Callable[[str], None]) -> None:
        """Wait until no process holds the lease, then take it. Calls `on_waiting` once with the name of the holder."""
        asked = False
        while self._keeping is None:
            pause = LONGEST_PAUSE_SECS
            try:
                if await self._link.command("SET", self._key, self._value, "NX", "PX", self._milliseconds):
                    self._keep()
                    return
                if not asked:
                    asked = True
                    on_waiting(await self.holder() or "")
                pause = min(pause, int(await self._link.command("PTTL", self._key)) / 1000)
            except StateUnavailable as error:
                LOGGER.info("%s. Still waiting.", error.message)
            await asyncio.sleep(max(pause, SHORTEST_PAUSE_SECS))

    async def end(self) -> None:
        """Release the lease if this process holds it."""
        keeping, self._keeping = self._keeping, None
        if keeping is None:
            return
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        with suppress(StateError):  # the lease expires by itself
            await self._link.run(RELEASE, [self._key], [self._value])

    @property
    def _milliseconds(self) -> int:
        return int(self._secs * 1000)

    def _keep(self) -> None:
        self._keeping = asyncio.get_running_loop().create_task(self._renew(), name="lease")

    async def _renew(self) -> None:
        """Renew the lease until another process holds it. Errors are ignored, because the next write of state reports them."""
        is_ours = True
        while is_ours:
            await asyncio.sleep(self._secs / 3)
            with suppress(StateError):
                is_ours = bool(await self._link.run(RENEW, [self._key], [self._value, self._milliseconds]))
