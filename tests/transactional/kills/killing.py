"""One life of a transactional topology, as a process of its own: it runs to its end, or to its death.

python -m tests.transactional.kills.killing JSON      the fields of a Life; says when it begins, and when it runs

It dies with the program that holds the other end of its stdin.
"""

import asyncio
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from typing import Final

import engine
from engine import Config
from tests.transactional.kills.counting import Places, counting_topology, spout_of
from tests.transactional.kills.steps import STEPS, arm

BEGINS: Final = b"begins\n"
RUNS: Final = b"runs\n"
KEYS_PER_PART: Final = 4
"""Of a write to Redis: a batch has several parts."""


@dataclass(frozen=True, kw_only=True)
class Life:
    """What one process is to be."""

    places: Places
    batch: int
    """Lines of each partition in a batch."""
    pending: int
    """Batches at once."""
    step: str | None = None
    number: int = 1
    """At which step it dies, when it is there for the n-th time."""
    flight_secs: float = 0.0005
    """How long before that something was sent, for steps in the midst of a call."""

    def written(self) -> str:
        """As the argument of the process."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, written: str) -> "Life":
        """What the argument says."""
        fields = json.loads(written)
        return cls(**{**fields, "places": Places(**fields["places"])})


async def main(life: Life) -> None:
    """Run."""
    config = Config(state_provider=life.places.state, batch_interval_ms=5)
    topology = counting_topology(life.places, spout_of(life.places, batch=life.batch), pending=life.pending)
    if "redis://" in life.places.words + life.places.others:
        from engine.transactional.values import redis

        redis.KEYS_PER_PART = KEYS_PER_PART  # type: ignore[misc]
    if life.step is not None:
        arm(STEPS[life.step], life.number, life.flight_secs)
    asyncio.get_running_loop().add_reader(sys.stdin, os.kill, os.getpid(), signal.SIGKILL)
    tell(BEGINS)
    async with engine.run(topology, config) as run:
        tell(RUNS)
        await run.completed()


def tell(line: bytes) -> None:
    """Have the program that started this one know how far it is."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(main(Life.read(sys.argv[1])))
