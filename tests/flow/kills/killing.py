"""One life of a topology under flow control, as a process of its own: it runs to its end, or to its death.

python -m tests.flow.kills.killing JSON      the fields of a Life; says when it begins, and when it runs

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
from engine import Config, FlowSettings
from tests.flow.kills.journal import Journal
from tests.flow.kills.numbering import TIMEOUT_SECS, Places, numbering_topology
from tests.flow.kills.steps import STEPS
from tests.transactional.kills.moments import Death, put_deadly_call

BEGINS: Final = b"begins\n"
RUNS: Final = b"runs\n"


@dataclass(frozen=True, kw_only=True)
class Life:
    """What one process is to be."""

    places: Places
    number: int
    """Which process of its round it is."""
    pending: int
    """Records beyond the done prefix, at most."""
    interval_ms: float
    """Between two writes of the position."""
    step: str | None = None
    at: int = 1
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
    noting = json.dumps([life.number, asdict(life.places)])
    config = Config(
        state_provider=f"tests.flow.kills.noting:noting_provider?{noting}",
        message_timeout_secs=TIMEOUT_SECS,
        max_task_restarts=1000,
    )
    settings = FlowSettings(
        pack_ms=2, pack_records=min(20, life.pending), max_pending_records=life.pending, checkpoint_interval_ms=life.interval_ms
    )
    topology = numbering_topology(life.places, Journal(life.places.journal, life.number), settings)
    if life.step is not None:
        step = STEPS[life.step]
        put_deadly_call(step.target, step.moment, Death(step.counts, life.at, life.flight_secs))
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
