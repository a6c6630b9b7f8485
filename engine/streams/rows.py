"""Rows that the engine itself makes: what stages put around a user's values."""

from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from engine.errors import EngineError

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

ROW = "row"
KEY = "key"
TIME = "time"
"""Fields of the tuples between two stages, in this order: `row`, behind a `key_by` also `key`, and behind an `event_time` also `time`."""

RevisionKind: TypeAlias = Literal["early", "final", "late"]
"""When a result came: before it was complete, as the complete one, or after that because of late rows."""


class Keyed(NamedTuple, Generic[K, V]):
    """A key with the value that a stage keeps for it.

    >>> Keyed("storm", 3)
    Keyed(key='storm', value=3)
    """

    key: K
    value: V


class Revised(NamedTuple, Generic[V]):
    """A result that replaces the earlier ones of the same key, such as the next value of a running count.

    `value` names what it replaces: a `Keyed` by its key, the result of a window also by its start. `revision` is 0 for the first one.
    A session that has begun earlier or has been merged replaces other starts, too.

    >>> Revised(Keyed("storm", 3), 2, "early").value.key
    'storm'
    """

    value: V
    revision: int
    kind: RevisionKind
    replaces: tuple[int, ...] = ()
    """Starts of sessions of the same key, in microseconds since 1970, whose results this one replaces. Its own start is not among them."""


class Failed(NamedTuple, Generic[R]):
    """A row that a stage with `on_error="divert"` could not process."""

    row: R
    error: str
    """Class and text of the exception, at most 2,000 characters."""
    attempts: int
    """Number of calls with this row."""
    stage: str


class RowMisfit(EngineError):
    """A value from outside does not have the type of a row."""


class StageError(EngineError):
    """An exception of one of the stages that share a bolt. Its cause is the exception of the user's code."""
