"""Interface of a database whose tables belong to the user, and into which committers write rows (TX-12).

`engine.transactional` has the rules. A store knows one statement, and the table of fences beside the user's tables.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from engine.api.fields import short_repr
from engine.errors import BadRows, FatalError, StateDamaged, StateError
from engine.state.values import RESTORE, AttemptId

Row: TypeAlias = tuple[Any, ...]
"""Parameters of one execution of the statement."""
FENCES: Final = "stormcell_batches"
"""Name of the table of fences. It has a row for each task, and one for the component (`COMPONENT`)."""
COMPONENT: Final = -1
"""The `task` of the row with the newest attempt of any task of the component."""
FENCE_COLUMNS: Final = (
    "topology text NOT NULL, component text NOT NULL, task integer NOT NULL, tasks integer NOT NULL, txid bigint NOT NULL, "
    "attempt bigint NOT NULL, PRIMARY KEY (topology, component, task)"
)
MAKE_FENCES: Final = f"CREATE TABLE IF NOT EXISTS {FENCES} ({FENCE_COLUMNS})"


class StatementRefused(StateError, FatalError):
    """The database refuses the statement itself, or the user may not execute it. A retry cannot succeed."""


class RowRefused(StateError, BadRows):
    """The database refuses the values of a row. A replay of the batch would fail in the same way."""


class StoredTxid(NamedTuple):
    """Newest stored txid of one task."""

    txid: int
    parallelism: int
    """Number of tasks that wrote the transaction."""


@dataclass(frozen=True, slots=True)
class RowFence:
    """The newest attempt of a component, and the newest txid of each of its tasks."""

    attempt: AttemptId = (0, 0)
    """(0, 0): none yet."""
    tasks: Mapping[int, StoredTxid] = field(default_factory=dict)


def row_fence(rows: Sequence[Sequence[Any]]) -> RowFence:
    """Return the fence of rows with the columns task, tasks, txid and attempt. Raises StateDamaged if they cannot be one."""
    attempt, tasks = (0, 0), dict[int, StoredTxid]()
    for task, parallelism, txid, attempt_id in rows:
        numbers = (task, parallelism, txid, attempt_id)
        if set(map(type, numbers)) != {int} or task < COMPONENT or min(numbers[1:]) < 0:
            raise StateDamaged(f"a row of {FENCES} is damaged: (task, tasks, txid, attempt) is {numbers!r}"[:400], hint=RESTORE)
        if task == COMPONENT:
            attempt = (txid, attempt_id)
        else:
            tasks[task] = StoredTxid(txid, parallelism)
    return RowFence(attempt, tasks)


@dataclass(frozen=True, slots=True)
class RowWriter:
    """The task that writes, and the owner of its fence."""

    topology: str
    component: str
    task: int
    tasks: int


@dataclass(frozen=True, slots=True)
class RowStatement:
    """The user's statement. `text` has the placeholders of its database, one for each field."""

    text: str
    fields: tuple[str, ...]

    @property
    def in_a_line(self) -> str:
        """The text for messages."""
        return " ".join(self.text.split())

    def refused(self, where: str, reason: object) -> StatementRefused:
        """Return the error for a statement that the database refuses."""
        return StatementRefused(
            f"{where} refuses the statement of this committer: {_sentence(reason)}. The statement is: {self.in_a_line}",
            hint="Correct the statement, or the tables that it names. Nothing of this batch is stored, and the next run continues with it.",
        )

    def row_refused(self, where: str, reason: object, row: Row | None, errors: Mapping[int, str] | None = None) -> RowRefused:
        """Return the error for rows that the database refuses. row: the first one, None if the database did not say which.

        errors: those of all these rows, by their numbers in the batch.
        """
        which = "its rows" if row is None else f"the row {', '.join(map(_assigned, self.fields, row))}"
        return RowRefused(
            f"{where} refuses {which}: {_sentence(reason)}. The statement is: {self.in_a_line}",
            hint="Drop or correct such rows in a bolt before the committer, or let the column accept them. "
            "Nothing of this batch is stored, and the next run continues with it.",
            rows=errors or {},
        )


def _assigned(name: str, value: object) -> str:
    return f"{name}={short_repr(value)}"


def _sentence(reason: object) -> str:
    return str(reason).strip().rstrip(".") or type(reason).__name__


class RowStore(ABC):
    """One statement in one database. Raises StateUnavailable for errors that may pass, and the call is retried. Others end the run.

    An abandoned call may still take effect until the fence is raised beyond its attempt, and never after that.
    """

    @abstractmethod
    async def open(self) -> None:
        """Connect, check the statement, and create the table of fences if it is missing."""

    @abstractmethod
    def stage(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows as the database takes them. Raises RowRefused for values that it would change silently."""

    @abstractmethod
    async def fence(self) -> RowFence:
        """Return the fence of the component."""

    @abstractmethod
    async def publish(self, seen: RowFence, attempt: AttemptId, rows: Sequence[Row]) -> bool:
        """Raise the fence of the component and of this task, and execute the statement for each staged row, in one transaction.

        Return False and write nothing, unless the component's fence is still as `seen`, or at this attempt already.
        """

    @abstractmethod
    async def forget(self) -> None:
        """Delete the fence of the component and of all its tasks. The user's tables stay as they are."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""
