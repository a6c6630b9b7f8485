"""Topologies with state that are killed again and again, on SQLite and Redis, in the counts that a release shows (CP-10).

python -m tests.soak.kills COUNT SEED               kills so many processes; the same seed plays the same rounds
python -m tests.soak.kills COUNT SEED --round 12    one of them again: the same deaths, at about the same instants
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
from tests.kills.rounds import Killed
from tests.servers.process import HOST
from tests.servers.server import Server
from tests.soak import campaign

Store: TypeAlias = Literal["sqlite", "redis"]
ROUND: Final = 25
"""How many processes are killed."""
LIVES: Final = 30
"""Processes that die, at most, before one may live to the end."""


@dataclass(frozen=True, kw_only=True)
class Death(lives.Death):
    """And when the server of the store dies, too, and is started again."""

    server_secs: float | None = None

    def of_the_process(self) -> lives.Death:
        """Return the death without that of the server."""
        return lives.Death(**{each.name: getattr(self, each.name) for each in fields(lives.Death)})


@dataclass
class Played(campaign.Played[Killed]):
    """And what was judged."""

    numbers: int = 0
    servers: int = 0
    """Deaths of servers."""

    def judged(self) -> str:
        return f"{self.servers:,} times the server, {self.numbers:,} numbers; "


def why_no(store: Store) -> str | None:
    """Return why a store cannot be had here, None where it can."""
    if store == "sqlite":
        return None
    try:
        from tests.servers.redis_server import why_not
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'stormcell[redis]'"
    return why_not()


class KilledWithItsServer(KilledCheckpoints):
    """Kills the server of the store as well, where there is one; a process that begins just then is refused."""

    def __init__(self, folder: Path, messages: int, server: Server | None, played: Played) -> None:
        url = f"sqlite:///{folder}/state.db" if server is None else f"redis://{HOST}:{server.port}/0?prefix=soak"
        super().__init__(folder, url, messages)
        self._server, self._played = server, played

    async def prepare(self) -> None:
        self._played.numbers += self.places.messages
        if self._server is not None:
            await asyncio.to_thread(self._server.start)

    async def die(self, death: lives.Death) -> bool:
        """Have a process die; tell whether the next may begin: not when all numbers are acked."""
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
        self._played.servers += 1

    def may_end_with(self, said: str) -> bool:
        return self._is_refusal(said)

    def _is_refusal(self, said: str) -> bool:
        """Tell whether a process had only just begun when the server died: a start without a store is refused at once."""
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
    """Kills topologies with state: each round has a store, and a server of its own."""

    name = "kills"
    full = 1000
    enough = 800

    def __init__(self) -> None:
        self.stores: list[Store] = [store for store in ("sqlite", "redis") if why_no(store) is None]

    def why_no(self) -> None:
        return None

    @contextmanager
    def running(self, folder: Path) -> Iterator[None]:
        if reason := why_no("redis"):
            print(f"no kills on redis: {reason}", flush=True)
        yield None

    def begin(self, seed: int, count: int) -> Played:
        self._played = Played(seed, count, "with state", STEPS)
        return self._played

    def topology(self, servers: None, seed: int, number: int, folder: Path) -> KilledWithItsServer:
        server = None
        if self.stores[number % len(self.stores)] == "redis":
            from tests.servers.redis_server import RedisServer  # whose client may not be installed

            server = RedisServer(folder)
        messages = random.Random(f"{seed} messages {number}").choice([2000, 4000, 8000])
        return KilledWithItsServer(folder, messages, server, self._played)

    def deaths(self, seed: int, number: int) -> list[Death]:
        """Draw them; in one round of ten nothing dies, and all is counted exactly once."""
        draws = random.Random(f"{seed} round {number}")
        return [] if draws.random() < 0.1 else [self._death(draws) for _ in range(LIVES)]

    def _death(self, draws: random.Random) -> Death:
        server_secs = draws.uniform(0.3, 1.0) if draws.random() < 0.15 else None
        if draws.random() < 0.35:
            return Death(step=draws.choice(STEPS), at=draws.choice([1, 1, 2, 3, 5, 8]), server_secs=server_secs)
        return Death(secs=draws.uniform(0, 1.2), from_the_beginning=draws.random() < 0.3, server_secs=server_secs)


if __name__ == "__main__":
    sys.exit(campaign.command(Checkpoints()))
