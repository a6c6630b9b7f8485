"""`IntervalOutput`: a bolt that works on whole checkpoint intervals, and what the checkpoints call of it (EO-9)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.api import Values


class IntervalOutput(ABC):
    """Base of a bolt that works on whole checkpoint intervals, as a committer does (EO-9). The checkpoints call it between two inputs.

    The output of an interval is staged at the PREPARE, and published when the checkpoint counts.
    """

    @abstractmethod
    def begin_interval(self, txid: int, round_: int) -> None:
        """Collect the rows of a new interval. txid, round_: of the PREPARE that will end it."""

    @property
    @abstractmethod
    def has_rows(self) -> bool:
        """True if the interval has rows."""

    @abstractmethod
    async def stage(self) -> Sequence[bytes] | None:
        """End the interval, and return its output, encoded. None: there is nothing to publish, because the bolt is no committer."""

    @abstractmethod
    async def publish(self, output: Any) -> Sequence["RefusedRow"]:
        """Publish an output: txid, round, task_index, tasks, the blobs of `stage`, and the numbers of rows that are `left_out`.

        Publishing it again does nothing. Return the rows that the target refuses. Nothing is published then.
        """

    @abstractmethod
    async def published(self) -> "Published | None":
        """Return what the target has. None: it does not tell."""


class Published(NamedTuple):
    """What the target of a committer has, before the first interval of a process."""

    newest_txid: int
    """-1 before the first."""
    refuses_gaps: bool
    """True if it refuses a txid after a missing one."""


class RefusedRow(NamedTuple):
    """A row of an interval that the target of a committer refuses."""

    number: int
    """Its number in the staged output, from 0."""
    source: str
    stream: str
    values: Values
    error: str
