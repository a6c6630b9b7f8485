"""Committers behind a source that cannot rewind, whose failed rows do not keep an interval from counting (EO-9, CP-5)."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from engine import Config, TopologyBuilder, bolt
from engine.testing import run_topology
from engine.transactional.values import MemoryValues
from tests.checkpoint.scenarios.kit import Numbers, once
from tests.checkpoint.test_committers import ROWS, RaisesFor, Target, Writing
from tests.checkpoint.test_hostile_committers import Forgetful, Listing, SpoiledPairs, StagingBursts, listed

pytestmark = pytest.mark.guarantee("EO-9", "CP-5")


def staging(name: str, target: Target, values: MemoryValues, before: Callable[[Any], object]) -> Any:
    made: dict[str, Any] = {"rows": Writing, "pieces": StagingBursts}
    return Listing(values, before) if name == "values" else made[name](target, before)


@pytest.mark.parametrize("kind", ["rows", "pieces", "values"])
@pytest.mark.parametrize("guarantee", [None, "at_least_once"])
def test_a_call_that_raises_for_a_row_whose_source_repeats_it_later_loses_no_other_row(kind: str, guarantee: Any) -> None:
    """The interval counts without this row, because only its source repeats it."""
    target, values, before = Target(), MemoryValues(kind), RaisesFor([5, 77, 78, 150])
    builder = TopologyBuilder("beside")
    builder.set_spout("numbers", Forgetful)
    builder.set_spout("others", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    builder.set_bolt("more", bolt("n")(lambda tup: [(tup["n"] + 1000,)])).shuffle_grouping("others")
    committers = builder.set_committer("out", lambda: staging(kind, target, values, before))
    committers.shuffle_grouping("numbers").shuffle_grouping("more")
    run_topology(builder.build(), Config(processing_guarantee=guarantee))
    published = listed(values) if kind == "values" else Counter(target.rows)
    assert published == once(ROWS) + Counter(range(1000, 1000 + ROWS))


def test_a_batch_bolt_whose_call_raises_for_such_a_row_emits_the_others_at_its_end() -> None:
    target, before, builder = Target(), RaisesFor([5, 150]), TopologyBuilder("sums")
    builder.set_spout("numbers", Forgetful)
    builder.set_bolt("sum", lambda: SpoiledPairs(before)).shuffle_grouping("numbers")
    builder.set_committer("out", lambda: Writing(target)).shuffle_grouping("sum")
    run_topology(builder.build())
    assert sum(target.rows) == sum(range(ROWS))
