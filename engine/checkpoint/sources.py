"""Sources of a run whose positions are in its checkpoints, and the rows of theirs that failed (EO-1, EO-2, EO-6).

`Sources` belongs to the run, and each `SourceTask` to one task of a spout. Whatever they decide becomes true with the checkpoint's record.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, cast

from engine.api import Values
from engine.checkpoint.alignment import Barrier
from engine.checkpoint.row_retries import CODEC, MOST_BYTES, REASONS, Components, Row, RowRetries, RowRetry, StoredRow
from engine.errors import EngineError, Failure, FatalError, StateError
from engine.log import EngineLogger
from engine.names import ACKER_COMPONENT, CHECKPOINT_STREAM
from engine.raised import raised_text
from engine.safe_text import safe_repr, safe_str
from engine.state.codec import Unencodable
from engine.topology.task_port import SourceHandler, SpoutPort
from engine.waits import waiting_for

COMMITTED_SECS: Final = 30.0
"""Longest time of a call of `committed`. The spout is not polled meanwhile."""
LOGGER: Final = EngineLogger("engine.checkpoint")
RowKey: TypeAlias = tuple[int, Hashable]
"""(task index, identity). A row is known again by its message id, or else by its stream and values.

Its place among the others would not do, because another pass may interleave the rows of several partitions in another way.
"""
Copy: TypeAlias = tuple[RowKey, int]
"""Rows with the same key are copies. They are told apart by a number only: the n-th one that fails in a pass."""


class GaveUp(EngineError):
    """A row failed `max_retries` times. It is not processed, so that the others can be committed."""


@dataclass(frozen=True, slots=True)
class SourceLayout:
    """How the positions of a spout are stored."""

    component_id: str
    tasks: int
    partitioned: bool


class Sources:
    """The sources of one run that can rewind. They share the positions of the last commit."""

    def __init__(self, topology_name: str, layouts: Collection[SourceLayout], max_retries: int | None) -> None:
        self._topology_name = topology_name
        self.layouts: Final = {layout.component_id: layout for layout in layouts}
        self.max_retries: Final = max_retries
        self._committed: dict[str, dict[str, bytes]] = {}
        """Encoded positions by component, and by partition or task index, as text."""
        self._taken: dict[str, dict[str, bytes]] = {}
        """Positions of the running PREPARE."""
        self._owed: dict[str, list[StoredRow]] = {}
        """Owed rows of the last commit, by component."""
        self._owed_taken: dict[str, list[StoredRow]] = {}
        """Those of the running PREPARE."""
        self.tasks: list[SourceTask] = []
        self.components: Final = Components()
        self.most_owed_bytes: int | None = None
        """Bytes of owed rows that the store has room for. None: no bound of the store."""

    def __bool__(self) -> bool:
        return bool(self.layouts)

    # The record

    def take_up(self, entries: Mapping[str, object], *, has_state: bool) -> None:
        """Read the positions of the last commit from the ledger. Raises StateError if they do not fit the spouts of this run.

        has_state: True if a checkpoint has been committed before.
        """
        for component_id, layout in self.layouts.items():
            self._owed[component_id] = self._owed_in(entries.get(owed_name(component_id)), component_id)
            entry = entries.get(entry_name(component_id))
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

    def _owed_in(self, entry: object, component_id: str) -> list[StoredRow]:
        try:
            rows = [StoredRow(int(index), bytes(row), int(failures)) for index, row, failures in cast(list[Any], entry or [])]
            for row in rows:
                row.decode()
            return rows
        except (TypeError, ValueError):
            text = f"the owed rows of {component_id!r} of topology {self._topology_name!r} cannot be read: {safe_repr(entry)}"
            raise StateError(text, hint="They are damaged, or of a newer version of the engine.") from None

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
        """Forget the positions and owed rows of an earlier PREPARE."""
        self._taken = {component_id: {} for component_id in self.layouts}
        self._owed_taken = {}

    def take_owed(self, acked: Mapping[str, int]) -> None:
        """Take the rows that the checkpoint leaves out, when all failures of before the barrier are known."""
        for task in self.tasks:
            self._owed_taken.setdefault(task.component_id, []).extend(task.take_owed(acked))

    def entries(self) -> dict[str, object]:
        """Return the entries of the ledger with the positions and owed rows of the PREPARE.

        A partition that nobody has reported keeps its position.
        """
        positions: dict[str, object] = {
            entry_name(name): [layout.partitioned, layout.tasks, self._committed.get(name, {}) | self._taken.get(name, {})]
            for name, layout in self.layouts.items()
        }
        changed = {name: rows for name, rows in self._owed_taken.items() if rows or self._owed.get(name)}
        return positions | {owed_name(name): [list(row) for row in rows] or None for name, rows in changed.items()}

    def note_committed(self) -> None:
        """The positions and owed rows of the PREPARE are those of the last commit. A second call has no effect."""
        taken, self._taken = self._taken, {}
        self._owed.update(self._owed_taken)
        self._owed_taken = {}
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

    def owed_by(self, component_id: str, task_index: int) -> list[StoredRow]:
        """Return the rows that a task still owes. With another parallelism than before, the tasks share them."""
        tasks = self.layouts[component_id].tasks
        return [row for row in self._owed.get(component_id, ()) if row.task_index % tasks == task_index]

    @property
    def waiting(self) -> int:
        """Number of rows that wait to be retried alone."""
        return sum(len(task.retries) for task in self.tasks)

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
    def have_failed(self) -> bool:
        """True if a row has failed since the last commit or rollback, so that the interval must be repeated."""
        return any(task.failed for task in self.tasks)

    def describe_failures(self) -> str:
        """Say how many rows have failed since the last commit or rollback, and why the first one has."""
        failed = [each for task in self.tasks for copies in task.failed.values() for each in copies]
        row, failure = failed[0]
        rows = f"{len(failed):,} row{'s' * (len(failed) > 1)} failed, the first one, {safe_repr(row[0])}, because {failure.describe()}"
        return f"{rows}; the interval since the last commit is repeated"

    def end_pass(self, acked: Mapping[str, int]) -> bool:
        """Count the failed rows of the pass, before the sources repeat it. Return False if it was an outage, in which nothing counts.

        acked: number of inputs that each component has processed. A failure counts only if its component has processed another input in
        this pass, because a component that processes nothing at all lacks something else than a good row.
        """
        worked = self.components.worked(acked)
        if not self.have_failed:
            return True
        return sum(task.end_pass(worked, self.max_retries) for task in self.tasks) > 0

    def begin_interval(self, acked: Mapping[str, int]) -> None:
        """Begin to count what the components process, after a commit."""
        self.components.begin_interval(acked)

    def begin_pass(self, acked: Mapping[str, int]) -> None:
        """Begin a pass, in which the sources repeat what was not committed."""
        self.begin_interval(acked)
        for task in self.tasks:
            task.begin_pass()


def entry_name(component_id: str) -> str:
    """Return the name of the ledger's entry with the positions of a spout."""
    return f"positions:{component_id}"


def owed_name(component_id: str) -> str:
    """Return the name of the ledger's entry with the owed rows of a spout."""
    return f"owed:{component_id}"


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
        self.retries: Final = RowRetries(self._emit_again, lambda: self._spout is not None and port.may_emit_again)
        self.failed: defaultdict[RowKey, list[tuple[Row, Failure]]] = defaultdict(list)
        """Rows that have failed since the last commit or rollback and repeat the interval, with all their copies."""
        self._passes: Counter[Copy] = Counter()
        """Passes in which each copy of a row failed, since the last commit."""
        self._given_up: Counter[RowKey] = Counter()
        """Number of copies of each row that were given up."""
        self._skipped: Counter[RowKey] = Counter()
        """Copies that were given up and not emitted in this pass."""
        self._skipped_before: Counter[RowKey] = Counter()
        """Those of before the barrier."""
        sources.tasks.append(self)

    # SourceHandler

    async def begin(self, spout: Any) -> None:
        """Let a new instance continue behind the last commit."""
        position = self._sources.position_of(self.component_id, self._task_index)
        await self._port.call(spout.seek, position)
        self._spout = spout
        if position is not None:
            self._tell(position)  # the instance before may have died with the news
        self.retries.most_bytes = self._most_owed_bytes()
        for stored in self._sources.owed_by(self.component_id, self._task_index):
            retry = self.retries.restore(stored)
            if self._accepts(*retry.row[:3]):
                self.retries.add(retry)

    def _most_owed_bytes(self) -> int:
        bound = self._sources.most_owed_bytes
        return MOST_BYTES if bound is None else min(MOST_BYTES, bound // len(self._sources.tasks))

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

    def note_failed(self, row: Row, failure: Failure, *, had_no_effect: bool) -> None:
        """Note that the tree of a row has failed. Without an effect it is retried alone.

        Else the interval runs on to its barrier, so that all failures in it are known, and is repeated.
        """
        if failure.component_id == ACKER_COMPONENT:
            self._lost()  # the acker has lost all its trees, and no row is to blame
            return
        retry = self.retries.retry_of(row) if had_no_effect and failure.reason in REASONS and self._port.can_emit_again(row[1]) else None
        if retry is None:
            self._note_for_pass(row, failure)
            return
        self._sources.components.note_failure(retry, failure, self._port.run.acked())
        most = self._sources.max_retries
        if most is not None and retry.failures >= most:
            self._give_up(retry)
        else:
            self.retries.note_failed(retry)

    def _note_for_pass(self, row: Row, failure: Failure) -> None:
        self.failed[self._key_of(*row[:3])].append((row, failure))

    def _give_up(self, retry: RowRetry) -> None:
        """Give up a row that has failed alone too often. No state has anything of it, so nothing is repeated."""
        self.retries.give_up(retry)
        self._report_given_up(retry.values, f"{retry.failures} time{'s' * (retry.failures > 1)}")

    def _emit_again(self, row: Row) -> bool:
        try:
            self._port.emit_again(row)
        except EngineError as error:
            self._port.report(error, "the row stays owed, and is tried again later")
            return False
        return True

    def emit_due(self) -> None:
        """Emit the rows whose pause is over, because the spout may emit again."""
        self.retries.emit_due()

    @property
    def waiting(self) -> int:
        """Number of rows that wait to be retried alone."""
        return len(self.retries)

    def take_owed(self, acked: Mapping[str, int]) -> list[StoredRow]:
        """Return the rows of before the barrier that are still to be retried. Those that may not be left out repeat the interval."""
        owed = []
        for retry in self.retries.take_owed():
            if retry.failure is None or self._sources.components.may_be_owed(retry, acked):
                owed.append(StoredRow(self._task_index, retry.encoded, retry.failures))
            else:
                self._note_for_pass(retry.row, retry.failure)
        return owed

    # The checkpoint

    async def prepare(self, barrier: Barrier) -> None:
        """Take the position, and send the barrier behind the rows that have been emitted. Nothing may come between the two."""
        await self._port.rows_emitted()
        if self._spout is None:
            return  # it has died, so a recovery comes
        self._position = self._current_position()
        self._sources.note_taken(self.component_id, self._task_index, self._position)
        self._emitted_before = self._port.emitted
        self._skipped_before = self._skipped.copy()
        self.retries.note_barrier()
        self._port.mark_rows(self.retries.barriers)
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
        if self._port.emitted != self._emitted_before:
            return True
        try:
            return self._spout is not None and self._position is not None and self._spout.position() != self._position
        except Exception:  # noqa: BLE001 - raised again by `prepare`, which names the spout
            return True

    def note_committed(self) -> None:
        """Tell the spout, and forget the failures of before the barrier."""
        # Whatever has failed by now has failed behind the barrier, because the commit would have been refused otherwise.
        self._port.note_given_up(self._skipped_before.total() + self.retries.note_committed())
        self._given_up -= self._skipped_before
        self._skipped -= self._skipped_before
        self._skipped_before.clear()
        self._passes = Counter({(key, copy): self._passes[key, copy] for key, copies in self._given_up.items() for copy in range(copies)})
        if not self._given_up:
            self._port.filter_rows(None)
        self._tell(self._position)

    # Passes

    def end_pass(self, worked: Collection[str], max_retries: int | None) -> bool:
        """Count the failed rows. Return True if one of them counts. worked: components that have processed something in this pass."""
        has_counted = False
        for key, failures in self.failed.items():
            counting = sum(failure.component_id is None or failure.component_id in worked for _, failure in failures)
            first = self._given_up[key]  # copies below were not emitted in this pass
            for copy in range(first, first + counting):
                has_counted = True
                self._passes[key, copy] += 1
                if max_retries is not None and self._passes[key, copy] >= max_retries:
                    self._given_up[key] += 1
        return has_counted

    def begin_pass(self) -> None:
        """Begin a pass."""
        self.failed.clear()
        self.retries.clear()
        self._skipped.clear()
        self._emitted_before = self._port.emitted
        if self._given_up:
            self._emitted_before -= 1  # what is given up is work for a checkpoint, too
            self._port.filter_rows(self._accepts)

    def _accepts(self, values: Values, stream: str, message_id: Any) -> bool:
        """Tell whether a row is emitted. A row that is given up is reported."""
        key = self._key_of(values, stream, message_id)
        copy = self._skipped[key]
        if copy >= self._given_up[key]:
            return True
        self._skipped[key] += 1
        passes = self._passes[key, copy]
        self._report_given_up(values, f"in {passes} pass{'es' * (passes > 1)}")
        return False

    def _report_given_up(self, values: Values, often: str) -> None:
        text = f"spout {self.component_id!r}: the row {safe_repr(values)} failed {often}, and was given up"
        hint = "Its effect is in no state. Correct the bolt that failed it, or let the bolt divert what it cannot process."
        self._port.report(GaveUp(text, hint=hint), "the row is not emitted again")

    def _key_of(self, values: Values, stream: str, message_id: Any) -> RowKey:
        if message_id is not None:
            with suppress(Unencodable, TypeError):  # no code of the id is called, which might raise here
                return self._task_index, ("id", bytes(CODEC.encode(message_id)))
        try:
            return self._task_index, (stream, bytes(CODEC.encode(list(values))))
        except (Unencodable, TypeError):
            return self._task_index, (stream, safe_repr(values))
