"""One life of a topology, as a process of its own: it runs to its end, or to its death. It dies with the program that started it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, TypeVar

import engine
from engine import Config, Topology

BEGINS: Final = b"begins\n"
RUNS: Final = b"runs\n"


@dataclass(frozen=True, kw_only=True)
class Death:
    """How one process ends: at a step, or so many seconds after it ran, or after it began; without either it lives to its end."""

    step: str | None = None
    at: int = 1
    """When it is there for the n-th time."""
    flight_secs: float = 0.0005
    """How long before that something was sent, for steps in the midst of a call."""
    secs: float | None = None
    from_the_beginning: bool = False


DeathT = TypeVar("DeathT", bound=Death)
PlacesT = TypeVar("PlacesT")


class Armed(Protocol):
    """A step, as `Step` is one."""

    def arm(self, number: int, flight_secs: float) -> None:
        """Have this process die there."""


def told(places: Any, death: Death, number: int) -> str:
    """The argument of a process: where everything is, how it ends, and which process of its round it is."""
    return json.dumps([asdict(places), asdict(death), number])


def heard(places: type[PlacesT], death: type[DeathT]) -> tuple[PlacesT, DeathT, int]:
    """What this process was told."""
    of_places, of_death, number = json.loads(sys.argv[1])
    return places(**of_places), death(**of_death), number


async def live(topology: Topology, config: Config, death: Death, steps: Mapping[str, Armed]) -> None:
    """Run to the end, or to the death; say on stdout when it begins, and when it runs."""
    if death.step is not None:
        steps[death.step].arm(death.at, death.flight_secs)
    asyncio.get_running_loop().add_reader(sys.stdin, os.kill, os.getpid(), signal.SIGKILL)
    _tell(BEGINS)
    async with engine.run(topology, config) as run:
        _tell(RUNS)
        await run.completed()


def _tell(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
