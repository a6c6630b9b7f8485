"""The bolt around a user's bolt: counts the tuples of each attempt, and acks or fails its reports (TX-3, TX-5, TX-6)."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final

from engine.api import Bolt, FailTuple, Fields, Tuple, wrong_values
from engine.cancellation import CALL_ERRORS
from engine.config import Config
from engine.errors import ERROR, FAILED, TASK_DIED, EngineError, Failure, FatalError, UsageError
from engine.kernel import BatchEmitter, BatchFeed, DigestingEmitter, TaskBatch
from engine.names import COMMIT_STREAM, REPORT_STREAM
from engine.raised import own_text
from engine.topology import ComponentSpec
from engine.topology.task_port import BoltPortUser
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import FailedBatch

REPORT_FIELDS: Final = Fields("attempt", "counts")
ATTEMPT_FIELD: Final = "attempt"
REFUSALS: Final = (FailedBatch, FailTuple)
"""Exceptions that users raise to fail a batch, and that are reported only on request."""


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
    failure: Failure | None = None
    instance: Any = None
    variables: Context | None = None
    """Context variables of the awaited methods of the instance (ACK-17)."""
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

    def prepare_feed(self, *, emits_results: bool) -> BatchFeed:
        """Create the compiled feed, which counts the tuples of this task."""
        context = self.context
        self._early = frozenset(task for component in self._wiring.processing_sources for task in context.task_ids(component))
        sources = {*self._early, *(task for component in self._wiring.commit_sources for task in context.task_ids(component))}
        self._sources = len(sources)
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
        open_attempt = self._open_attempts[attempt] = OpenAttempt(attempt, TaskBatch(self.feed, attempt), len(self._early), self._sources)
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
        """Handle a report or the commit of an attempt."""
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
        if open_attempt.failure is not None or (is_early and self._wiring.finishes_in_commit_phase):
            self.port.settle_control(tup, open_attempt.failure)
        else:
            open_attempt.held.append(tup)
        self._try_finish(open_attempt)

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
        if open_attempt.left or open_attempt.failure is not None or (self._wiring.is_committer and not open_attempt.commit_came):
            return
        self._finish(open_attempt)

    @abstractmethod
    def _finish(self, open_attempt: OpenAttempt) -> None:
        """Let the instance finish its batch, then call `finished`. Called again when no call of the attempt is awaited."""

    def finished(self, open_attempt: OpenAttempt) -> None:
        """Report the numbers of sent tuples, and drop the attempt."""
        open_attempt.batch.over = True
        counts = open_attempt.batch.sent_by_task()
        self.port.emit_control((open_attempt.attempt, counts), open_attempt.held[-1] if open_attempt.held else None, REPORT_STREAM)
        self._drop(open_attempt)

    # Failing

    def call_failed(self, batch: TaskBatch, error: BaseException, tup: Tuple | None) -> None:
        """Fail the batch of a call that raised. The task and its other batches continue (TX-6)."""
        open_attempt = self._open_attempts.get(batch.attempt)
        if open_attempt is not None:
            self._fail_by(open_attempt, error, tup)

    def lost(self, batch: TaskBatch) -> None:
        """Fail the batch of a tuple that a test lost here while it waited.

        If the report of its source comes later, its count shows the loss.
        """
        open_attempt = self._open_attempts.get(batch.attempt)
        if open_attempt is not None and open_attempt.left < self._sources:
            self._fail(open_attempt, self._failure(FAILED, f"a tuple of batch {open_attempt.attempt} was lost"))

    def _fail_by(self, open_attempt: OpenAttempt, error: BaseException, tup: Tuple | None = None) -> None:
        """Fail an attempt because of an error of its instance. A FatalError ends the run."""
        if isinstance(error, FatalError):
            raise error
        if open_attempt.failure is not None:  # the error of a call that was running when another call failed
            return
        if not isinstance(error, REFUSALS) or error.report:
            self.port.report(error, f"batch {open_attempt.attempt} fails, and is tried again", tup)
        if isinstance(error, REFUSALS):
            self._fail(open_attempt, self._failure(FAILED, own_text(error) or None))
        else:
            self._fail(open_attempt, self._failure(ERROR, failure_text(error)))

    def _fail(self, open_attempt: OpenAttempt, failure: Failure) -> None:
        if open_attempt.failure is not None:
            return
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


def wrong_emit(spec: ComponentSpec, stream: str, values: object) -> EngineError:
    """Return the error for values that do not fit a stream. The engine fills its first field."""
    fields = spec.streams[stream].names[1:]
    error = wrong_values(f"{spec.component_id!r} emitted to stream {stream!r}", values, Fields(*fields) if fields else None)
    if isinstance(values, (tuple, list)) and values and isinstance(values[0], TransactionAttempt):
        return UsageError(error.message, hint="The collector puts the attempt in front. Emit only the other values.")
    return error


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


class _Reports:
    """Methods of a batch collector that the compiled emitter lacks."""

    _outer: Any

    def report_error(self, error: BaseException) -> None:
        self._outer.report_error(error)

    async def ready(self) -> None:
        await self._outer.ready()


class BatchBoltCollector(_Reports, BatchEmitter):
    """`self.collector` of an instance of a batch bolt."""

    def __init__(self, batch: TaskBatch, outer: Any) -> None:
        super().__init__(batch)
        self._outer = outer


class EmitterCollector(_Reports, DigestingEmitter):
    """Collector of an emitter for one batch."""

    def __init__(self, batch: TaskBatch, outer: Any, *, digests: bool) -> None:
        super().__init__(batch, digests=digests)
        self._outer = outer
