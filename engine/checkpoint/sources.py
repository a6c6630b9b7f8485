"""Sources of a run whose positions are in its checkpoints, and the rows of theirs that failed (EO-1, EO-2, EO-6).

`Sources` belongs to the run, and a `SourceTask` to each task of a spout. Whatever they decide becomes true with the checkpoint's record.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from engine.checkpoint.failed_rows import Passes
from engine.checkpoint.given_up import Letters, Row, RowCount, StoredCounts, rows_to_retry
from engine.checkpoint.machine import Machine, Step
from engine.checkpoint.one_by_one import OneByOne
from engine.checkpoint.owed_rows import OwedRows
from engine.checkpoint.stored_positions import (
    CODEC,
    SourceLayout,
    StoredPositions,
    encoded_positions,
    partition_named,
    positions_of,
)
from engine.log import EngineLogger

if TYPE_CHECKING:
    from engine.checkpoint.source_task import SourceTask

LOGGER: Final = EngineLogger("engine.checkpoint")


class Sources:
    """The sources of one run that can rewind. They share the positions of the last commit."""

    def __init__(
        self, topology_name: str, layouts: Collection[SourceLayout], max_retries: int | None, letters: Letters | None = None
    ) -> None:
        """letters: those of the run. None: for a tool, which runs no rows."""
        self._topology_name = topology_name
        self.letters: Final = letters
        self.layouts: Final = {layout.component_id: layout for layout in layouts}
        self.one_by_one: Final = OneByOne(max_retries)
        self.passes: Final = Passes(max_retries, letters)
        self.owed: Final = OwedRows(topology_name, max_retries)
        self._committed: dict[str, dict[str, bytes]] = {}
        """Encoded positions by component, and by partition or task index, as text."""
        self._taken: dict[str, dict[str, bytes]] = {}
        """Positions of the running PREPARE."""
        self.tasks: list[SourceTask] = []
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
        self.owed.take_up(entries, self.layouts.values(), most_bytes)
        for component_id, layout in self.layouts.items():
            stored = positions_of(entries, component_id, self._topology_name)
            if stored is not None and stored.encoded:
                self._committed[component_id] = stored.encoded
                layout.check(stored, self._topology_name)
                if stored.tasks != layout.tasks:
                    self.counts.forget(component_id)  # a row may come from another task now
            elif stored is None and has_state:
                LOGGER.warning(
                    "topology %r: there is state, but no position of the spout %r is stored, so it begins as at its first start. If it "
                    "has another id than before, give it the old one. If its rows are counted already, delete the state",
                    self._topology_name, component_id,
                )  # fmt: skip
        self.to_retry = rows_to_retry(entries, self.layouts, self._topology_name)
        killer = self.one_by_one.take_up(entries, self._topology_name)
        if killer is not None:
            self.counts.count_killer(killer, self.passes.may_give_up)

    def begin_prepare(self) -> None:
        """Forget the positions and owed rows of an earlier PREPARE."""
        self._taken = {component_id: {} for component_id in self.layouts}
        self.owed.begin_prepare()

    def take_owed(self, acked: Mapping[str, int]) -> None:
        """Take the rows that the checkpoint leaves out, when all failures of before the barrier are known."""
        for task in self.tasks:
            self.owed.note_taken(task.component_id, task.task_index, task.take_owed(acked))

    def entries(self) -> dict[str, object]:
        """Return the entries of the ledger with the positions of the PREPARE. A partition that nobody has reported keeps its position."""
        entries: dict[str, object] = {}
        for name, layout in self.layouts.items():
            encoded = self._committed.get(name, {}) | self._taken.get(name, {})
            entries |= StoredPositions(name, layout.partitioned, layout.tasks, encoded).entry()
        return entries

    def changes(self, machine: Machine) -> dict[str, object]:
        """Return the changes of the ledger that belong to a save of the record. That of COMMITTING makes the positions count (EO-2)."""
        record, step = machine.record, machine.step
        commits = record.phase == "committing"
        letters = self.begin_commit(record.txid, record.prepared_round) if step is Step.COMMIT else {}
        positions = self.entries() | self.owed.entries() if commits else {}
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
        return retried | self.letters.begin_commit(txid, attempt, [row for task in self.tasks for row in task.rows.letters()])

    def note_committed(self) -> None:
        """The positions and owed rows of the PREPARE are those of the last commit. A second call has no effect."""
        taken, self._taken = self._taken, {}
        self.owed.note_committed()
        for component_id, positions in taken.items():
            self._committed.setdefault(component_id, {}).update(positions)
        for task in self.tasks if taken else ():
            task.note_committed()

    # Positions of a task

    def position_of(self, component_id: str, task_index: int) -> Any:
        """Return the committed position of a task, None if there is none. A partitioned spout gets the positions of all its partitions."""
        committed = self._committed.get(component_id, {})
        if self.layouts[component_id].partitioned:
            return {partition_named(name, True): CODEC.decode(position) for name, position in committed.items()} or None
        return CODEC.decode(committed[str(task_index)]) if str(task_index) in committed else None

    def note_taken(self, component_id: str, task_index: int, position: Any) -> None:
        """Note the position of a task at the barrier. Raises FatalError for a position that cannot be stored."""
        self._taken[component_id] |= encoded_positions(self.layouts[component_id], task_index, position, self._taken[component_id])

    # Failures

    def begin_interval(self, acked: Mapping[str, int]) -> None:
        """Begin to count what the components process, after a commit."""
        self.passes.acked_before = self.one_by_one.acked_before = acked
        self.owed.components.begin_interval(acked)

    def begin_pass(self, acked: Mapping[str, int]) -> None:
        """Begin a pass, in which the sources repeat what was not committed."""
        self.begin_interval(acked)
        self.one_by_one.begin_pass()
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
