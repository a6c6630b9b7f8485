"""Figures as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.figures import aligned, compact_text, component_rows, headline, ms_text, rate_text, spout_rows
from tests.cli.snapshots import snapshot


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999_999, "999,999"), (1_000_000, "1.00 M"), (12_345_678, "12.3 M"), (45_600_000_000, "45.6 G")]
)
def test_great_counts_are_written_short(count: int, text: str) -> None:
    assert compact_text(count) == text


@given(st.integers(0, 10**14))
def test_a_compact_count_has_seven_characters_at_most(count: int) -> None:
    assert len(compact_text(count)) <= 7


@pytest.mark.parametrize(
    ("ms", "text"), [(None, "–"), (0.0006, "0.0006"), (0.125, "0.125"), (1.254, "1.25"), (38.12, "38.1"), (1500, "1,500")]
)
def test_milliseconds(ms: float | None, text: str) -> None:
    assert ms_text(ms) == text


@pytest.mark.parametrize(("rate", "text"), [(None, "–"), (0.0, "0/s"), (0.54, "0.5/s"), (123_456.7, "123,457/s")])
def test_rates(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text


def test_rows_say_what_happened_and_how_busy_each_was_since() -> None:
    lines, count, acker = component_rows(snapshot(10.0), snapshot(20.0, times=2))
    assert lines == ("lines", "1", "2,400,000", "2,400,000", "2,200,000", "4", "–", "–", "20%", "–")
    assert count == ("count", "2", "0", "0", "2,000,000", "0", "0.0020", "0.500", "96%", "60%")
    assert acker[0] == "__acker"
    assert spout_rows(snapshot()) == [("lines", "1.25", "38.1", "99,998", "full")]


def test_the_headline_has_speeds_since_the_last_one() -> None:
    assert headline(snapshot(10.0), snapshot(12.0, times=3)) == "words · running · 12 s · 1,200,000/s emitted · 1,100,000/s acked"


def test_figures_stand_to_the_right() -> None:
    assert aligned([("component", "acked"), ("a", "1,234"), ("bb", "7")]) == "component  acked\na          1,234\nbb             7"
