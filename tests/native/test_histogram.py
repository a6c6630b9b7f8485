"""The latency histogram, compared with a sorted list of the recorded values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _native.timing import LatencyHistogram

LONGEST = 60_000.0
"""Range of seconds with own buckets. Longer times go to the last bucket."""
SECONDS = st.one_of(st.floats(0, 50e-6), st.floats(0, 1), st.floats(0, LONGEST), st.sampled_from([0.0, 31e-6, 32e-6, 33e-6, 1.0, 3600.0]))
PERCENTS = st.one_of(st.sampled_from([0.0, 50.0, 99.0, 99.9, 100.0]), st.floats(0, 100))


def histogram_of(values: list[float]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for secs in values:
        histogram.add(secs)
    return histogram


def exact_percentile(values: list[float], percent: float) -> float:
    """Return the least value that `percent` of all values do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


@given(values=st.lists(SECONDS, min_size=1, max_size=60), percent=PERCENTS)
def test_a_percentile_is_exact_or_up_to_a_sixteenth_too_large(values: list[float], percent: float) -> None:
    exact, found = exact_percentile(values, percent), histogram_of(values).percentile(percent)
    assert found is not None
    assert exact * (1 - 1e-12) <= found <= max(exact * (1 + 1 / 16), exact + 1e-6) * (1 + 1e-9)
    assert found <= max(values)


@given(values=st.lists(SECONDS, max_size=60))
def test_nothing_is_lost_and_the_mean_is_exact(values: list[float]) -> None:
    histogram = histogram_of(values)
    counts = histogram.counts()
    assert sum(count for _, count in counts) == histogram.count == len(values)
    assert [bound for bound, _ in counts] == sorted({bound for bound, _ in counts})
    assert histogram.total == pytest.approx(sum(values))
    assert histogram.largest == max(values, default=0)
    assert histogram.mean() == (pytest.approx(sum(values) / len(values)) if values else None)


@given(values=st.lists(SECONDS, max_size=60), microseconds=st.integers(0, 10**9))
def test_each_bucket_counts_values_below_its_bound(values: list[float], microseconds: int) -> None:
    secs = microseconds * 1e-6 + 5e-7
    [(bound, _)] = histogram_of([secs]).counts()
    assert secs < bound * (1 + 1e-12)
    below = sum(count for upper, count in histogram_of(values).counts() if upper < bound)
    assert below <= sum(value < bound for value in values)


@given(first=st.lists(SECONDS, max_size=30), second=st.lists(SECONDS, max_size=30))
def test_merged_histograms_equal_the_histogram_of_all_values(first: list[float], second: list[float]) -> None:
    merged, both = histogram_of(first), histogram_of(first + second)
    merged.merge(histogram_of(second))
    assert merged.counts() == both.counts()
    assert (merged.count, merged.largest) == (both.count, both.largest)
    assert merged.total == pytest.approx(both.total)


@given(values=st.lists(SECONDS, max_size=60))
def test_doublings_count_the_values_below_each_power_of_two_microseconds(values: list[float]) -> None:
    found = histogram_of(values).doublings()
    assert found == tuple(sum(int(value * 1e6) < 2**doubling for value in values) for doubling in range(28))


def test_an_empty_histogram_has_no_percentiles_and_a_cleared_one_is_empty() -> None:
    histogram = LatencyHistogram()
    assert (histogram.percentile(50), histogram.mean(), histogram.counts(), histogram.count) == (None, None, [], 0)
    histogram.add(2.0)
    histogram.clear()
    assert (histogram.percentile(50), histogram.mean(), histogram.counts()) == (None, None, [])
    assert (histogram.count, histogram.total, histogram.largest) == (0, 0.0, 0.0)


@pytest.mark.parametrize("secs", [LONGEST * 10, 1e12])
def test_values_beyond_all_buckets_count_in_the_last(secs: float) -> None:
    histogram = histogram_of([1e-3, secs])
    assert histogram.count == 2
    assert [count for _, count in histogram.counts()] == [1, 1]
    assert histogram.largest == secs


@pytest.mark.parametrize("secs", [-1.0, -1e-9, math.nan])
def test_a_negative_duration_counts_as_zero(secs: float) -> None:
    histogram = histogram_of([secs, 1e-3])
    assert histogram.count == 2
    assert histogram.largest == 1e-3
    assert histogram.mean() == pytest.approx(0.5e-3)
