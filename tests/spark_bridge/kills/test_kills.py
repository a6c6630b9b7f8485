"""kill -9 of the engine, the pipeline and Spark, then a stop of Spark: each sink has each row once.

One chain, with one death of each kind of victim, because each start of Spark takes longer than a step. The named points between a row and
its sink are killed one by one in `writer/test_kills` and `sinks/test_crashes`. For many rounds, with Delta Lake and all points:
`python -m tests.soak.spark COUNT`, and for a long stop `--frozen 60`.
"""

import random
import secrets
from itertools import islice

import pytest

from tests.spark_bridge.kills.back_pressure import Frozen, freeze
from tests.spark_bridge.kills.places import Places
from tests.spark_bridge.kills.plan import PipelineDeath, engine_deaths
from tests.spark_bridge.kills.rounds import KilledFlow

pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]

FROZEN_SECS = 2.0
ENGINES = 8
"""Deaths of the engine. After them it lives until the end, so that Spark has the cores."""
DEATHS = (
    PipelineDeath(victim="child", query="rows", secs=0.3),
    PipelineDeath(victim="point", point="after the sinks", query="rows"),
    PipelineDeath(victim="pipeline", query="rows", secs=0.1),
    PipelineDeath(victim="jvm", query="windows"),
)


@pytest.mark.guarantee("SP-1", "SP-2", "SP-3", "SP-6")
async def test_each_sink_has_each_row_once_after_kills_and_a_stop_of_spark(places: Places) -> None:
    """While Spark is stopped (SIGSTOP), the engine must wait at `max_pending_batches` without using more memory (SP-6)."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    flow, frozen = KilledFlow(places), Frozen(FROZEN_SECS)
    killed = await flow.play(DEATHS, islice(engine_deaths(random.Random(seed)), ENGINES), lambda: freeze(flow, frozen))
    print(killed)
    print(frozen.line())
    assert killed.violations == []
    assert all(killed.deaths[death.name] for death in DEATHS)
    assert len(frozen.newest) == 3, "Spark was stopped, and the engine measured three times"
