"""One process of a transactional topology: python -m tests.transactional.kills.killing TOLD"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine import Config
from tests.kills import lives
from tests.kills.steps import Step
from tests.transactional.kills.counting import Places, counting_topology, spout_of
from tests.transactional.kills.steps import STEPS

KEYS_PER_PART: Final = 4
"""Keys in one part of a write to Redis. A batch has several parts."""


@dataclass(frozen=True, kw_only=True)
class Death(lives.Death):
    """A death, and the settings of the process."""

    batch: int = 5
    """Lines of each partition in a batch."""
    pending: int = 3
    """Open batches."""
    processes: bool = False
    """True: all bolts run in child processes. The steps are struck only in this one."""


async def main() -> None:
    """Run the topology of the command line."""
    places, death, _ = lives.heard(Places, Death)
    if "redis://" in places.words + places.others:
        from engine.state.redis import values as redis

        redis.KEYS_PER_PART = KEYS_PER_PART  # type: ignore[misc]
    topology = counting_topology(places, spout_of(places, batch=death.batch), pending=death.pending, processes=death.processes)
    steps: Mapping[str, Step] = STEPS
    if places.spark:
        from tests.spark_bridge.topology.kills import killing  # with the packages of Spark

        topology, steps = killing.on_spark(topology, places.spark), killing.STEPS
    await lives.live(topology, Config(state_provider=places.state, batch_interval_ms=5), death, steps)


if __name__ == "__main__":
    asyncio.run(main())
