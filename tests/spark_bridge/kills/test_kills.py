"""kill -9 of the engine, the pipeline, Spark's child and its JVM, side by side: each ready-made sink has each row once.

The named points between a row and its sink are struck one by one in `committer/test_kills` and `sinks/test_crashes`; all of them
over and over: `python -m tests.soak.spark COUNT`.
"""

import random
import secrets

import pytest

from tests.spark_bridge.kills.places import Places
from tests.spark_bridge.kills.plan import PipelineDeath, engine_deaths
from tests.spark_bridge.kills.rounds import KilledFlow

pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]

DEATHS = (
    PipelineDeath(victim="child", query="rows", secs=0.3),
    PipelineDeath(victim="point", point="after the sinks", query="rows"),
    PipelineDeath(victim="pipeline", query="rows", secs=0.1),
    PipelineDeath(victim="point", point="committed", query="windows"),
    PipelineDeath(victim="jvm", query="windows"),
)


@pytest.mark.guarantee("SP-1", "SP-2", "SP-3", "SP-6")
async def test_whoever_is_killed_each_sink_has_each_row_once(places: Places) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    killed = await KilledFlow(places).play(DEATHS, engine_deaths(random.Random(seed)))
    print(killed)
    assert killed.violations == []
    assert all(killed.deaths[death.name] for death in DEATHS)
