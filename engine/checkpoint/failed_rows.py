"""`FailedRows`: the rows of one source task that have failed, how often, and which are given up (EO-6). It uses no clock and no store."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from engine.checkpoint.given_up import ALONE_AFTER, GivenUpRow, Letters, Row, RowCount
from engine.checkpoint.given_up_rows import GivenUpRows
from engine.checkpoint.owed_rows import MarkedRow, RowRetry
from engine.checkpoint.pass_rows import PassRows
from engine.checkpoint.row_keys import RowKey
from engine.checkpoint.rowless import RowlessInputs
from engine.errors import Failure
from engine.safe_text import safe_repr
from engine.topology.task_port import SEVERAL_ROWS

Copy: TypeAlias = tuple[RowKey, int]
"""Rows with the same key are copies. They are told apart by a number only: the n-th one that fails in a pass."""


class FailedRow(NamedTuple):
    """One failure of a row."""

    row: Row
    failure: Failure
    barriers: int
    """Barriers that its source had sent before it emitted the row."""


class Passes:
    """The passes of a run: the times that an interval is run. Decides whether the failures of one count."""

    def __init__(self, max_retries: int | None, letters: Letters | None) -> None:
        self._max_retries = max_retries
        self._letters = letters
        self.tasks: Final[list[FailedRows]] = []
        self.rowless: Final = RowlessInputs(max_retries, self.may_give_up)
        self.acked_before: Mapping[str, int] = {}
        """Inputs that each component had processed when the pass began."""
        self._outages = self._long_outages = 0
        """Passes in a row in which nothing counted, and those of them with a long pause before them."""
        self.differed = False
        """True if the last pass repeated another one, and a row failed that had not failed before."""
        self._lacks_room = False
        """True if the last pass could not give a row up, because there is no room for its letter."""

    def _failed(self) -> list[FailedRow]:
        return [each for task in self.tasks for copies in task.failed.values() for each in copies]

    @property
    def in_outage(self) -> bool:
        """True if nothing counted in the last pass. The next one goes on to other rows, which show whether all of them fail."""
        return self._outages > 0

    @property
    def have_failed(self) -> bool:
        """True if a row of before the last barrier has failed. What fails behind it repeats the next interval."""
        return self.rowless.have_failed_before_barrier or any(task.has_failed_before_barrier for task in self.tasks)

    @property
    def has_any(self) -> bool:
        """True if a row has failed since the last commit or rollback, also behind the barrier."""
        return self.rowless.number > 0 or any(task.failed for task in self.tasks)

    def describe_failures(self) -> str:
        """Say how many rows have failed since the last commit or rollback, and why the first one has."""
        failed = [(row[0], failure) for row, failure, _ in self._failed()]
        number = len(failed) + self.rowless.number
        values, failure = [*failed, *((each.row.row[0], each.row.failure) for each in self.rowless.failed)][0]
        rows = f"{number:,} row{'s' * (number > 1)} failed, the first one, {safe_repr(values)}"
        return f"{rows}, because {failure.describe().rstrip('.')}; the interval since the last commit is repeated"

    def end(self, acked: Mapping[str, int], *, was_long: bool) -> bool:
        """Count the failed rows of the pass, before the sources repeat it. Return False if it was an outage, in which nothing counts.

        acked: number of inputs that each component has processed. A failure counts only if its component has processed another input in
        this pass, because a component that processes nothing at all lacks something else than a good row. was_long: the pause before the
        pass was the longest one. One row that fails alone is given up after `max_retries` such passes. If n rows fail, it takes n² times as
        many, because that looks more like an outage.
        """
        self.differed = False
        if not self.has_any:
            self.rowless.refuse_letters()
            return True
        worked = {component_id for component_id, count in acked.items() if count > self.acked_before.get(component_id, 0)}
        self._lacks_room = False
        counted = sum(task.end_pass(worked, self._max_retries) for task in self.tasks)
        has_counted = self.rowless.end_pass(worked) or counted > 0
        self.differed = any(task.differed for task in self.tasks)
        self._outages = 0 if has_counted else self._outages + 1
        self._long_outages = 0 if has_counted else self._long_outages + was_long
        number = len(self._failed()) + self.rowless.number
        if self._max_retries is not None and self._long_outages >= self._max_retries * number**2:
            first: FailedRows | RowlessInputs = next((task for task in self.tasks if task.failed), self.rowless)
            first.give_up_first(self._outages)
            self._long_outages = 0
        if self._letters is not None:
            self._letters.wait_for_room(on=self._lacks_room)
        return has_counted and not self._lacks_room

    def may_give_up(self) -> bool:
        """Tell whether there is room for one more dead letter (DL-3)."""
        number = sum(task.number_given_up for task in self.tasks) + len(self.rowless.letters)
        has_room = self._letters is None or self._letters.room > number
        self._lacks_room |= not has_room
        return has_room


class FailedRows:
    """The failed rows of a task, through all passes since the last commit."""

    def __init__(self, counts: Iterable[RowCount], of_run: Passes) -> None:
        """counts: those of an earlier process."""
        self._may_give_up = of_run.may_give_up
        of_run.tasks.append(self)
        self.failed: defaultdict[RowKey, list[FailedRow]] = defaultdict(list)
        """Rows that have failed since the last commit or rollback, with all their copies."""
        self._had_packs = False  # the last pass had failures of which nobody knew the row
        self._oldest = 0
        """Barriers before the first one of them, in the order of the source."""
        self.differed = False
        """True if the last pass repeated another one, and a row failed that had not failed before."""
        self.suspects: set[RowKey] = set()
        """Rows that have failed with others, and go alone when they come again."""
        self.went_alone: set[RowKey] = set()
        """Those that have gone in this pass."""
        self.retried: set[RowKey] = set()
        """Rows of dead letters. Their failures count in an outage, too, because nothing is lost if they become letters again."""
        self.passes: Counter[Copy] = Counter()
        """Passes in which each copy of a row failed, since the last commit."""
        self._reasons: dict[RowKey, Failure] = {}
        """The last failure of each row that has a count."""
        self.given_up: Final = GivenUpRows()
        """Rows that were given up, and are not emitted."""
        self._given_up_alone: list[tuple[int, RowKey, GivenUpRow]] = []
        """Rows that were given up after retries alone, each with the barriers before its last emit."""
        self._barriers = 0
        """Barriers that the task has sent."""
        self._extent: Final = PassRows()
        for count in counts:
            key = (count.stream, count.identity)
            self._reasons[key] = count.failure
            self.passes.update({(key, copy): passes for copy, passes in enumerate(count.passes)})
            self.given_up.add(key, count.given_up)

    def note_failed(self, key: RowKey, row: MarkedRow, failure: Failure) -> None:
        """Note that a row has failed, so that the interval is repeated. One that was retried alone is noted only once."""
        mark = row[3]
        if isinstance(mark, RowRetry):
            if mark.repeats_interval:
                return
            mark.repeats_interval = True
        barriers = 0 if isinstance(mark, RowRetry) else mark  # what was retried may be owed by the running PREPARE
        self._oldest = min(self._oldest, barriers) if self.failed else barriers
        self.failed[key].append(FailedRow(row[:3], failure, barriers))

    @property
    def has_failed_before_barrier(self) -> bool:
        """True if one of the failed rows belongs before the last barrier."""
        return bool(self.failed) and self._oldest < self._barriers

    def note_failed_alone(self, retries: Iterable[tuple[RowRetry, Failure]], key_of: Callable[..., RowKey]) -> None:
        """Note that rows which wait to be retried alone have failed, too, because the interval is repeated."""
        for retry, failure in retries:
            self.note_failed(key_of(*retry.row), (*retry.row, retry), failure)

    # Passes

    def end_pass(self, worked: Collection[str], max_retries: int | None) -> bool:
        """Count the failed rows. Return True if one of them counts. worked: components that have processed something in this pass.

        What fails because its task has died, or because it timed out, may have failed because of another row. So it counts only if it
        went alone.
        """
        has_counted = self.differed = False
        for key, failures in self.failed.items():
            if key[1] is SEVERAL_ROWS:  # in the next pass it shows which of them fails
                has_counted |= any(each.failure.component_id is None or each.failure.component_id in worked for each in failures)
                continue
            if key not in self.went_alone and any(each.failure.reason in ALONE_AFTER for each in failures):
                has_counted |= key not in self.suspects
                self.suspects.add(key)
                continue
            is_sure = key in self.retried
            first = self.given_up.copies[key]  # copies below were not emitted in this pass
            counting = [each for each in failures if is_sure or each.failure.component_id is None or each.failure.component_id in worked]
            for copy, each in enumerate(counting, first):
                has_counted = True
                self._count(key, copy, each.failure, max_retries)
                was_unknown = self._had_packs or key in self.went_alone  # it had failed with others before
                is_new = self.passes[key, copy] == 1 and not was_unknown
                self.differed |= self._extent.failed_pass > 0 and each.barriers < self._barriers and is_new
        self._had_packs = any(key[1] is SEVERAL_ROWS for key in self.failed)
        return has_counted

    def _count(self, key: RowKey, copy: int, failure: Failure, max_retries: int | None) -> None:
        self._reasons[key] = failure
        self.passes[key, copy] += 1
        if max_retries is not None and self.passes[key, copy] >= max_retries and self._may_give_up():
            self.given_up.add(key)

    def give_up_first(self, passes: int) -> None:
        """Give up the first of the failed rows, although its component has processed nothing else for so many passes."""
        key, failures = next(iter(self.failed.items()))
        self.passes[key, self.given_up.copies[key]] = passes - 1
        self._count(key, self.given_up.copies[key], failures[0].failure, passes)

    def begin_pass(self, emitted: int) -> None:
        """Begin a pass. emitted: number of rows that the task has emitted."""
        self._extent.begin_pass(emitted, self.given_up.skipped, self.given_up.before_barrier)
        self.failed.clear()
        self.went_alone.clear()
        self.given_up.begin_pass()
        for _, key, row in self._given_up_alone:  # else they would fail again in each pass, and their task's death might fail others
            self.passes[key, self.given_up.copies[key]] = row.passes
            self._reasons[key] = row.failure
            self.given_up.add(key)
        self._given_up_alone.clear()

    @property
    def to_emit_again(self) -> int:
        """Emits of the pass that begins until the source is where the one before it has ended. 0: it had emitted nothing."""
        rows = self._extent.failed_pass
        return max(2, rows - self.given_up.total - len(self.suspects)) if rows else 0

    # Rows that are given up

    def skip(self, source: str, key: RowKey, row: Row) -> GivenUpRow | None:
        """Return the row as one that is given up, and not emitted. None: it is emitted."""
        copy = self.given_up.next_copy(key)
        if copy is None:
            return None
        skipped = GivenUpRow(source, row, self._reasons[key], self.passes[key, copy])
        self.given_up.skip(key, skipped)
        return skipped

    def give_up_alone(self, key: RowKey, row: GivenUpRow, barriers: int) -> None:
        """Note that a row which was retried alone is not tried again. barriers: number of those before its last emit."""
        self._given_up_alone.append((barriers, key, row))

    @property
    def number_given_up(self) -> int:
        """Number of rows that are given up, and that no commit has passed yet."""
        return self.given_up.total + len(self._given_up_alone)

    def letters(self) -> list[GivenUpRow]:
        """Return the rows of before the barrier that were given up."""
        return self.given_up.letters() + [row for barriers, _, row in self._given_up_alone if barriers < self._barriers]

    # The checkpoint

    def note_barrier(self, emitted: int) -> None:
        """Note that the task sends a barrier now. emitted: number of rows that it has emitted."""
        self._extent.at_barrier = emitted
        self._barriers += 1
        self.given_up.note_barrier()

    def note_committed(self) -> int:
        """Forget what has failed before the barrier. Return the number of emits that are committed.

        Whatever has failed by now has failed behind the barrier, or the commit would be refused.
        """
        committed = self._extent.note_committed(self.given_up.before_barrier)
        self.given_up.note_committed()
        self.retried.clear()
        self._given_up_alone = [each for each in self._given_up_alone if each[0] >= self._barriers]
        if not self._extent.to_cover:
            copies = self.given_up.copies
            self.passes = Counter({(key, copy): self.passes[key, copy] for key, number in copies.items() for copy in range(number)})
            self._reasons = {key: self._reasons[key] for key in copies}
        return committed

    def counts(self, task_index: int, *, commits: bool) -> list[RowCount]:
        """Return what a new process must know. commits: for the write of a commit, without the rows that it passes."""
        given_up = self.given_up.uncommitted(commits=commits)
        keeps_all = not commits or self._extent.left_to_cover(self.given_up.before_barrier) > 0
        passes: defaultdict[RowKey, list[int]] = defaultdict(list)
        for (key, copy), number in sorted(self.passes.items(), key=lambda each: each[0][1]):
            if keeps_all or copy < given_up[key]:
                passes[key].append(number)
        return [RowCount(task_index, *key, counts, given_up[key], self._reasons[key]) for key, counts in passes.items()]
