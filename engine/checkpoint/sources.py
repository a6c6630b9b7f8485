"""Sources of a run whose positions are in its checkpoints, and the rows of theirs that failed (EO-1, EO-2, EO-6).

`Sources` belongs to the run, and each `SourceTask` to one task of a spout. Whatever they decide becomes true with the checkpoint's record.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, cast

from engine.api import Values
from engine.checkpoint.alignment import Barrier
from engine.checkpoint.given_up import GivenUpRow, Letters, Row, RowCount, read_counts, rows_to_retry, stored_counts
from engine.checkpoint.one_by_one import ALONE_AFTER, AloneRow, OneByOne
from engine.errors import TASK_DIED, EngineError, Failure, FatalError, StateError
from engine.log import EngineLogger
from engine.names import ACKER_COMPONENT, CHECKPOINT_STREAM
from engine.raised import raised_text
from engine.safe_text import safe_repr, safe_str
from engine.state.codec import MessagePack, Unencodable
from engine.topology.task_port import RunPort, SourceHandler, SpoutPort
from engine.waits import waiting_for

CODEC: Final = MessagePack()
COMMITTED_SECS: Final = 30.0
"""Longest time of a call of `committed`. The spout is not polled meanwhile."""
LOGGER: Final = EngineLogger("engine.checkpoint")
RowKey: TypeAlias = tuple[str, bytes | str]
"""Identity of a row of a task. A row is known again by its message id, or else by its stream and values.

Its place among the others would not do, because another pass may interleave the rows of several partitions in another way.
"""
Copy: TypeAlias = tuple[RowKey, int]
"""Rows with the same key are copies. They are told apart by a number only: the n-th one that fails in a pass."""


class GaveUp(EngineError):
    """A row failed in `max_retries` passes. It is not processed, so that the others can be committed."""


@dataclass(frozen=True, slots=True)
class SourceLayout:
    """How the positions of a spout are stored."""

    component_id: str
    tasks: int
    partitioned: bool


class Sources:
    """The sources of one run that can rewind. They share the positions of the last commit."""

    def __init__(
        self, topology_name: str, layouts: Collection[SourceLayout], max_retries: int | None, letters: Letters | None = None
    ) -> None:
        """letters: those of the run. None: for a tool, which runs no rows."""
        self._topology_name = topology_name
        self.letters: Final = letters
        self.layouts: Final = {layout.component_id: layout for layout in layouts}
        self._max_retries = max_retries
        self.one_by_one: Final = OneByOne(max_retries)
        self._outages = self._long_outages = 0
        """Passes in a row in which nothing counted, and those of them with a long pause before them."""
        self._committed: dict[str, dict[str, bytes]] = {}
        """Encoded positions by component, and by partition or task index, as text."""
        self._taken: dict[str, dict[str, bytes]] = {}
        """Positions of the running PREPARE."""
        self.tasks: list[SourceTask] = []
        self._counts: dict[str, list[RowCount]] = {}
        """Failed rows of the process before, by spout."""
        self._to_retry: dict[str, dict[str, Row]] = {}
        """Rows of dead letters that an operator has marked, by spout and letter."""
        self._written_counts: dict[str, object] = {}
        self._lacks_room = False
        """True if the last pass has given a row up no more, because there is no room for its letter."""
        self._acked_before: Mapping[str, int] = {}
        """Inputs that each component had processed when the pass began."""

    def __bool__(self) -> bool:
        return bool(self.layouts)

    # The record

    def take_up(self, entries: Mapping[str, object], *, has_state: bool) -> None:
        """Read the positions of the last commit from the ledger. Raises StateError if they do not fit the spouts of this run.

        has_state: True if a checkpoint has been committed before.
        """
        for component_id, layout in self.layouts.items():
            entry = entries.get(entry_name(component_id))
            self._counts[component_id] = read_counts(entries.get(counts_name(component_id)), self._topology_name)
            if entry is None:
                if has_state:
                    LOGGER.warning(
                        "topology %r: there is state, but no position of the spout %r is stored, so it begins at its beginning. If it has "
                        "another id than before, give it the old one. If its rows are counted already, delete the state",
                        self._topology_name, component_id,
                    )  # fmt: skip
                continue
            try:
                partitioned, tasks, positions = cast(tuple[bool, int, dict[str, bytes]], entry)
                self._committed[component_id] = {str(name): bytes(position) for name, position in positions.items()}
            except (TypeError, ValueError, AttributeError):
                text = f"the positions of {component_id!r} of topology {self._topology_name!r} cannot be read: {safe_repr(entry)}"
                raise StateError(text, hint="They are damaged, or of a newer version of the engine.") from None
            self._check_layout(layout, partitioned=bool(partitioned), tasks=int(tasks))
            if int(tasks) != layout.tasks:
                self._counts[component_id].clear()  # a row may come from another task now
        self._to_retry = rows_to_retry(entries, self.layouts, self._topology_name)
        killer = self.one_by_one.take_up(entries, self._topology_name)
        if killer is not None:
            self._count_killer(killer)

    def _count_killer(self, row: AloneRow) -> None:
        """Count the death of the process as a failed pass of the row that it was processing alone."""
        component_id, task_index, stream, identity = row
        counts = self._counts.get(component_id, [])
        found = next((each for each in counts if each[:3] == (task_index, stream, identity)), None)
        failure = Failure(TASK_DIED, None, None, "the process died while the row was being processed, and no other one")
        passes = 1 if found is None else found.passes[0] + 1
        is_due = self._max_retries is not None and passes >= self._max_retries and self.may_give_up()
        killed = RowCount(task_index, stream, identity, [passes], int(is_due), failure)
        self._counts[component_id] = [each for each in counts if each is not found] + [killed]

    def counts_at_start(self) -> dict[str, object]:
        """Return the entries with the failed rows, as the start has changed them."""
        return {counts_name(name): stored_counts(counts) for name, counts in self._counts.items()}

    def _check_layout(self, layout: SourceLayout, *, partitioned: bool, tasks: int) -> None:
        where = f"topology {self._topology_name!r}: spout {layout.component_id!r}"
        if partitioned != layout.partitioned:
            was, now = ("by partition", "by task") if partitioned else ("by task", "by partition")
            text = f"{where}: its positions were stored {was}, and it now has them {now}"
            raise StateError(text, hint="Keep `partitioned` of its class, or give the spout another id. It then starts from the beginning.")
        if not partitioned and tasks != layout.tasks:
            text = f"{where}: its positions were stored by {tasks} tasks, and it now has {layout.tasks}"
            hint = f"Keep parallelism={tasks}. Only a spout with `partitioned = True` can divide its positions anew."
            raise StateError(text, hint=hint)

    def begin_prepare(self) -> None:
        """Forget the positions of an earlier PREPARE."""
        self._taken = {component_id: {} for component_id in self.layouts}

    def entries(self) -> dict[str, object]:
        """Return the entries of the ledger with the positions of the PREPARE. A partition that nobody has reported keeps its position."""
        positions: dict[str, object] = {
            entry_name(name): [layout.partitioned, layout.tasks, self._committed.get(name, {}) | self._taken.get(name, {})]
            for name, layout in self.layouts.items()
        }
        return positions

    def changed_counts(self, *, commits: bool) -> dict[str, object]:
        """Return the entries with the failed rows that a new process must know, if they have changed since the last call.

        commits: True for the write of a commit, which forgets all rows of before the barrier.
        """
        counts: dict[str, list[RowCount]] = {name: [] for name in self.layouts}
        for task in self.tasks:
            counts[task.component_id] += task.counts(commits=commits)
        entries = {counts_name(name): stored_counts(of_spout) for name, of_spout in counts.items()}
        changed = {name: entry for name, entry in entries.items() if entry != self._written_counts.get(name)}
        self._written_counts |= changed
        return changed

    def begin_commit(self, txid: int, attempt: int) -> dict[str, object]:
        """Return the changes of the dead letters that belong to the write of a commit (DL-5)."""
        assert self.letters is not None
        retried = self.letters.remove(name for task in self.tasks for name in task.retried)
        return retried | self.letters.begin_commit(txid, attempt, [row for task in self.tasks for row in task.rows_given_up()])

    def rows_to_retry(self, component_id: str, task_index: int) -> dict[str, Row]:
        """Return the rows that a task emits once more, by letter. The first task of a spout emits all."""
        return self._to_retry.get(component_id, {}) if task_index == 0 else {}

    def counts_of(self, component_id: str, task_index: int) -> list[RowCount]:
        """Return the stored counts of a task."""
        return [each for each in self._counts.get(component_id, ()) if each.task_index == task_index]

    def note_committed(self) -> None:
        """The positions of the PREPARE are those of the last commit. A second call has no effect."""
        taken, self._taken = self._taken, {}
        for component_id, positions in taken.items():
            self._committed.setdefault(component_id, {}).update(positions)
        for task in self.tasks if taken else ():
            task.note_committed()

    # Positions of a task

    def position_of(self, component_id: str, task_index: int) -> Any:
        """Return the committed position of a task, None if there is none. A partitioned spout gets the positions of all its partitions."""
        committed = self._committed.get(component_id, {})
        if self.layouts[component_id].partitioned:
            return {CODEC.decode(bytes.fromhex(name)): CODEC.decode(position) for name, position in committed.items()} or None
        position = committed.get(str(task_index))
        return None if position is None else CODEC.decode(position)

    def note_taken(self, component_id: str, task_index: int, position: Any) -> None:
        """Note the position of a task at the barrier. Raises FatalError for a position that cannot be stored."""
        taken = self._taken[component_id]
        where = f"spout {component_id!r}: position() returned {safe_repr(position)}"
        try:
            if not self.layouts[component_id].partitioned:
                taken[str(task_index)] = bytes(CODEC.encode(position))
                return
            if not isinstance(position, Mapping):
                raise FatalError(where, hint="A spout with `partitioned = True` returns a dict {partition: position}.")
            for partition, each in position.items():
                name = bytes(CODEC.encode(partition)).hex()
                if name in taken:
                    text = f"spout {component_id!r}: two of its tasks report a position of partition {safe_repr(partition)}"
                    raise FatalError(text, hint="Each partition belongs to one task.")
                taken[name] = bytes(CODEC.encode(each))
        except Unencodable as error:
            hint = "Return numbers, texts, bytes, lists or dicts."
            raise FatalError(f"{where}, which cannot be stored: {safe_str(error)}", hint=hint) from None

    # Failures

    @property
    def _failed_rows(self) -> int:
        return sum(len(copies) for task in self.tasks for copies in task.failed.values())

    @property
    def have_failed(self) -> bool:
        """True if a row has failed since the last commit or rollback."""
        return any(task.failed for task in self.tasks)

    def describe_failures(self) -> str:
        """Say how many rows have failed since the last commit or rollback, and why the first one has."""
        failed = [each for task in self.tasks for copies in task.failed.values() for each in copies]
        (values, _, _), failure = failed[0]
        rows = f"{len(failed):,} row{'s' * (len(failed) > 1)} failed, the first one, {safe_repr(values)}, because {failure.describe()}"
        return f"{rows}; the interval since the last commit is repeated"

    def end_pass(self, acked: Mapping[str, int], *, was_long: bool = False) -> bool:
        """Count the failed rows of the pass, before the sources repeat it. Return False if it was an outage, in which nothing counts.

        acked: number of inputs that each component has processed. A failure counts only if its component has processed another input in
        this pass, because a component that processes nothing at all lacks something else than a good row. was_long: the pause before the
        pass was the longest one. One row that fails alone is given up after `max_retries` such passes. If n rows fail, it takes n² times as
        many, because that looks more like an outage.
        """
        worked = {component_id for component_id, count in acked.items() if count > self._acked_before.get(component_id, 0)}
        if not self.have_failed:
            return True
        self._lacks_room = False
        has_counted = sum(task.end_pass(worked, self._max_retries) for task in self.tasks) > 0
        self._outages = 0 if has_counted else self._outages + 1
        self._long_outages = 0 if has_counted else self._long_outages + was_long
        if self._max_retries is not None and self._long_outages >= self._max_retries * self._failed_rows**2:
            next(task for task in self.tasks if task.failed).give_up_first(self._outages)
            self._long_outages = 0
        if self.letters is not None:
            self.letters.wait_for_room(on=self._lacks_room)
        return has_counted and not self._lacks_room

    def may_give_up(self) -> bool:
        """Tell whether there is room for one more dead letter (DL-3)."""
        has_room = self.letters is None or self.letters.room > sum(task.given_up for task in self.tasks)
        self._lacks_room |= not has_room
        return has_room

    def begin_interval(self, acked: Mapping[str, int]) -> None:
        """Begin to count what the components process, after a commit."""
        self._acked_before = self.one_by_one.acked_before = acked

    def begin_pass(self, acked: Mapping[str, int]) -> None:
        """Begin a pass, in which the sources repeat what was not committed."""
        self.begin_interval(acked)
        self.one_by_one.begin_pass()
        for task in self.tasks:
            task.begin_pass()


def entry_name(component_id: str) -> str:
    """Return the name of the ledger's entry with the positions of a spout."""
    return f"positions:{component_id}"


def counts_name(component_id: str) -> str:
    """Return the name of the ledger's entry with the failed rows of a spout."""
    return f"failed:{component_id}"


def _copy_number(copy: Copy) -> int:
    return copy[1]


class SourceTask(SourceHandler):
    """One task of a spout that can rewind, through all its instances."""

    def __init__(self, sources: Sources, component_id: str, lost: Callable[[], None], task_index: int, port: SpoutPort) -> None:
        """lost: called if an instance has died, so that the run must recover."""
        self._sources = sources
        self.component_id = component_id
        self._task_index = task_index
        self._port = port
        self._lost = lost
        self._spout: Any = None
        self._position: Any = None
        self._emitted_before = 0
        """Emits until the last barrier. More of them are work for a checkpoint."""
        self.failed: defaultdict[RowKey, list[tuple[Row, Failure]]] = defaultdict(list)
        """Rows that have failed since the last commit or rollback, with all their copies."""
        self._suspects: set[RowKey] = set()
        """Rows that have failed with others, and go alone when they come again."""
        self._kept: list[Row] = []
        """Those that have come in this pass, and others that go alone. They go before the barrier."""
        self._went_alone: set[RowKey] = set()
        """Those that have gone."""
        self.retried = dict(sources.rows_to_retry(component_id, task_index))
        """Rows of dead letters that go before the next barrier, by letter. Their effect and the end of the letter are one commit."""
        self._kept += self.retried.values()
        self._passes: Counter[Copy] = Counter()
        """Passes in which each copy of a row failed, since the last commit."""
        self._reasons: dict[RowKey, Failure] = {}
        """The last failure of each row that has a count."""
        self._given_up: Counter[RowKey] = Counter()
        """Number of copies of each row that were given up."""
        self._skipped: Counter[RowKey] = Counter()
        """Copies that were given up and not emitted in this pass."""
        self._skipped_before: Counter[RowKey] = Counter()
        """Those of before the barrier."""
        self._passed_rows = 0
        """How many of `_skipped_rows` are before the barrier."""
        self._skipped_rows: list[GivenUpRow] = []
        """The same rows, in the order in which they were skipped. They become dead letters."""
        for each in sources.counts_of(component_id, task_index):
            self._take_up_count(each)
        self._use_filter()
        sources.tasks.append(self)

    # SourceHandler

    async def begin(self, spout: Any) -> None:
        """Let a new instance continue behind the last commit."""
        position = self._sources.position_of(self.component_id, self._task_index)
        await self._port.call(spout.seek, position)
        self._spout = spout
        if position is not None:
            self._tell(position)  # the instance before may have died with the news

    def _tell(self, position: Any) -> None:
        committed = getattr(self._spout, "committed", None)
        if callable(committed):
            self._port.after_commit(partial(self._call_committed, committed, position))

    async def _call_committed(self, committed: Callable[..., object], position: Any) -> None:
        """Call the hook. It only brings news, so one that hangs is cancelled, and the spout goes on."""
        with waiting_for(f"committed() of spout {self.component_id!r}"):
            async with asyncio.timeout(COMMITTED_SECS):
                await self._port.call(committed, position)

    def note_died(self) -> None:
        """Ask for a recovery, because the trees of the instance are dropped, and nobody will know which of its rows have failed."""
        self._spout = None
        self._lost()

    def note_failed(self, row: Row, failure: Failure) -> None:
        """Note that the tree of a row has failed. The interval runs on to its barrier, so that all failures in it are known."""
        if failure.component_id == ACKER_COMPONENT:
            self._lost()  # the acker has lost all its trees, and no row is to blame
            return
        self.failed[self._key_of(*row)].append((row, failure))

    # The checkpoint

    async def prepare(self, barrier: Barrier) -> None:
        """Take the position, and send the barrier behind the rows that have been emitted. Nothing may come between the two."""
        await self._port.rows_emitted()
        while self._kept and not self._sources.one_by_one.is_over:
            await self._sources.one_by_one.emit(self)
            await self._port.rows_emitted()
        if self._spout is None:
            return  # it has died, so a recovery comes
        self._position = self._current_position()
        self._sources.note_taken(self.component_id, self._task_index, self._position)
        self._emitted_before = self._port.emitted
        self._skipped_before = self._skipped.copy()
        self._passed_rows = len(self._skipped_rows)
        self._port.emit_control(tuple(barrier), None, CHECKPOINT_STREAM)

    def _current_position(self) -> Any:
        try:
            return self._spout.position()
        except Exception as error:
            text = f"spout {self.component_id!r}: position() raised {raised_text(error)}"
            raise FatalError(text, hint="It returns the position behind the last emitted row, and may not raise.") from error

    async def verdicts_arrived(self) -> None:
        """Wait until all failures of before the barrier are known."""
        await self._port.verdicts_arrived()

    @property
    def has_work(self) -> bool:
        """True if rows have been emitted since the last barrier, or the spout has passed rows that it does not emit."""
        if self._port.emitted != self._emitted_before or self._kept:
            return True
        try:
            return self._spout is not None and self._position is not None and self._spout.position() != self._position
        except Exception:  # noqa: BLE001 - raised again by `prepare`, which names the spout
            return True

    def note_committed(self) -> None:
        """Tell the spout, and forget the failures of before the barrier."""
        # Whatever has failed by now has failed behind the barrier, because the commit would have been refused otherwise.
        if self._sources.letters is not None and not self._sources.letters.outlive_run:
            self._port.note_given_up(self._skipped_before.total())
        self._given_up -= self._skipped_before
        self._skipped -= self._skipped_before
        self._skipped_before.clear()
        self.retried.clear()
        del self._skipped_rows[: self._passed_rows]
        self._passed_rows = 0
        self._passes = Counter({(key, copy): self._passes[key, copy] for key, copies in self._given_up.items() for copy in range(copies)})
        self._reasons = {key: self._reasons[key] for key in self._given_up}
        self._use_filter()
        self._tell(self._position)

    def _use_filter(self) -> None:
        """Let the emitted rows pass `_accepts`, if one of them may have to be kept back."""
        has_some = self._given_up or self._suspects or self._sources.one_by_one.is_cautious
        self._port.filter_rows(self._accepts if has_some else None)

    # Given up

    def rows_given_up(self) -> list[GivenUpRow]:
        """Return the rows of before the barrier that were given up."""
        return self._skipped_rows[: self._passed_rows]

    def _take_up_count(self, count: RowCount) -> None:
        """Continue the count of an earlier process."""
        key = (count.stream, count.identity)
        self._reasons[key] = count.failure
        for copy, passes in enumerate(count.passes):
            self._passes[key, copy] = passes
        if count.given_up:
            self._given_up[key] = count.given_up

    def counts(self, *, commits: bool) -> list[RowCount]:
        """Return the failed rows with their counts. commits: without those that the commit passes."""
        given_up = self._given_up - self._skipped_before if commits else self._given_up
        passes: defaultdict[RowKey, list[int]] = defaultdict(list)
        for key, copy in sorted(self._passes, key=_copy_number):
            if not commits or copy < given_up[key]:
                passes[key].append(self._passes[key, copy])
        return [RowCount(self._task_index, *key, counts, given_up[key], self._reasons[key]) for key, counts in passes.items()]

    # Rows that go alone

    def _keeps_back(self, key: RowKey, row: Row) -> bool:
        """Tell whether a row waits, to go alone before the barrier."""
        is_cautious = self._sources.one_by_one.is_cautious
        if not is_cautious and key not in self._suspects:
            return False
        if self._port.is_direct(row[1]):
            return False  # only its emit knows the task
        self._kept.append(row)
        if is_cautious:
            self._port.run.request_commit()
        return True

    @property
    def run(self) -> RunPort:
        """The run's port."""
        return self._port.run

    def take_kept(self) -> Row | None:
        """Return the next row that goes alone, and the one that has failed in the fewest passes first. None: there is none."""
        if not self._kept:
            return None
        row = min(self._kept, key=lambda each: self._passes[self._key_of(*each), 0])
        self._kept.remove(row)
        return row

    def name_of(self, row: Row) -> AloneRow:
        """Return what a new process must know of a row that kills this one."""
        return self.component_id, self._task_index, *self._key_of(*row)

    def emit_alone(self, row: Row) -> None:
        """Emit a row that was kept back, unless it is given up."""
        key = self._key_of(*row)
        if not self._skips(key, row):
            self._went_alone.add(key)
            self._port.emit_row(*row)

    async def failure_of(self, row: Row) -> Failure | None:
        """Return why a row has failed in this pass. None: it has not."""
        await self._port.verdicts_arrived()
        failures = self.failed.get(self._key_of(*row))
        return failures[0][1] if failures else None

    def note_passed(self, row: Row) -> None:
        """Note that a row that went alone has failed nothing."""
        self._suspects.discard(self._key_of(*row))

    # Passes

    def end_pass(self, worked: Collection[str], max_retries: int | None) -> bool:
        """Count the failed rows. Return True if one of them counts. worked: components that have processed something in this pass."""
        has_counted = False
        for key, failures in self.failed.items():
            if any(failure.reason in ALONE_AFTER for _, failure in failures) and key not in self._went_alone:
                has_counted |= key not in self._suspects
                self._suspects.add(key)
                continue
            counting = [failure for _, failure in failures if failure.component_id is None or failure.component_id in worked]
            first = self._given_up[key]  # copies below were not emitted in this pass
            for copy, failure in enumerate(counting, first):
                has_counted = True
                self._count(key, copy, failure, max_retries)
        return has_counted

    def _count(self, key: RowKey, copy: int, failure: Failure, max_retries: int | None) -> None:
        """Count a failed pass of a row. Give the row up after `max_retries` of them, if there is room for its dead letter."""
        self._reasons[key] = failure
        self._passes[key, copy] += 1
        if max_retries is not None and self._passes[key, copy] >= max_retries and self._sources.may_give_up():
            self._given_up[key] += 1

    def give_up_first(self, passes: int) -> None:
        """Give up the first of the failed rows, although its component has processed nothing else for so many passes."""
        key, failures = next(iter(self.failed.items()))
        copy = self._given_up[key]
        self._passes[key, copy] = passes - 1
        self._count(key, copy, failures[0][1], passes)

    @property
    def given_up(self) -> int:
        """Number of rows that are given up, and in no committed letter."""
        return self._given_up.total()

    def begin_pass(self) -> None:
        """Begin a pass."""
        self.failed.clear()
        self._kept[:] = self.retried.values()
        self._went_alone.clear()
        self._skipped.clear()
        self._skipped_before.clear()
        self._skipped_rows.clear()
        self._passed_rows = 0
        self._emitted_before = self._port.emitted
        if self._given_up:
            self._emitted_before -= 1  # what is given up is work for a checkpoint, too
        self._use_filter()

    def _accepts(self, values: Values, stream: str, message_id: Any) -> bool:
        """Tell whether a row is emitted."""
        key, row = self._key_of(values, stream, message_id), (values, stream, message_id)
        return not (self._skips(key, row) or self._keeps_back(key, row))

    def _skips(self, key: RowKey, row: Row) -> bool:
        """Tell whether a row is given up. If so, it is reported, and becomes a dead letter with the next commit."""
        copy, values = self._skipped[key], row[0]
        if copy >= self._given_up[key]:
            return False
        self._skipped[key] += 1
        passes = self._passes[key, copy]
        self._skipped_rows.append(GivenUpRow(self.component_id, row, self._reasons[key], passes))
        self._port.report(
            GaveUp(
                f"spout {self.component_id!r}: the row {safe_repr(values)} failed in {passes} pass{'es' * (passes > 1)}, and was given up",
                hint="Its effect is in no state. Correct the bolt that failed it, or let the bolt divert what it cannot process.",
            ),
            "the row is not emitted again, and becomes a dead letter: python -m engine dead-letters",
        )
        return True

    def _key_of(self, values: Values, stream: str, message_id: Any) -> RowKey:
        if message_id is not None:
            with suppress(Unencodable, TypeError):  # no code of the id is called, which might raise here
                return "", bytes(CODEC.encode(message_id))  # no stream has this name
        try:
            return stream, bytes(CODEC.encode(list(values)))
        except (Unencodable, TypeError):
            return stream, safe_repr(values)
