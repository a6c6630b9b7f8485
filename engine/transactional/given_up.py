"""`GivenUpRows`: decides which rows of the open batches are given up (TX-13). It uses no clock, no store and no tuples.

A row is known by the component whose call raises, its source, its stream and its values. Its place in the batch would not do, because the
order of rows between tasks changes from attempt to attempt. Equal rows are copies: the second copy is given up when two copies have failed
in `max_retries` attempts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from engine.dead_letters import DeadLetter, EncodedRow
from engine.errors import TASK_DIED, Failure
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.attempt_rows import RowOrders, RowReport

RowKey: TypeAlias = tuple[str, bytes]
"""Component whose call raises, and the digest of the row."""


class RowPolicy(NamedTuple):
    """What a run does with failing rows."""

    max_retries: int | None
    """Failed attempts after which a row is given up. None: no row is given up."""
    leaves_out: bool = True
    """False: the run cannot leave single rows out, because other processes execute them (CL-3)."""


class LeftOut(NamedTuple):
    """A row that a task has not executed, because it was given up."""

    component_id: str
    task_id: int
    row: EncodedRow


class Judgement(NamedTuple):
    """What follows from the failed rows of an attempt."""

    given_up: int
    """Rows that the next attempt leaves out, and this one did not."""
    stuck: str = ""
    """Why the attempt does not count, as what the run waits for. Empty: it counts, or no row has failed."""


@dataclass(slots=True)
class _BatchRows:
    """The rows of one open txid."""

    attempt: TransactionAttempt | None = None
    reports: dict[tuple[int, bool], RowReport] = field(default_factory=dict)
    """Reports of the live attempt, by task and whether the commit phase had begun."""
    failures: dict[RowKey, list[int]] = field(default_factory=dict)
    """Of each copy of a row, the attempts in which it failed."""
    errors: dict[RowKey, str] = field(default_factory=dict)
    given_up: dict[str, Counter[bytes]] = field(default_factory=dict)
    watched: set[str] = field(default_factory=set)
    is_frozen: bool = False
    """True if its commit phase has begun and its replays must be equal. Then committers may have stored it without these rows."""


class GivenUpRows:
    """Failed rows of the open batches of a run."""

    def __init__(self, max_retries: int | None, tasks_of: Callable[[str], Sequence[int]], *, replays_differ: bool) -> None:
        """max_retries: failed attempts after which a row is given up. None: never. tasks_of: returns the task ids of a component.

        replays_differ: the spout is opaque.
        """
        self._tasks_of = tasks_of
        self._max_retries = max_retries
        self.replays_differ = replays_differ
        self._batches: Final[dict[int, _BatchRows]] = {}

    def restore(self, txid: int, letters: Iterable[DeadLetter]) -> None:
        """Leave out what an earlier run left out of a txid whose commit phase had begun, so that its replay is the same batch.

        Not for an opaque spout, whose replay is another batch.
        """
        batch = self._batches[txid] = _BatchRows(is_frozen=True)
        for letter in letters:
            key = (letter.component_id, letter.row.digest)
            batch.given_up.setdefault(letter.component_id, Counter())[letter.row.digest] += 1
            batch.errors[key] = letter.error
            batch.failures.setdefault(key, []).append(letter.attempts)
            batch.watched.add(letter.component_id)

    def begin_attempt(self, attempt: TransactionAttempt) -> RowOrders | None:
        """Begin an attempt, and return what its bolts must know. None: nothing."""
        batch = self._batches.get(attempt.txid)
        if batch is None:
            return None
        batch.attempt, batch.reports = attempt, {}
        if not (batch.given_up or batch.watched):
            return None
        return RowOrders({component: dict(copies) for component, copies in batch.given_up.items()}, frozenset(batch.watched))

    def take_report(self, attempt: TransactionAttempt, task: int, report: RowReport, *, in_commit: bool) -> None:
        """Note the report of a task of the live attempt of a txid."""
        batch = self._batches.setdefault(attempt.txid, _BatchRows())
        if batch.attempt != attempt:
            batch.attempt, batch.reports = attempt, {}
        batch.reports[task, in_commit] = report

    def failure(self, attempt: TransactionAttempt, *, in_commit: bool) -> Failure | None:
        """Return why the live attempt fails although its tree is acked: a row has failed, or one that was given up may have been executed.

        None: it does not fail.
        """
        reports, batch = self._reports_of(attempt), self._batches.get(attempt.txid)
        failed = next((report.failure for report in reports.values() if report.failed and report.failure is not None), None)
        if failed is not None or batch is None or batch.attempt != attempt or in_commit:
            return failed
        knew = {task for (task, _), report in reports.items() if report.knew_orders}
        for component in batch.given_up:
            for task in self._tasks_of(component):
                if task not in knew:  # a new instance has executed rows that a committer may have stored the batch without
                    return Failure(TASK_DIED, component, task, f"it had been told which rows batch {attempt} leaves out")
        return None

    def judge(self, attempt: TransactionAttempt, failure: Failure, *, room: int) -> Judgement:
        """Count the failed rows of an attempt that has failed, and give up those that have failed too often.

        failure: of the attempt. room: number of dead letters that may still be stored.
        """
        reports = self._reports_of(attempt)
        failed = {report.component_id for report in reports.values() if report.failed}
        batch = self._batches.get(attempt.txid)
        if batch is None or failure.component_id not in failed:
            return Judgement(0)
        batch.watched |= failed
        batch.reports = {}
        if self._max_retries is None:
            return Judgement(0)
        late = {report.component_id for (_, in_commit), report in reports.items() if report.failed and in_commit}
        if late or batch.is_frozen:
            return Judgement(0, _frozen_text(attempt.txid, late or failed, failure))
        given_up, idle = 0, []
        for component in sorted(failed):
            told = [report for report in reports.values() if report.component_id == component]
            if not sum(report.passed for report in told):
                idle.append(component)
                continue
            due = self._count(batch, component, told)
            if due.total() > room - self._undecided:
                return Judgement(given_up, f"room for the dead letters of batch {attempt.txid} ({due.total():,} rows of {component!r})")
            given_up += due.total()
            if due:
                batch.given_up.setdefault(component, Counter()).update(due)
        return Judgement(given_up, "" if not idle else _idle_text(attempt.txid, idle, failure))

    @property
    def _undecided(self) -> int:
        """Number of rows of open batches that are given up."""
        return sum(copies.total() for batch in self._batches.values() for copies in batch.given_up.values())

    def _count(self, batch: _BatchRows, component: str, reports: list[RowReport]) -> Counter[bytes]:
        """Count the failures of each copy. Return the copies that have failed too often, and are not given up yet."""
        assert self._max_retries is not None
        copies: Counter[bytes] = Counter()
        for report in reports:
            for digest, failed in report.failed.items():
                copies[digest] += failed.copies
                batch.errors[component, digest] = failed.error
        due: Counter[bytes] = Counter()
        for digest, count in copies.items():
            counts = batch.failures.setdefault((component, digest), [])
            done = batch.given_up.get(component, Counter())[digest]
            counts.extend([0] * (done + count - len(counts)))
            for copy in range(done, done + count):
                counts[copy] += 1
            due[digest] = sum(each >= self._max_retries for each in counts[done:])
        return +due

    def begin_commit(self, txid: int) -> None:
        """Note that the definition of a txid becomes durable. From then on its replays leave out the same rows."""
        batch = self._batches.get(txid)
        if batch is None and not self.replays_differ:
            batch = self._batches[txid] = _BatchRows()
        if batch is not None:
            batch.is_frozen = not self.replays_differ

    def letters(self, attempt: TransactionAttempt, now: float) -> list[DeadLetter]:
        """Return the letters of the rows that the live attempt has left out."""
        reports, batch = self._reports_of(attempt), self._batches.get(attempt.txid)
        if batch is None:
            return []
        left_out = [LeftOut(each.component_id, task, row) for (task, _), each in sorted(reports.items()) for row in each.left_out]
        return [
            DeadLetter(
                attempt.txid,
                attempt.attempt_id,
                each.component_id,
                each.task_id,
                each.row,
                batch.errors.get((each.component_id, each.row.digest), ""),
                max(batch.failures.get((each.component_id, each.row.digest), [0])),
                now,
            )
            for each in left_out
        ]

    def forget(self, txid: int) -> None:
        """Forget a txid that is committed."""
        self._batches.pop(txid, None)

    def _reports_of(self, attempt: TransactionAttempt) -> Mapping[tuple[int, bool], RowReport]:
        batch = self._batches.get(attempt.txid)
        return batch.reports if batch is not None and batch.attempt == attempt else {}


def _idle_text(txid: int, components: list[str], failure: Failure) -> str:
    names = ", ".join(map(repr, components))
    return f"{names} to process any row of batch {txid}, since every one fails there ({_short(failure)})"


def _frozen_text(txid: int, components: Iterable[str], failure: Failure) -> str:
    names = ", ".join(map(repr, sorted(components)))
    return f"{names} to process all rows of batch {txid}, of which none can be given up: its commit has begun ({_short(failure)})"


def _short(failure: Failure) -> str:
    return (failure.error or failure.reason).partition("\n")[0][:200]
