"""Figures as text."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.console.formatting import aligned, amount_text, compact_text, ms_text, rate_text
from engine.cli.snapshot_text import component_rows, headline, known_sum, spout_rows
from tests.cli.snapshots import snapshot


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999_999, "999,999"), (1_000_000, "1.00 M"), (12_345_678, "12.3 M"), (45_600_000_000, "45.6 G")]
)
def test_large_counts_are_abbreviated(count: int, text: str) -> None:
    assert compact_text(count) == text


@given(st.integers(0, 10**14))
def test_a_compact_count_has_seven_characters_at_most(count: int) -> None:
    assert len(compact_text(count)) <= 7


@pytest.mark.parametrize(
    ("ms", "text"), [(None, "–"), (0.0006, "0.0006"), (0.125, "0.125"), (1.254, "1.25"), (38.12, "38.1"), (1500, "1,500")]
)
def test_milliseconds_are_formatted(ms: float | None, text: str) -> None:
    assert ms_text(ms) == text


@pytest.mark.parametrize(("rate", "text"), [(None, "–"), (0.0, "0/s"), (0.54, "0.5/s"), (123_456.7, "123,457/s")])
def test_rates_are_formatted(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        *((None, "–"), (math.nan, "–"), (0.0, "0"), (-0.0, "0"), (7.0, "7"), (1234567.0, "1,234,567"), (-5.0, "-5"), (1234.5, "1,234")),
        *((0.25, "0.250"), (-12.34, "-12.3"), (0.00001, "1e-05"), (1e300, "1e+300"), (-math.inf, "-inf")),
    ],
)
def test_user_metrics_are_formatted(amount: float | None, text: str) -> None:
    assert amount_text(amount) == text


@given(st.floats(min_value=0))
def test_a_compact_amount_has_few_characters(amount: float) -> None:
    assert len(amount_text(amount, compact=True)) <= len("1.23e+308")


def test_unknown_values_are_left_out_of_a_sum() -> None:
    assert known_sum([1, math.nan, 2.5]) == 3.5
    assert known_sum([math.nan]) is None
    assert known_sum([10**400, 1]) == math.inf


def test_rows_show_counts_and_the_capacity_since_the_last_snapshot() -> None:
    lines, count, acker = component_rows(snapshot(10.0), snapshot(20.0, times=2))
    assert lines == ("lines", "1", "2,400,000", "2,200,000", "4", "–", "–", "20%", "20%", "–", "–")
    assert count == ("count", "2", "0", "2,000,000", "0", "0.0020", "0.500", "9%", "96%", "70", "60%")
    assert acker[0] == "__acker"
    assert spout_rows(snapshot()) == [("lines", "1.25", "38.1", "99,998", "full")]


@pytest.mark.guarantee("FC-8")
def test_open_trees_are_shown_with_their_bound() -> None:
    now = snapshot()
    lines = now.components["lines"]
    tasks = (replace(lines.tasks[0], pending=1_200, max_pending=2_048), replace(lines.tasks[0], pending=3, max_pending=2_048))
    now = replace(now, components={**now.components, "lines": replace(lines, tasks=tasks)})
    assert spout_rows(now)[0][3] == "1,203 of 4,096"


def test_the_headline_has_rates_since_the_last_snapshot() -> None:
    found = headline(snapshot(10.0), snapshot(12.0, times=3))
    assert found == "words · running · 12 s · loop 100% · 1,200,000/s emitted · 1,100,000/s acked"
    assert headline(None, snapshot()).startswith("words · running · 10 s · loop 35% · ")


def test_figures_are_aligned_right() -> None:
    assert aligned([("component", "acked"), ("a", "1,234"), ("bb", "7")]) == "component  acked\na          1,234\nbb             7"
