"""What windows give out: results and late rows."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from engine.errors import FatalError
from engine.safe_text import safe_repr
from engine.streams.aggregates import Reduction
from engine.streams.times import datetime_of

Key = TypeVar("Key")
Value = TypeVar("Value")
Row = TypeVar("Row")


class Windowed(NamedTuple, Generic[Key, Value]):
    """Result of one key in one window, [start, end).

    >>> Windowed("home", 0, 60_000_000, 3).end
    datetime.datetime(1970, 1, 1, 0, 1, tzinfo=datetime.timezone.utc)
    """

    key: Key
    start_us: int
    end_us: int
    value: Value

    @property
    def start(self) -> datetime:
        """First time of the window."""
        return datetime_of(self.start_us)

    @property
    def end(self) -> datetime:
        """First time behind the window."""
        return datetime_of(self.end_us)


windowed: Final = cast("Callable[[tuple[Any, ...]], Windowed[Any, Any]]", partial(tuple.__new__, Windowed))
"""Makes a result of its fields, in C."""


def result_of(reduction: Reduction, key: Any, start: int, end: int, value: Any) -> Windowed[Any, Any]:
    """Return the result of a window. An error of the user's code ends the run, because it belongs to no row that could be sent again."""
    try:
        return windowed((key, start, end, reduction.result(value)))
    except FatalError:
        raise
    except Exception as error:
        raise window_error(reduction.stage, key, start, end, error) from error


def window_error(stage: str, key: Any, start: int, end: int, error: BaseException) -> FatalError:
    """Return the error that ends a run because the user's code cannot take a window."""
    window = f"from {datetime_of(start).isoformat()} to {datetime_of(end).isoformat()}"
    text = f"stage {stage!r}: the result of {safe_repr(key)} {window}: {type(error).__name__}: {error}"
    return FatalError(text, hint="Correct the code, and start again. The window is still in the state.")


class Late(NamedTuple, Generic[Row]):
    """Row that came when every window that it belongs to was closed.

    >>> Late("row", 1_500_000, "late").late_by
    datetime.timedelta(seconds=1, microseconds=500000)
    """

    row: Row
    late_by_us: int
    reason: str

    @property
    def late_by(self) -> timedelta:
        """How far the row's time lies below the watermark."""
        return timedelta(microseconds=min(self.late_by_us, 86_399_999_999_999_999_999))
