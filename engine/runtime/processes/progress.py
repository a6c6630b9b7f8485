"""`Progress` is what a child tells its actor in the run beside emits and verdicts."""

from typing import Final, NamedTuple, TypeAlias

from engine.errors import Failure

METRICS_SECS: Final = 0.25
"""Longest time between two frames of a child that is not in a plain call."""


OtherVerdict: TypeAlias = tuple[int, Failure | None, int | None]
"""Number of an input, its failure (None: its timeout is reset), and the index of the failed record of a pack."""


class Progress(NamedTuple):
    """Progress of a child, for its actor in the run."""

    taken: int
    """Number of the row before the first one that waits in the mailbox, or to run again."""
    posted: int
    """Number of the last row that has arrived."""
    ticks: int
    """Number of ticks that have arrived."""
    is_idle: bool
    """True if all rows and ticks that have arrived have returned."""
    busy_secs: float
    errors: int
    restarts: int
    retries: int
    diverted: int
    forgotten: int
    settled_twice: int
    has_changes: bool
    """True while the state has changes that are not committed."""


NO_PROGRESS: Final = Progress(0, 0, 0, True, 0.0, 0, 0, 0, 0, 0, 0, False)
