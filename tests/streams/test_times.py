"""Times and durations of a flow."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.errors import EventTimeError, UsageError
from engine.streams.times import datetime_of, to_duration_micros, to_micros
from engine.streams.windows import calendar, sliding, tumbling


@pytest.mark.parametrize("value", [None, True, "12", float("nan"), float("inf"), 2**70, datetime(2024, 1, 1)])
def test_what_is_no_time_is_refused(value: Any) -> None:
    with pytest.raises(EventTimeError):
        to_micros(value)


def test_datetimes_are_converted_exactly() -> None:
    for at in (datetime.min.replace(tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime.max.replace(tzinfo=UTC)):
        assert datetime_of(to_micros(at)) == at
    assert datetime_of(2**62) == datetime.max.replace(tzinfo=UTC)
    assert datetime_of(-(2**62)) == datetime.min.replace(tzinfo=UTC)


def test_units() -> None:
    assert [to_micros(7, unit) for unit in ("s", "ms", "us", "ns")] == [7_000_000, 7_000, 7, 0]
    assert to_micros(1_700_000_000.123456) == 1_700_000_000_123_456
    assert to_micros(-1.5, "ms") == -1500
    with pytest.raises(UsageError, match="unit"):
        to_micros(7, "min")


def test_durations_are_positive_timedeltas() -> None:
    for value in (timedelta(), timedelta(seconds=-1), 5, timedelta.max):
        with pytest.raises(UsageError, match="gap"):
            to_duration_micros(value, "gap")


def test_windows_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="every"):
        sliding(timedelta(seconds=1), every=timedelta(seconds=2))
    with pytest.raises(UsageError, match="size"):
        tumbling(timedelta())
    with pytest.raises(UsageError, match="unit"):
        calendar("year", tz="UTC")
    with pytest.raises(UsageError, match="time zone"):
        calendar("day", tz="Mars/Olympus")
