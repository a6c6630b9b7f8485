"""`processing_guarantee="exactly_once"` refuses a topology that cannot be exact, with all reasons (EO-7)."""

from collections.abc import Iterator

import pytest

from engine import Config, TopologyBuilder, TopologyError, spout
from tests.checkpoint.test_rewinding_sources import Counted, Rows

pytestmark = pytest.mark.guarantee("EO-7")


@spout("number")
def fed() -> Iterator[tuple[int]]:
    yield (1,)


def test_a_wish_that_cannot_be_met_is_refused_with_all_reasons() -> None:
    builder = TopologyBuilder("wish", Config(processing_guarantee="exactly_once"))
    builder.set_spout("fed", fed)
    builder.set_spout("rows", Rows)
    builder.set_bolt("count", Counted()).fields_grouping("fed", "number").fields_grouping("rows", "number")
    with pytest.raises(TopologyError) as caught:
        builder.build()
    text = str(caught.value)
    assert "spout 'fed': processing_guarantee='exactly_once' needs a source that can rewind" in text
    assert "state_provider='memory://'" in text
    assert "spout 'rows'" not in text
