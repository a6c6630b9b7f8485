"""Durations as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.console.formatting import duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "secs"),
    [("500ms", 0.5), ("30s", 30), ("5m", 300), ("1h", 3600), ("1h30m", 5400), ("1d", 86400), (" 1.5 S ", 1.5), ("2m 5s", 125)],
)
def test_durations_are_parsed(text: str, secs: float) -> None:
    assert parse_duration(text) == pytest.approx(secs)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("30", "is a number without a unit. Write 30s for seconds, 30m for minutes."),
        ("", "is not a duration. Write a number and ms, s, m, h or d"),
        ("soon", "is not a duration"),
        ("30s!", "is not a duration"),
        ("-5s", "is not a duration"),
        ("0s", "is zero"),
        ("9" * 400 + "d", "is too long"),
    ],
)
def test_an_invalid_duration_is_refused_with_a_hint(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("secs", "text"),
    [(0.04, "0.0 s"), (9.96, "10.0 s"), (12.9, "12 s"), (125, "2 m 05 s"), (12000, "3 h 20 m"), (176_400, "2 d 01 h")],
)
def test_durations_are_formatted(secs: float, text: str) -> None:
    assert duration_text(secs) == text


@given(st.floats(0, 1e9))
def test_every_duration_is_short(secs: float) -> None:
    assert len(duration_text(secs)) <= 14
