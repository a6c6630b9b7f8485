"""One life of a topology in its own process, which ends by itself or by its death. It dies with the program that started it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, TypeVar

import engine
from engine import Config, Run, Topology

BEGINS: Final = b"begins\n"
RUNS: Final = b"runs\n"


@dataclass(frozen=True, kw_only=True)
class Death:
    """The end of one process: at a step, or seconds after its run or its start began. Without either it ends by itself."""

    step: str | None = None
    at: int = 1
    """Strikes the n-th time that the process reaches the step."""
    flight_secs: float = 0.0005
    """For steps in the middle of a call: seconds between a sent request and the death."""
    secs: float | None = None
    from_the_beginning: bool = False


DeathT = TypeVar("DeathT", bound=Death)
PlacesT = TypeVar("PlacesT")


class Armed(Protocol):
    """A step, like `Step`."""

    def arm(self, number: int, flight_secs: float) -> None:
        """Make this process die at the step."""


def told(places: Any, death: Death, number: int) -> str:
    """Argument of a process: its folder, its end, and its number in the round."""
    return json.dumps([asdict(places), asdict(death), number])


def heard(places: type[PlacesT], death: type[DeathT]) -> tuple[PlacesT, DeathT, int]:
    """The argument that this process got."""
    of_places, of_death, number = json.loads(sys.argv[1])
    return places(**of_places), death(**of_death), number


async def live(
    topology: Topology,
    config: Config,
    death: Death,
    steps: Mapping[str, Armed],
    meanwhile: Callable[[Run], Awaitable[None]] | None = None,
) -> None:
    """Run to the end or to the death. Prints when it begins, and when it runs. meanwhile: faults in the run, cancelled at its end."""
    if death.step is not None:
        steps[death.step].arm(death.at, death.flight_secs)
    asyncio.get_running_loop().add_reader(sys.stdin, os.kill, os.getpid(), signal.SIGKILL)
    _tell(BEGINS)
    async with engine.run(topology, config) as run:
        _tell(RUNS)
        faults = None if meanwhile is None else asyncio.ensure_future(meanwhile(run))
        await run.completed()
        if faults is not None:
            faults.cancel()


def _tell(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
