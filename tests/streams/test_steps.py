"""Steps over bursts give what a plain loop over rows gives, whatever the burst, and each result keeps its origin."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import FailTuple
from engine.streams.calls import Call
from engine.streams.rows import StageError
from engine.streams.steps import Batch, FilterStep, FlatMapStep, KeyStep, MapStep, Step, StepChain, StepPlan


def double(row: int) -> int:
    return row * 2


def is_small(row: int) -> bool:
    return row % 5 < 3


def spread(row: int) -> list[int]:
    return list(range(row % 4))


def parity(row: int) -> int:
    return row % 2


KINDS: dict[str, tuple[type[Step], Callable[[int], Any]]] = {
    "map": (MapStep, double),
    "filter": (FilterStep, is_small),
    "flat_map": (FlatMapStep, spread),
}


def plain(kinds: list[str], row: int) -> list[int]:
    """Return the rows that one row becomes, one step after the other."""
    rows = [row]
    for kind in kinds:
        _, function = KINDS[kind]
        if kind == "map":
            rows = [function(each) for each in rows]
        elif kind == "filter":
            rows = [each for each in rows if function(each)]
        else:
            rows = [made for each in rows for made in function(each)]
    return rows


def chain_of(kinds: list[str], *more: Step) -> StepChain:
    steps = [StepPlan(f"s{number}", KINDS[kind][0], Call(KINDS[kind][1])) for number, kind in enumerate(kinds)]
    return StepChain([*(plan.live(plan.call.given) for plan in steps), *more])


@pytest.mark.guarantee("TF-1")
@given(st.lists(st.sampled_from(sorted(KINDS)), max_size=6), st.lists(st.integers(0, 30), max_size=20))
def test_a_burst_gives_what_each_row_gives(kinds: list[str], rows: list[int]) -> None:
    origins = [f"o{number}" for number in range(len(rows))]
    times = [number * 1000 for number in range(len(rows))]
    expected = [(made, origin, time) for row, origin, time in zip(rows, origins, times, strict=True) for made in plain(kinds, row)]
    chain = chain_of(kinds, KeyStep("key", parity))

    whole = chain.run(Batch(rows, origins, times))
    assert list(zip(whole.rows, whole.origins or (), whole.times or (), strict=True)) == expected
    assert whole.keys == [made % 2 for made, _, _ in expected]
    assert list(whole.values(("row", "key", "time"))) == [(made, made % 2, time) for made, _, time in expected]

    alone = [chain.run_one(row, origin, time) for row, origin, time in zip(rows, origins, times, strict=True)]
    found = [each for batch in alone for each in zip(batch.rows, batch.origins or (), batch.times or (), strict=True)]
    assert found == expected
    assert [key for batch in alone for key in batch.keys or ()] == whole.keys


@pytest.mark.guarantee("TF-1")
def test_one_row_alone_names_the_row_that_a_step_refuses() -> None:
    chain = StepChain([FlatMapStep("spread", lambda row: range(row)), MapStep("invert", lambda row: 1 // (row - 2))])
    with pytest.raises(StageError, match=r"^stage 'invert': ZeroDivisionError: .* \(row: 2\)$"):
        chain.run_one(4)
    with pytest.raises(StageError, match=r"^stage 'invert': ZeroDivisionError: [a-z ]*$"):
        chain.run(Batch([4]))


def test_errors_for_the_engine_pass_unchanged() -> None:
    def refuse(row: int) -> int:
        raise FailTuple("no")

    chain = StepChain([MapStep("double", double), MapStep("refuse", refuse)])
    with pytest.raises(FailTuple, match="no"):
        chain.run(Batch([1]))
    with pytest.raises(FailTuple, match="no"):
        chain.run_one(1)
