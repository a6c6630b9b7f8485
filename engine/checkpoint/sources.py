"""`Sources`: the sources of a run whose positions are in its checkpoints, and their rows that failed (EO-1, EO-2, EO-6).

Each `SourceTask` tells of one task of a spout. What is decided here becomes true with the checkpoint's record.
"""

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from engine.checkpoint.alignment import Barrier
from engine.checkpoint.failed_rows import FailedRows, Passes
from engine.checkpoint.given_up import Letters, Row, RowCount, StoredCounts, rows_to_retry
from engine.checkpoint.machine import Machine, Step
from engine.checkpoint.one_by_one import KeptRows, OneByOne
from engine.checkpoint.owed_rows import OwedRows, RowRetry
from engine.checkpoint.positions import Positions
from engine.checkpoint.stored_positions import SourceLayout
from engine.checkpoint.stored_times import StoredTimes


class Source(Protocol):
    """One task of a spout (`SourceTask`), as the checkpoint sees it."""

    is_limited: bool

    @property
    def component_id(self) -> str: ...
    @property
    def task_index(self) -> int: ...
    @property
    def rows(self) -> FailedRows: ...
    @property
    def kept(self) -> KeptRows: ...
    @property
    def has_work(self) -> bool: ...
    @property
    def waiting(self) -> int: ...
    async def emit_kept(self) -> None: ...
    async def prepare(self, barrier: Barrier) -> None: ...
    async def verdicts_arrived(self) -> None: ...
    def take_owed(self, acked: Mapping[str, int]) -> list[RowRetry]: ...
    def note_committed(self) -> None: ...
    def end_pass(self) -> None: ...
    def begin_pass(self) -> None: ...
    def repeat_only(self, rows: int) -> None: ...


class Sources:
    """The sources of one run that can rewind."""

    def __init__(
        self, topology_name: str, layouts: Collection[SourceLayout], max_retries: int | None, letters: Letters | None = None
    ) -> None:
        """letters: those of the run. None: for a tool, which runs no rows."""
        self._topology_name = topology_name
        self.letters: Final = letters
        self.positions: Final = Positions(topology_name, layouts)
        self.layouts: Final = self.positions.layouts
        self.times: Final = StoredTimes(layouts)
        self.one_by_one: Final = OneByOne(max_retries)
        self.passes: Final = Passes(max_retries, letters)
        self.owed: Final = OwedRows(topology_name, max_retries)
        self.tasks: Final[list[Source]] = []
        self.counts: Final = StoredCounts(topology_name, max_retries)
        self.to_retry: dict[str, dict[str, Row]] = {}
        """Rows of dead letters that an operator has marked, by spout and letter. The first task of the spout emits all."""

    def __bool__(self) -> bool:
        return bool(self.layouts)

    # The record

    def take_up(self, entries: Mapping[str, object], *, has_state: bool, most_bytes: int | None = None) -> None:
        """Read the positions of the last commit from the ledger. Raises StateError if they do not fit the spouts of this run.

        has_state: True if a checkpoint has been committed before. most_bytes: bound of the ledger (`Ledger.most_bytes`).
        """
        if self.letters is not None:
            self.letters.take_up(entries, most_bytes)
        self.counts.take_up(entries, self.layouts)
        self.times.take_up(entries)
        self.owed.take_up(entries, self.layouts.values(), most_bytes)
        for component_id in self.positions.take_up(entries, has_state=has_state):
            self.counts.forget(component_id)  # a row may come from another task now
        self.to_retry = rows_to_retry(entries, self.layouts, self._topology_name)
        killer = self.one_by_one.take_up(entries, self._topology_name)
        if killer is not None:
            self.counts.count_killer(killer, self.passes.may_give_up)

    def begin_prepare(self) -> None:
        """Forget the positions and owed rows of an earlier PREPARE."""
        self.positions.begin_prepare()
        self.times.begin_prepare()
        self.owed.begin_prepare()

    def take_owed(self, acked: Mapping[str, int]) -> None:
        """Take the rows that the checkpoint leaves out, when all failures of before the barrier are known."""
        for task in self.tasks:
            self.owed.note_taken(task.component_id, task.task_index, task.take_owed(acked))

    def changes(self, machine: Machine) -> dict[str, object]:
        """Return the changes of the ledger that belong to a save of the record. That of COMMITTING makes the positions count (EO-2)."""
        record, step = machine.record, machine.step
        commits = record.phase == "committing"
        letters = self.begin_commit(record.txid, record.prepared_round) if step is Step.COMMIT else {}
        positions = self.positions.entries() | self.times.entries() | self.owed.entries() if commits else {}
        starts = self.one_by_one.entries(step, gives_up=any(each is not None for each in letters.values())) if self else {}
        return positions | self.changed_counts(commits=commits) | letters | starts

    def changed_counts(self, *, commits: bool) -> dict[str, object]:
        """Return the entries with the failed rows that a new process must know, if they have changed since the last call.

        commits: True for the write of a commit, which forgets all rows of before the barrier.
        """
        counts: dict[str, list[RowCount]] = {name: [] for name in self.layouts}
        for task in self.tasks:
            counts[task.component_id] += task.rows.counts(task.task_index, commits=commits)
        return self.counts.changed(counts)

    def begin_commit(self, txid: int, attempt: int) -> dict[str, object]:
        """Return the changes of the dead letters that belong to the write of a commit (DL-5)."""
        assert self.letters is not None
        retried = self.letters.remove(name for task in self.tasks for name in task.kept.retried)
        rows = [row for task in self.tasks for row in task.rows.letters()]
        return retried | self.letters.begin_commit(txid, attempt, rows + self.passes.rowless.letters_before_barrier())

    def note_committed(self) -> None:
        """The positions and owed rows of the PREPARE are those of the last commit. A second call has no effect."""
        is_news = self.positions.note_committed()
        self.times.note_committed()
        self.owed.note_committed()
        if is_news:
            self.passes.rowless.note_committed()
        for task in self.tasks if is_news else ():
            task.note_committed()

    # Failures

    def begin_interval(self, acked: Mapping[str, int]) -> None:
        """Begin to count what the components process, after a commit."""
        self.passes.acked_before = self.one_by_one.acked_before = acked
        self.owed.components.begin_interval(acked)

    def begin_pass(self, acked: Mapping[str, int]) -> None:
        """Begin a pass, in which the sources repeat what was not committed."""
        self.begin_interval(acked)
        self.one_by_one.begin_pass()
        self.passes.rowless.begin_pass()
        for task in self.tasks:
            task.begin_pass()
        may_limit = not (self.passes.in_outage or self.one_by_one.is_cautious)
        for task in self.tasks:
            task.repeat_only(task.rows.to_emit_again // (1 + self.passes.differed) if may_limit else 0)

    @property
    def is_repeating(self) -> bool:
        """True until the sources are where the failed pass has ended."""
        return any(task.is_limited for task in self.tasks)

    def poll_on(self) -> None:
        """Let the sources go on behind the end of the failed pass. Not each source emits all of its rows again."""
        for task in self.tasks:
            task.repeat_only(0)
