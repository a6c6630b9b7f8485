"""One child for all holders of an equal configuration (SP-5)."""

import pytest

from engine.errors import UsageError
from spark_bridge.process import SparkConfig
from spark_bridge.process.spark_child import hold

pytestmark = pytest.mark.guarantee("SP-5")


async def test_equal_configurations_share_a_child() -> None:
    first, second, other = hold(SparkConfig()), hold(SparkConfig()), hold(SparkConfig(app_name="other"))
    assert first.child is second.child is not other.child
    for held in (first, second, other):
        await held.close()


async def test_the_last_holder_ends_the_child() -> None:
    first, second = hold(SparkConfig()), hold(SparkConfig())
    await first.close()
    await first.close()
    assert hold(SparkConfig()).child is second.child
    await second.close()
    third = hold(SparkConfig())
    assert third.child is second.child
    await third.close()


async def test_a_new_holder_after_the_last_gets_a_new_child() -> None:
    first = hold(SparkConfig())
    await first.close()
    with pytest.raises(UsageError):
        await first.call(lambda spark, call: None)
    second = hold(SparkConfig())
    assert second.child is not first.child
    await second.close()
