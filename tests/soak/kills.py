"""Kills topologies with state again and again, on SQLite and Redis (CP-10).

Usage:

    python -m tests.soak.kills COUNT SEED               kill COUNT processes; a seed gives the same rounds
    python -m tests.soak.kills COUNT SEED --round 12    repeat one round: the same deaths, at about the same instants
"""

import asyncio
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal, TypeAlias

from tests.checkpoint.killed import times_emitted
from tests.checkpoint.killing import STEPS
from tests.checkpoint.rounds import KilledCheckpoints
from tests.kills import lives
from tests.kills.bolt_forms import BOLTS, choose_in_turn
from tests.kills.rounds import Killed
from tests.servers.process import HOST
from tests.servers.server import Server
from tests.soak import campaign

Store: TypeAlias = Literal["sqlite", "redis"]
ROUND: Final = 25
"""Number of processes to kill."""
LIVES: Final = 30
"""Most processes that die before one may run to the end."""


@dataclass(frozen=True, kw_only=True)
class Death(lives.Death):
    """Death of a process, with the time at which the store's server dies as well."""

    server_secs: float | None = None

    def of_the_process(self) -> lives.Death:
        """Return the death of the process alone."""
        return lives.Death(**{each.name: getattr(self, each.name) for each in fields(lives.Death)})


@dataclass
class CheckpointsResult(campaign.KillsResult[Killed]):
    """Counts of all rounds, with the numbers that were checked."""

    numbers: int = 0
    servers: int = 0
    """Number of times that a server died."""

    def judged(self) -> str:
        return f"{self.servers:,} times the server, {self.numbers:,} numbers; "


def why_not(store: Store) -> str | None:
    """Return why a store cannot be used here, or None."""
    if store == "sqlite":
        return None
    try:
        from tests.servers import redis_server
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'stormcell[redis]'"
    return redis_server.why_not()


class KilledWithItsServer(KilledCheckpoints):
    """Kills the store's server as well, if there is one. A process that starts at that moment is refused."""

    def __init__(self, folder: Path, messages: int, server: Server | None, result: CheckpointsResult, bolts: str) -> None:
        url = f"sqlite:///{folder}/state.db" if server is None else f"redis://{HOST}:{server.port}/0?prefix=soak"
        super().__init__(folder, url, messages, bolts)
        self._server, self._result = server, result

    async def prepare(self) -> None:
        self._result.numbers += self.places.messages
        if self._server is not None:
            await asyncio.to_thread(self._server.start)

    async def die(self, death: lives.Death) -> bool:
        """Let a process die. Return whether the next one may begin, which is false when all numbers are acked."""
        assert isinstance(death, Death)
        if death.server_secs is None or self._server is None:
            return await super().die(death.of_the_process())
        restart = asyncio.create_task(self._restart_server(death.server_secs))
        try:
            has_died = await super().die(death.of_the_process())
        finally:
            await restart
        return has_died or self._is_refusal(self.said())

    async def _restart_server(self, secs: float) -> None:
        assert self._server is not None
        await asyncio.sleep(secs)
        await asyncio.to_thread(self._server.kill)
        await asyncio.to_thread(self._server.start)
        self._result.servers += 1

    def may_end_with(self, said: str) -> bool:
        return self._is_refusal(said)

    def _is_refusal(self, said: str) -> bool:
        """Whether a process began when the server had died: a start without a store fails at once."""
        return self._server is not None and "self._features.open(" in said and "\nengine.errors.StateUnavailable: " in said

    async def finish(self) -> Killed:
        try:
            killed = await super().finish()
        finally:
            if self._server is not None:
                await asyncio.to_thread(self._server.kill)
        again = sum(count > 1 for count in times_emitted(self.folder).values())
        if again and not killed.deaths:
            killed.violations.append(f"nothing was killed, and {again} numbers were emitted again")
        return killed


class Checkpoints(campaign.Campaign[None, Killed]):
    """Kills topologies with state. Each round has its own store and server."""

    name = "kills"
    full = 1000
    enough = 800

    def __init__(self) -> None:
        self.stores: list[Store] = [store for store in ("sqlite", "redis") if why_not(store) is None]

    def why_not(self) -> None:
        return None

    @contextmanager
    def running(self, folder: Path) -> Iterator[None]:
        if reason := why_not("redis"):
            print(f"no kills on redis: {reason}", flush=True)
        yield None

    def begin(self, seed: int, count: int) -> CheckpointsResult:
        self._result = CheckpointsResult(seed, count, "with state", STEPS)
        return self._result

    def topology(self, servers: None, seed: int, number: int, folder: Path) -> KilledWithItsServer:
        server = None
        if self.stores[number % len(self.stores)] == "redis":
            from tests.servers.redis_server import RedisServer  # imported here, because its client may be missing

            server = RedisServer(folder)
        messages = random.Random(f"{seed} messages {number}").choice([2000, 4000, 8000])
        bolts = choose_in_turn(BOLTS, seed, number)
        return KilledWithItsServer(folder, messages, server, self._result, bolts)

    def deaths(self, seed: int, number: int) -> list[Death]:
        """Draw the deaths. In one round of ten nothing dies, and no number may be emitted twice."""
        draws = random.Random(f"{seed} round {number}")
        return [] if draws.random() < 0.1 else [self._death(draws) for _ in range(LIVES)]

    def _death(self, draws: random.Random) -> Death:
        server_secs = draws.uniform(0.3, 1.0) if draws.random() < 0.15 else None
        if draws.random() < 0.35:
            return Death(step=draws.choice(STEPS), at=draws.choice([1, 1, 2, 3, 5, 8]), server_secs=server_secs)
        return Death(secs=draws.uniform(0, 1.2), from_the_beginning=draws.random() < 0.3, server_secs=server_secs)


if __name__ == "__main__":
    sys.exit(campaign.command(Checkpoints()))
