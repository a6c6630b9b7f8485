"""Components that end a run, for tests of the end."""

import asyncio
from typing import Any

import engine
from engine import Bolt, Config, Topology, Tuple
from tests.runtime.stage import SEED, Numbers, PassOn, chain

CLOSING_SECS = 7.0


class SlowToClose(PassOn):
    """Takes seven seconds to close."""

    async def cleanup(self) -> None:
        await asyncio.sleep(CLOSING_SECS)


class Fatal(Bolt):
    """Ends the run at its first input, after a second."""

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(1)
        raise engine.FatalError("the licence has expired", hint="Renew it.")


class Own(BaseException):
    """An error that is not an Exception."""


class RaisesOwn(Bolt):
    def execute(self, tup: Tuple) -> None:
        raise Own("at the input")


class Raises(Bolt):
    def execute(self, tup: Tuple) -> None:
        raise ValueError("at the input")


@engine.spout("number")
def breaks() -> Any:
    yield (1,)
    raise OSError("source is gone")


def fatal_topology() -> Topology:
    return chain(lambda: Numbers(1), SlowToClose, Fatal)


def entered(topology: Topology, **settings: Any) -> engine.Run:
    return engine.run(topology, Config(seed=SEED, **settings))
