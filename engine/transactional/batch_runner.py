"""The bolt around a user's bolt: counts the tuples of each attempt, and acks or fails its reports (TX-3, TX-5, TX-6)."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final

from engine.api import Bolt, FailTuple, Fields, Tuple
from engine.cancellation import CALL_ERRORS
from engine.config import Config
from engine.errors import ERROR, FAILED, TASK_DIED, EngineBug, EngineError, Failure, FatalError, UsageError
from engine.kernel import BatchFeed, TaskBatch
from engine.names import COMMIT_STREAM, REPORT_STREAM, ROWS_STREAM
from engine.raised import own_text
from engine.state.codec import codec_named
from engine.topology import ComponentSpec
from engine.topology.task_port import BoltPortUser
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.attempt_rows import AttemptRows, RowOrders
from engine.transactional.batch_bolt import FailedBatch, RowFailed
from engine.transactional.batch_collectors import wrong_emit

REPORT_FIELDS: Final = Fields("attempt", "counts")
REFUSALS: Final = (FailedBatch, FailTuple)
"""Exceptions that users raise to fail a batch or one of its rows, and that are reported only on request."""


@dataclass(frozen=True, slots=True)
class BoltWiring:
    """A user's bolt and its neighbours in the topology, for all its tasks."""

    spec: ComponentSpec
    """The component as the user declared it, with the attempt in front of its fields."""
    processing_sources: frozenset[str]
    """Source components that report in the processing phase."""
    commit_sources: frozenset[str]
    """Source components that report in the commit phase: committers, and bolts downstream of one."""
    is_committer: bool
    most_open: int
    """Largest number of open batches."""
    replays_differ: bool
    tells_rows: bool = False
    """True if the coordinator can give up single rows. Then an attempt continues behind a row that fails (TX-13)."""
    cleanups: "dict[int, set[asyncio.Task[None]]]" = field(default_factory=dict)
    """Running cleanups of old instances, by task id. A cleanup may outlive its runner, and the last runner of the task waits for it."""
    aio_tasks: "dict[int, set[asyncio.Task[None]]]" = field(default_factory=dict)
    """Running calls of instances, by task id. Includes calls of a dead runner, because a cancelled call may take time to end."""

    @property
    def finishes_in_commit_phase(self) -> bool:
        """True if the bolt finishes in the commit phase."""
        return self.is_committer or bool(self.commit_sources)


@dataclass(slots=True, eq=False)
class OpenAttempt:
    """An attempt that this task has not finished."""

    attempt: TransactionAttempt
    batch: TaskBatch
    early_left: int
    """Number of missing reports of the processing phase."""
    left: int
    """Number of all missing reports."""
    held: list[Tuple] = field(default_factory=list)
    """Control tuples to settle at the end. This task's own report is anchored to the last one."""
    commit_came: bool = False
    ends_processing: bool = False
    """True while the last report of the processing phase waits for the calls of its rows. `held` has it."""
    rows: AttemptRows | None = None
    """Failed rows, and rows to leave out. None: the attempt has none."""
    failure: Failure | None = None
    instance: Any = None
    variables: Context | None = None
    """Context variables of the awaited methods of the instance (ACK-17)."""
    running: Tuple | list[Tuple] | None = None
    """Tuple of the call of execute that is awaited, or the tuples of its burst."""
    aio_task: "asyncio.Task[None] | None" = None
    """Awaits calls of the instance, or did so last."""
    progress_at: float = 0.0
    """Time of the last return of an awaited call."""
    refreshed_at: float = 0.0
    """Time of the last timeout refresh of `held`."""


class BatchRunner(Bolt, BoltPortUser):
    """Base class of the runners of basic bolts and of batch bolts."""

    def __init__(self, wiring: BoltWiring) -> None:
        self._wiring = wiring
        self._open_attempts: dict[TransactionAttempt, OpenAttempt] = {}
        self._newest: dict[int, TransactionAttempt] = {}
        """Newest attempt seen here, by txid. The txids ascend, and so do the attempt ids."""
        self._orders: tuple[TransactionAttempt, RowOrders] | None = None
        """The attempt that these orders begin."""

    def prepare_feed(self, *, emits_results: bool) -> BatchFeed:
        """Create the compiled feed, which counts the tuples of this task."""
        context = self.context
        self._early = frozenset(task for component in self._wiring.processing_sources for task in context.task_ids(component))
        sources = {*self._early, *(task for component in self._wiring.commit_sources for task in context.task_ids(component))}
        self._source_tasks = sources
        self.feed = self.port.batch_feed(self, sources, emits_results=emits_results)
        return self.feed

    @property
    def progress_at(self) -> float:
        """Time of the newest return of an awaited call, over all open attempts. 0 if there is none."""
        return max((open_attempt.progress_at for open_attempt in self._open_attempts.values()), default=0.0)

    # Attempts

    def begin(self, attempt: TransactionAttempt) -> TaskBatch | None:
        """Begin an attempt that is new here. Return None if a newer attempt of this or an earlier txid is known (TX-3)."""
        if not self._replace_known(attempt):
            return None
        open_attempt = self._open_attempts[attempt] = OpenAttempt(
            attempt, TaskBatch(self.feed, attempt), len(self._early), len(self._source_tasks)
        )
        if self._orders is not None and self._orders[0] == attempt:
            open_attempt.rows = self._new_rows(self._orders[1])
        try:
            self._begin_instance(open_attempt)
        except CALL_ERRORS as error:  # error of user code: reported, and the batch fails
            self._fail_by(open_attempt, error)
        return open_attempt.batch

    def _replace_known(self, attempt: TransactionAttempt) -> bool:
        """Remember an attempt. Drop the attempts that it replaces, and the attempts of txids that must be committed by now.

        Return False if the attempt itself is replaced already.
        """
        txid, attempt_id = attempt
        known = self._newest
        last = next(reversed(known), 0)
        if last < txid:
            if known and known[last].attempt_id > attempt_id:
                return False
            known[txid] = attempt
        else:
            if any(seen <= txid and newest.attempt_id > attempt_id for seen, newest in known.items()):
                return False
            later = [newest for seen, newest in known.items() if seen >= txid]
            for newest in later:
                del known[newest.txid]
            known[txid] = attempt
            known.update({newest.txid: newest for newest in later if newest.attempt_id > attempt_id})
            # A restarted coordinator may begin fewer batches than before. The txids of the earlier one are dropped here.
            for newest in later:
                if newest.attempt_id <= attempt_id:
                    self._drop_known(newest)
        over = txid - self._wiring.most_open
        while (first := next(iter(known))) <= over:
            self._drop_known(known.pop(first))
        return True

    def _drop_known(self, attempt: TransactionAttempt) -> None:
        open_attempt = self._open_attempts.get(attempt)
        if open_attempt is not None:
            self._drop(open_attempt)

    def _drop(self, open_attempt: OpenAttempt) -> None:
        """Forget a finished or old attempt. Nobody waits for the trees of its held tuples, so they are acked."""
        del self._open_attempts[open_attempt.attempt]
        self.feed.drop_batch(open_attempt.attempt)
        self._settle_held(open_attempt)
        self._end_instance(open_attempt)

    @abstractmethod
    def _begin_instance(self, open_attempt: OpenAttempt) -> None:
        """Set the function that executes the tuples of an attempt."""

    @abstractmethod
    def _end_instance(self, open_attempt: OpenAttempt) -> None:
        """End an attempt that is finished, failed or old."""

    # Reports and commits

    def on_control(self, tup: Tuple) -> None:
        """Handle the orders, a report or the commit of an attempt."""
        if tup.stream == ROWS_STREAM:
            self._orders = (tup[0], tup[1])
            self.feed.batch_or_begin(tup[0])
            self._orders = None
            self.port.settle_control(tup)
            return
        if self.feed.batch_or_begin(tup[0]) is None:  # an old attempt
            self.port.settle_control(tup)
            return
        open_attempt = self._open_attempts[tup[0]]
        if tup.stream == COMMIT_STREAM:
            self._take_commit(open_attempt, tup)
        else:
            self._take_report(open_attempt, tup)

    def _take_report(self, open_attempt: OpenAttempt, tup: Tuple) -> None:
        source, counts = tup.source_task, tup[1]
        is_early = source in self._early
        open_attempt.left -= 1
        open_attempt.early_left -= is_early
        sent, came = counts.get(self.context.task_id, 0), open_attempt.batch.received_from(source)
        if sent != came:
            text = f"{tup.source_component!r} (task {source}) has sent {sent:,} tuples of batch {open_attempt.attempt}, and {came:,} came"
            self._fail(open_attempt, self._failure(FAILED, text))
        elif not is_early:
            self._check_early(open_attempt)
        ends_processing = is_early and self._wiring.finishes_in_commit_phase
        if open_attempt.failure is not None or (ends_processing and (open_attempt.early_left or not self._wiring.tells_rows)):
            self.port.settle_control(tup, open_attempt.failure)
        else:
            open_attempt.held.append(tup)
            open_attempt.ends_processing |= ends_processing
        self._advance(open_attempt)

    def _advance(self, open_attempt: OpenAttempt) -> None:
        """End the processing phase of an attempt that finishes in the commit phase, or finish the attempt, as far as it is possible now."""
        if open_attempt.ends_processing:
            if not self._have_returned(open_attempt) or open_attempt.failure is not None or self._fails_spoiled(open_attempt):
                return
            open_attempt.ends_processing = False
            self._tell_rows(open_attempt)
            self._settle_held(open_attempt)
        self._try_finish(open_attempt)

    def _have_returned(self, open_attempt: OpenAttempt) -> bool:
        """Execute the rows that wait for a burst. Return whether the calls of all rows have returned; if not, `_advance` is called then."""
        return True

    def _take_commit(self, open_attempt: OpenAttempt, tup: Tuple) -> None:
        self._check_early(open_attempt)
        if open_attempt.failure is not None:
            self.port.settle_control(tup, open_attempt.failure)
            return
        open_attempt.commit_came = True
        open_attempt.held.append(tup)
        self._try_finish(open_attempt)

    def _check_early(self, open_attempt: OpenAttempt) -> None:
        """Fail an attempt that lacks early reports in the commit phase. An earlier instance got these reports and died."""
        if open_attempt.early_left and open_attempt.failure is None:
            self._fail(open_attempt, self._failure(TASK_DIED, f"it had taken a part of batch {open_attempt.attempt}"))

    # Finishing

    def _try_finish(self, open_attempt: OpenAttempt) -> None:
        """Finish an attempt if all reports have come, and for a committer also the commit."""
        if open_attempt.ends_processing:
            return
        if open_attempt.left or open_attempt.failure is not None or (self._wiring.is_committer and not open_attempt.commit_came):
            return
        self._finish(open_attempt)

    @abstractmethod
    def _finish(self, open_attempt: OpenAttempt) -> None:
        """Let the instance finish its batch, then call `finished`. Called again when no call of the attempt is awaited."""

    def finished(self, open_attempt: OpenAttempt) -> None:
        """Report the numbers of sent tuples, and drop the attempt."""
        if self._fails_spoiled(open_attempt):
            return
        self._tell_rows(open_attempt)
        open_attempt.batch.over = True
        counts = open_attempt.batch.sent_by_task()
        self.port.emit_control((open_attempt.attempt, counts), open_attempt.held[-1] if open_attempt.held else None, REPORT_STREAM)
        self._drop(open_attempt)

    # Failing

    def call_failed(self, batch: TaskBatch, error: BaseException, given: Tuple | list[Tuple]) -> None:
        """Fail the batch of a call that raised. The task and its other batches continue (TX-6). given: its tuple, or those of a burst."""
        open_attempt = self._open_attempts.get(batch.attempt)
        if open_attempt is not None:
            self._fail_by(open_attempt, error, given)

    def lost(self, batch: TaskBatch) -> None:
        """Fail the batch of a tuple that a test lost here while it waited.

        If the report of its source comes later, its count shows the loss.
        """
        open_attempt = self._open_attempts.get(batch.attempt)
        if open_attempt is not None and open_attempt.left < len(self._source_tasks):
            self._fail(open_attempt, self._failure(FAILED, f"a tuple of batch {open_attempt.attempt} was lost"))

    def _fail_by(self, open_attempt: OpenAttempt, error: BaseException, given: Tuple | list[Tuple] | None = None) -> bool:
        """Fail an attempt because of an error of its instance. Return True if it runs on, to find all of its failing rows (TX-13).

        given: the tuple of the call that raised, or those of a burst. A FatalError ends the run.
        """
        if isinstance(error, FatalError):
            raise error
        if open_attempt.failure is not None:  # the error of a call that was running when another call failed
            return False
        rows = given if isinstance(given, list) else [] if given is None else [given]
        failure = (
            self._failure(FAILED, own_text(error) or None) if isinstance(error, REFUSALS) else self._failure(ERROR, failure_text(error))
        )
        if not isinstance(error, REFUSALS) or error.report:
            tup = rows[0] if len(rows) == 1 else None
            self.port.report(error, f"batch {open_attempt.attempt} fails, and is tried again", tup)
        if not (rows and self._wiring.tells_rows and _blames_row(error)):
            self._fail(open_attempt, failure)
            return False
        open_attempt.rows = open_attempt.rows or self._new_rows()
        if len(rows) == 1:
            open_attempt.rows.note_failed(rows[0], failure)
        else:
            open_attempt.rows.spoiled = failure
            self._execute_apart(open_attempt, rows)
        return True

    def _new_rows(self, orders: RowOrders | None = None) -> AttemptRows:
        return AttemptRows(self._wiring.spec.component_id, codec_named(self.context.config.state_codec), orders)

    def _execute_apart(self, open_attempt: OpenAttempt, rows: list[Tuple]) -> None:
        """Execute the rows of a burst that raised one by one, to find those that fail. Only for bolts that take bursts."""
        raise EngineBug("a bolt without bursts was given one", component_id=self._wiring.spec.component_id, rows=len(rows))

    def _fails_spoiled(self, open_attempt: OpenAttempt) -> bool:
        """Fail an attempt that has executed rows twice, unless its failed rows make it fail anyway. Return whether it did."""
        rows = open_attempt.rows
        if rows is None or rows.spoiled is None or rows.failure is not None:
            return False
        self._fail(open_attempt, rows.spoiled)
        return True

    def _tell_rows(self, open_attempt: OpenAttempt) -> None:
        """Tell the coordinator of the failed and left-out rows of an attempt, before its tree is settled."""
        if open_attempt.rows is None:
            return
        report = open_attempt.rows.take_report(sum(map(open_attempt.batch.received_from, self._source_tasks)))
        if report is not None and open_attempt.held:
            self.port.reply(open_attempt.held[-1], report)

    def _fail(self, open_attempt: OpenAttempt, failure: Failure) -> None:
        if open_attempt.failure is not None:
            return
        self._tell_rows(open_attempt)
        open_attempt.failure = failure
        open_attempt.batch.dead = open_attempt.batch.over = True
        open_attempt.batch.waiting = open_attempt.batch.tuples = None
        self._settle_held(open_attempt, failure)
        self._end_instance(open_attempt)

    def _settle_held(self, open_attempt: OpenAttempt, failure: Failure | None = None) -> None:
        held, open_attempt.held = open_attempt.held, []
        for tup in held:
            self.port.settle_control(tup, failure)

    def _failure(self, reason: Any, text: str | None) -> Failure:
        return Failure(reason, self.context.component_id, self.context.task_id, text)

    # Errors of invalid emits

    def wrong_values(self, stream: str, values: object) -> EngineError:
        """Return the error for values that do not fit the stream."""
        return wrong_emit(self._wiring.spec, stream, values)

    def wrong_time(self, batch: TaskBatch) -> EngineError:
        """Return the error for an emit after the end of an attempt."""
        return UsageError(
            f"bolt {self._wiring.spec.component_id!r} emitted for batch {batch.attempt}, which is finished, failed or superseded here",
            hint="Emit in execute() and finish_batch(), before they return; await what you start there.",
        )


def _blames_row(error: BaseException) -> bool:
    """Tell whether an error of a call is about its row. A FailedBatch is about the whole batch, unless `burst.fail` has raised it."""
    return not isinstance(error, FailedBatch) or isinstance(error, RowFailed)


def failure_text(error: BaseException) -> str:
    """Return the text of an error for a Failure, without its hint."""
    text = error.message if isinstance(error, EngineError) else own_text(error)
    return f"{type(error).__name__}: {text}".removesuffix(": ")


@asynccontextmanager
async def call_timeout(config: Config, what: str) -> AsyncIterator[None]:
    """Cancel the awaited call after `batch_timeout_secs`, and fail its batch.

    Without a limit, a call that never returns would keep newer attempts from this task.
    """
    try:
        async with asyncio.timeout(config.batch_timeout_secs) as scope:
            yield
    except TimeoutError as error:
        if not scope.expired():
            raise
        text = f"{what} did not return within {config.batch_timeout_secs:g} s (batch_timeout_secs), and was cancelled"
        raise FailedBatch(text, report=True) from error
