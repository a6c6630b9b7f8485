"""Spark's processes are stopped (SIGSTOP) for some seconds; for a minute: `python -m tests.soak.spark --frozen 60`."""

import pytest

from tests.spark_bridge.kills.back_pressure import play_frozen
from tests.spark_bridge.kills.places import Places

pytestmark = pytest.mark.deep


@pytest.mark.guarantee("SP-6")
@pytest.mark.timeout(900)
async def test_while_spark_stands_still_the_engine_waits_and_all_is_caught_up_after(places: Places) -> None:
    frozen = await play_frozen(places, 2.0)
    print(frozen.line())
    assert frozen.violations == []
