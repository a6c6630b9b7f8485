"""`EventTime`: how a source knows the times of its rows."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from engine.errors import UsageError, WrongTimeUnit
from engine.event_time.instants import LAST_DATETIME, datetime_of, to_duration_micros, to_micros

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]


WRONG_UNIT: Final = 200
"""The first time of a source must not be off from the clock by this factor, unless the settings say its unit.

Neighbouring units differ by 1,000.
"""


class RowParts(NamedTuple):
    """How a source makes the tuple of a flow's row from the values that its spout emits."""

    read: Callable[[tuple[Any, ...]], Any]
    """Returns the row, or a list of rows (`many`)."""
    many: bool
    key_of: Callable[[Any], Any] | None
    check_key: Callable[[Any, Any], None]
    """Raises UsageError for a row and its key, if no state can have the key. Not called for str, int and bytes."""
    time_of: Callable[[Any], Any]
    row_class: type | None = None
    """The row is a tuple of this class with the values, and the core makes it. None: `read` does."""


class MadeRows(Protocol):
    """The rows that a source makes for a flow."""

    stream: str
    """Stream of the spout."""
    names: tuple[str, ...]
    """Fields of the tuples that are emitted. The last one is the time in microseconds."""
    diverts: bool
    """True: values of which no row can be made leave on the stream `failed`."""

    def parts(self, given: tuple[str, ...]) -> RowParts:
        """Return how a task makes them. given: fields of the values that the spout emits."""


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event time of a source: where its rows have their time, and how far the watermark stays behind the greatest one.

    >>> from datetime import timedelta
    >>> EventTime("at", max_out_of_order=timedelta(seconds=10)).bound_us
    10000000
    """

    time: str | Callable[[Any], Any]
    """Name of the field with the time of a row, or a function from row to time (only in a flow)."""
    unit: TimeUnit | None = None
    """Unit of times that are numbers. None: integers are milliseconds, and floats are seconds."""
    max_out_of_order: timedelta = timedelta(0)
    """A row may come this much later than a row with a greater time, and still be on time."""
    idle_secs: float = 10.0
    """A partition that is read to its end for this time is idle, and holds the watermark no longer (ET-3)."""
    close_when_idle: bool = False
    """True: while all partitions are idle, the watermark follows the clock."""
    max_ahead: timedelta | None = None
    """A row with a time beyond the clock by more than this does not move the watermark. None: each row does."""
    hold_secs: float = 60.0
    """A failed row holds the watermark for at most this time, until it has succeeded (ET-1)."""
    wait_for_acks: bool = True
    """False: the watermark does not wait until the rows before it are processed. A row that is sent again may be late then."""
    rows: MadeRows | None = None
    """The rows that the source makes for a flow. None: its tuples are emitted as they are, and `time` is one of their fields."""

    def __post_init__(self) -> None:
        for name in ("max_out_of_order", "max_ahead"):
            value = getattr(self, name)
            if value is None and name == "max_ahead":
                continue
            if not isinstance(value, timedelta) or value < timedelta(0):
                hint = f"Write {name}=seconds(10), with seconds from engine.streams, or a timedelta of at least 0."
                raise UsageError(f"event time: {name} must be a timedelta of at least 0, not {value!r}", hint=hint)
            to_duration_micros(value, f"event time: {name}", least=0)
        for name in ("idle_secs", "hold_secs"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise UsageError(f"event time: {name} must be a number of seconds of at least 0, not {value!r}")
        if self.unit not in (None, "s", "ms", "us", "ns"):
            raise UsageError(f"event time: unit must be 's', 'ms', 'us' or 'ns', not {self.unit!r}")

    def micros(self, value: Any) -> int:
        """Return a time of a row in microseconds since 1970. Raises EventTimeError for what is no time."""
        return to_micros(value, self.unit)

    def check_first(self, value: Any, micros: int, wall_us: int) -> None:
        """Raise WrongTimeUnit if the first time of a source is a number that seems to have another unit than the settings say."""
        if not isinstance(value, (int, float)) or micros <= 0:
            return
        if self.unit is not None:
            if datetime_of(micros) == LAST_DATETIME:
                text = f"the first time is {value!r}, which would be behind the year 9999 with unit={self.unit!r}"
                raise WrongTimeUnit(text, hint="Say another unit: event_time(..., unit='ms'), or 'us', 'ns'.")
            return
        if micros * WRONG_UNIT <= wall_us or micros >= wall_us * WRONG_UNIT:
            means = "milliseconds" if isinstance(value, int) else "seconds"
            raise WrongTimeUnit(
                f"the first time is {value!r}, which would be {datetime_of(micros):%Y-%m-%d} in {means}",
                hint="Say its unit: event_time(..., unit='s'), or 'ms', 'us', 'ns'.",
            )

    @property
    def bound_us(self) -> int:
        """`max_out_of_order` in microseconds."""
        return self.max_out_of_order // timedelta(microseconds=1)

    @property
    def ahead_us(self) -> int | None:
        """`max_ahead` in microseconds."""
        return None if self.max_ahead is None else self.max_ahead // timedelta(microseconds=1)
