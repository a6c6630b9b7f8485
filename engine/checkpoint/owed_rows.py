"""`OwedRows`: the rows that the checkpoints of a run leave out, because they have failed and are still to be retried alone (EO-6).

The record of a checkpoint has them beside the positions, which are behind them (EO-2).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, cast

from engine.api import Values
from engine.checkpoint.given_up import Row
from engine.checkpoint.stored_positions import CODEC, SourceLayout, owed_name
from engine.errors import Failure, StateError
from engine.safe_text import safe_repr

MOST_BYTES: Final = 8 * 1024 * 1024
"""Encoded bytes of the rows of one task that may wait."""


class StoredRow(NamedTuple):
    """An owed row, as the record has it."""

    task_index: int
    encoded: bytes
    failures: int

    def decode(self) -> tuple[Values, str, Any]:
        """Return values, stream and message id. Raises ValueError or TypeError for damaged bytes."""
        stream, values, message_id = CODEC.decode(self.encoded)
        return tuple(values), str(stream), message_id


class Seen(NamedTuple):
    """Counts of a component, at a failure of a row."""

    component_id: str | None
    acked: int
    strangers: int
    """Failures of rows that may only have met an outage (`RowRetry.has_seen_life`)."""


@dataclass(slots=True, eq=False)
class RowRetry:
    """One row, from its first failure to its success, or until it is given up. It is the mark of the row in flight."""

    values: Values
    stream: str
    message_id: Any
    encoded: bytes
    barriers: int
    """Barriers that the source had sent before it last emitted the row."""
    failures: int = 0
    """Failures that count."""
    tries: int = 0
    """All failures in this process. They decide the pause."""
    has_seen_life: bool = False
    """True if the component that failed it has processed another input since. So its failures are no outage, and it may be owed."""
    seen: Seen | None = None
    failure: Failure | None = None
    """The last one. None for an owed row of before."""
    repeats_interval: bool = False
    """True if it is among the failed rows for which the interval is repeated."""

    @property
    def row(self) -> Row:
        """The row without its mark."""
        return self.values, self.stream, self.message_id


MarkedRow: TypeAlias = tuple[Values, str, Any, int | RowRetry]
"""A row of a source, and its mark. The mark of a new row is the number of barriers before it."""


class Components:
    """What the components of a run have processed and failed. All sources share it, to tell a bad row from an outage."""

    # acked: number of inputs that each component has processed until now

    def __init__(self) -> None:
        self._acked_before: Mapping[str, int] = {}
        self._strangers: dict[str | None, int] = {}
        self._strangers_before: dict[str | None, int] = {}

    def begin_interval(self, acked: Mapping[str, int]) -> None:
        """Begin to count anew, after a commit or a rollback."""
        self._acked_before, self._strangers_before = acked, self._strangers.copy()

    def note_failure(self, retry: RowRetry, failure: Failure, acked: int) -> None:
        """Count the failure of a row, unless it may be an outage. acked: number of inputs that its component has processed.

        It counts if the component has processed another input since the failure before, or in this interval. A component that gets nothing
        but bad rows processes nothing, either. So it also counts if the component has only failed rows that it had failed before it
        processed others.
        """
        component_id = failure.component_id
        strangers = self._strangers.get(component_id, 0)
        before = retry.seen
        if before is None or before.component_id != component_id:
            before = Seen(component_id, self._acked_before.get(component_id or "", 0), self._strangers_before.get(component_id, 0))
        elif acked > before.acked:
            retry.has_seen_life = True
        if acked > before.acked or (retry.has_seen_life and strangers == before.strangers):
            retry.failures += 1
        if not retry.has_seen_life:
            strangers = self._strangers[component_id] = strangers + 1
        retry.seen, retry.failure = Seen(component_id, acked, strangers), failure
        retry.tries += 1

    def may_be_owed(self, retry: RowRetry, acked: Mapping[str, int]) -> bool:
        """Tell whether a row may be left out of a commit.

        If its component has processed nothing since, it may never do so again in this interval. Then nobody could tell the bad row from an
        outage, so the others of its interval must not be committed before it.
        """
        seen = retry.seen
        if seen is not None and acked.get(seen.component_id or "", 0) > seen.acked:
            retry.has_seen_life = True
        return retry.has_seen_life


class OwedRows:
    """The owed rows of a run: those of the last commit, and those that the running PREPARE leaves out."""

    def __init__(self, topology_name: str, max_retries: int | None) -> None:
        self._topology_name = topology_name
        self._max_retries = max_retries
        self.components: Final = Components()
        self._tasks: dict[str, int] = {}
        self._committed: dict[str, list[StoredRow]] = {}
        """Those of the last commit, by spout."""
        self._taken: dict[str, list[StoredRow]] = {}
        """Those of the running PREPARE."""
        self._most_bytes: int | None = None

    def take_up(self, entries: Mapping[str, object], layouts: Iterable[SourceLayout], most_bytes: int | None) -> None:
        """Read the owed rows of the last commit. Raises StateError if they are damaged. most_bytes: bound of the ledger."""
        self._most_bytes = most_bytes
        for layout in layouts:
            self._tasks[layout.component_id] = layout.tasks
            self._committed[layout.component_id] = self._read(entries.get(owed_name(layout.component_id)), layout.component_id)

    def _read(self, entry: object, component_id: str) -> list[StoredRow]:
        try:
            rows = [StoredRow(int(index), bytes(row), int(failures)) for index, row, failures in cast(list[Any], entry or [])]
            for row in rows:
                row.decode()
            return rows
        except (TypeError, ValueError):
            text = f"the owed rows of {component_id!r} of topology {self._topology_name!r} cannot be read: {safe_repr(entry)}"
            raise StateError(text, hint="They are damaged, or of a newer version of the engine.") from None

    def of(self, component_id: str, task_index: int) -> list[StoredRow]:
        """Return the rows that a task owes. With another parallelism than before, the tasks share them."""
        tasks = self._tasks.get(component_id, 1)
        return [row for row in self._committed.get(component_id, ()) if row.task_index % tasks == task_index]

    @property
    def most_bytes(self) -> int:
        """Encoded bytes of rows that one task may have. Half of a small store is left to dead letters."""
        return MOST_BYTES if self._most_bytes is None else min(MOST_BYTES, self._most_bytes // 2 // max(1, sum(self._tasks.values())))

    def is_due(self, retry: RowRetry) -> bool:
        """Tell whether a row has failed so often that it is given up."""
        return self._max_retries is not None and retry.failures >= self._max_retries

    # The record

    def begin_prepare(self) -> None:
        """Forget the rows of an earlier PREPARE."""
        self._taken = {}

    def note_taken(self, component_id: str, task_index: int, retries: Iterable[RowRetry]) -> None:
        """Note the rows of a task that the running PREPARE leaves out."""
        rows = (StoredRow(task_index, retry.encoded, retry.failures) for retry in retries)
        self._taken.setdefault(component_id, []).extend(rows)

    def entries(self) -> dict[str, object]:
        """Return the entries of the ledger with the rows of the PREPARE."""
        changed = {name: rows for name, rows in self._taken.items() if rows or self._committed.get(name)}
        return {owed_name(name): [list(row) for row in rows] or None for name, rows in changed.items()}

    def note_committed(self) -> None:
        """The rows of the PREPARE are those of the last commit. A second call has no effect."""
        self._committed.update(self._taken)
        self._taken = {}
