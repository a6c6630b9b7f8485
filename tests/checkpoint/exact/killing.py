"""A process of the exact topology: `python -m tests.checkpoint.exact.killing TOLD` starts it."""

import asyncio
import random
from dataclasses import dataclass
from functools import partial

from engine import Config
from tests.checkpoint.exact.faults import Failing, strike
from tests.checkpoint.exact.steps import STEPS
from tests.checkpoint.exact.topology import Places, Settings, counting_topology
from tests.kills import lives


@dataclass(frozen=True, kw_only=True)
class Death(lives.Death):
    """The end of a process, with its settings and the faults before its end."""

    tasks: int = 2
    """Tasks of the bolt `first`."""
    file_tasks: int = 2
    """Tasks of a source of files."""
    output_tasks: int = 1
    """Tasks of the committer."""
    interval_ms: float = 20.0
    failing: float = 0.0
    """Share of the calls that fail, until there are enough failures."""
    failures: int = 5
    only_pass_fails: bool = False
    """True if only calls before any state fail."""
    strikes: int = 0
    """Deaths of tasks or of processes of bolts."""
    strikes_secs: float = 0.1
    """Average pause before each of them."""
    pace_secs: float = 0.001
    """Time for a row, so that a process meets many checkpoints before its source is exhausted."""
    seed: int = 0


async def main() -> None:
    """Run to the end, or to the death."""
    places, death, _ = lives.heard(Places, Death)
    config = Config(
        state_provider=places.state,
        state_checkpoint_interval_ms=death.interval_ms,
        processing_guarantee="exactly_once",
        max_retries=None,  # with many faults, a row may fail in any number of passes
        max_task_restarts=1000,
    )
    random.seed(death.seed)
    failing = Failing(places.folder, death.failing, only_pass=death.only_pass_fails)
    failing.allow(death.failures)
    settings = Settings(tasks=death.tasks, file_tasks=death.file_tasks, pace_secs=death.pace_secs, output_tasks=death.output_tasks)
    topology = counting_topology(places, settings, failing)
    strikes = partial(
        strike, strikes=death.strikes, pause_secs=death.strikes_secs, seed=death.seed, has_output=bool(places.output)
    )
    await lives.live(topology, config, death, STEPS, strikes)


if __name__ == "__main__":
    asyncio.run(main())
