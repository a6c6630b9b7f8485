"""A histogram of any numbers loses no value, has close quantiles and exact edges."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.metrics import ValueHistogram

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**6), 10**6).map(float) | st.sampled_from([0.0, -0.0, 1.0])


def recorded(values: list[float]) -> ValueHistogram:
    histogram = ValueHistogram()
    for value in values:
        histogram.record(value)
    return histogram


def test_an_empty_histogram_has_no_quantiles() -> None:
    read = ValueHistogram().read()
    assert (read.count, read.total, read.p50, read.maximum, read.doublings) == (0, 0.0, None, None, ())


def test_every_quantile_of_one_value_is_this_value() -> None:
    read = recorded([3.7]).read()
    assert (read.p50, read.p99, read.minimum, read.maximum, read.total) == (3.7, 3.7, 3.7, 3.7, 3.7)


@given(st.lists(NUMBERS, min_size=1))
def test_counts_at_each_edge_are_exact(values: list[float]) -> None:
    read = recorded(values).read()
    assert read.count == len(values)
    assert read.doublings == tuple((edge, sum(value <= edge for value in values)) for edge, _ in read.doublings)
    assert read.doublings[-1][1] == len(values)
    assert [edge for edge, _ in read.doublings] == sorted({edge for edge, _ in read.doublings})


def test_a_value_on_an_edge_counts_at_this_edge_on_both_sides_of_zero() -> None:
    assert recorded([-2.0, -1.0]).read().doublings == ((-4.0, 0), (-2.0, 1), (-1.0, 2))
    assert recorded([1.0, 2.0]).read().doublings == ((0.5, 0), (1.0, 1), (2.0, 2))


@given(st.lists(NUMBERS, min_size=1))
def test_quantiles_are_within_an_eighth_of_the_truth(values: list[float]) -> None:
    read = recorded(values).read()
    assert read.p50 is not None
    assert read.p99 is not None
    for share, found in ((0.5, read.p50), (0.99, read.p99)):
        truth = sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
        assert truth <= found <= truth + abs(truth) / 8 or math.isclose(truth, found, rel_tol=0.125)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, -(10**400)])
def test_a_number_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(UsageError, match="finite"):
        ValueHistogram().record(value)
