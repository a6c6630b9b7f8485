"""One topology's part of a Redis server: who owns it, and its numbered steps."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from engine.errors import StateError, StateUnavailable
from engine.randomness import RunRandom
from engine.state.redis.link import Overtaken, RedisLink
from engine.state.redis.names import KeyNames
from engine.state.redis.scripts import CLAIM, RELEASE, RENEW, Arg, Script
from engine.state.standby import process_name

BARE, MIXED, FORMAT = 1, 2, 3
"""Of the keys; kept under a key of its own. BARE: without checksums; MIXED: what was written since has them; FORMAT: all has them."""
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
        self._format = FORMAT

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
        self._format = int(stored)
        if self._format > FORMAT:
            raise StateError(
                f"{self.link}: the state was written by a newer version of the engine (format {self._format}; this one knows {FORMAT})",
                hint="Install that version; nothing was changed.",
            )
        return True

    @property
    def has_bare_blocks(self) -> bool:
        """True where some of what is stored may have no checksum: a version that wrote none has run the topology."""
        return self._format < FORMAT

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

    async def claim(self, lane: Lane, ledger: str) -> str:
        """Take the topology from whoever has it, and raise the epoch of a ledger; return that as it is stored. The newest claim wins.

        It names the owner that it takes the topology from: a claim of a dead process that arrives late takes it from nobody.
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
                if self._format == BARE:  # before anything with a checksum is written, which older versions cannot read
                    await self.link.command("SET", self.names.format, MIXED)
                    self._format = MIXED
                await self.lease.begin()
                return str(epoch.decode())
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


LONGEST_PAUSE_SECS: Final = 1.0
SHORTEST_PAUSE_SECS: Final = 0.02
"""Between two tries of who stands by."""


class RedisLease:
    """One topology's key. Its value says which provider has it, and which process that is."""

    def __init__(self, link: RedisLink, key: str, token: str) -> None:
        self._link = link
        self._key = key
        self._value = f"{token} {process_name()}"
        self._secs = link.address.lease_secs
        self._keeping: asyncio.Task[None] | None = None

    async def holder(self) -> str | None:
        """Return which process has it; None where none does."""
        value = await self._link.command("GET", self._key)
        return None if value is None else str(value.decode("utf-8", "replace").partition(" ")[2])

    async def begin(self) -> None:
        """Say that this process runs the topology, whoever has said so before, and go on saying so."""
        if self._keeping is None:
            await self._link.command("SET", self._key, self._value, "PX", self._milliseconds)
            self._keep()

    async def wait(self, on_waiting: Callable[[str], None]) -> None:
        """Wait until no process runs the topology, then say that this one does; `on_waiting` is told once which one does."""
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
                LOGGER.info("%s. Waiting on.", error.message)
            await asyncio.sleep(max(pause, SHORTEST_PAUSE_SECS))

    async def end(self) -> None:
        """Let go of it, if this process has it."""
        keeping, self._keeping = self._keeping, None
        if keeping is None:
            return
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        with suppress(StateError):  # then it goes by itself
            await self._link.run(RELEASE, [self._key], [self._value])

    @property
    def _milliseconds(self) -> int:
        return int(self._secs * 1000)

    def _keep(self) -> None:
        self._keeping = asyncio.get_running_loop().create_task(self._renew(), name="lease")

    async def _renew(self) -> None:
        """Until another process has it. Where Redis cannot be reached, whoever writes says so."""
        is_ours = True
        while is_ours:
            await asyncio.sleep(self._secs / 3)
            with suppress(StateError):
                is_ours = bool(await self._link.run(RENEW, [self._key], [self._value, self._milliseconds]))
