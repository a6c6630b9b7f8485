"""One life of the engine, as a separate process: it runs to its end, or to its death.

python -m tests.spark_bridge.kills.engine_life JSON      the fields of a Life. Prints a line when it runs

It dies with the program that holds the other end of its stdin.
"""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass

from engine import Config
from tests.kills import lives
from tests.spark_bridge.kills.flow import topology_of
from tests.spark_bridge.kills.places import Places
from tests.spark_bridge.writer.killed import STEPS, shorten_retention_period


@dataclass(frozen=True, kw_only=True)
class Life:
    """Settings of one process."""

    places: Places
    bolts: str = "plain"
    """Form of the bolts, one of `BOLTS`."""
    batch: int = 5
    """Lines of each file in a batch."""
    pending: int = 3
    """Batches at once."""
    step: str | None = None
    number: int = 1
    """It dies at this step of `writer.killed`, when it reaches it for the n-th time."""
    stop_at_end: bool = False

    def written(self) -> str:
        """Return the argument of the process."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, written: str) -> "Life":
        """Parse the argument."""
        fields = json.loads(written)
        return cls(**{**fields, "places": Places.read(json.dumps(fields["places"]))})


async def main(life: Life) -> None:
    """Run the topology."""
    shorten_retention_period()
    config = Config(state_provider=f"sqlite:///{life.places.path('state.db')}", batch_interval_ms=5)
    topology = topology_of(life.places, bolts=life.bolts, batch=life.batch, pending=life.pending, stop_at_end=life.stop_at_end)
    await lives.live(topology, config, lives.Death(step=life.step, at=life.number, flight_secs=0.0), STEPS)


if __name__ == "__main__":
    asyncio.run(main(Life.read(sys.argv[1])))
