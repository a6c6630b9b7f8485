"""`build()` reports a stateful bolt without `init_state` (GRP-5)."""

import functools
from typing import Any

import pytest

from engine import StatefulBolt, TopologyBuilder, TopologyError
from engine.testing import Feeder


class TakesNone(StatefulBolt):
    def execute(self, tup):
        pass


class Empty(StatefulBolt):
    pass


def faults_of(factory: Any) -> tuple[str, ...]:
    builder = TopologyBuilder("words")
    builder.set_spout("feed", Feeder("word"))
    builder.set_bolt("count", factory).fields_grouping("feed", "wrod")
    with pytest.raises(TopologyError) as raised:
        builder.build()
    assert "has no field 'wrod'" in raised.value.faults[-1], "all faults are reported together"
    return tuple(raised.value.faults[:-1])


@pytest.mark.guarantee("GRP-5")
@pytest.mark.parametrize(
    ("factory", "fault"),
    [
        (TakesNone, "bolt 'count': TakesNone has no init_state(). Define it."),
        (Empty, "bolt 'count': Empty has no execute() and no init_state(). Define them."),
    ],
)
def test_a_class_without_init_state_is_a_fault(factory: Any, fault: str) -> None:
    assert faults_of(factory) == (fault,)


@pytest.mark.guarantee("GRP-5")
@pytest.mark.parametrize("factory", [lambda: TakesNone(), functools.partial(TakesNone)], ids=["lambda", "partial"])
def test_a_factory_of_bolts_without_init_state_is_a_fault(factory: Any) -> None:
    [fault] = faults_of(factory)
    assert fault.startswith("bolt 'count': its factory raised TypeError: Can't instantiate abstract class TakesNone with")
    assert "init_state" in fault
    assert fault.endswith(". Define it.")
