"""The host of a user's bolt: an ordinary bolt that counts the tuples of each attempt, and answers for it (TX-3, TX-5, TX-6)."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from engine.config import Config
from engine.errors import ERROR, FAILED, TASK_DIED, EngineError, Failure, FatalError, UsageError
from engine.kernel import BatchEmitter, BatchFeed, BatchPart, DigestingEmitter
from engine.names import COMMIT_STREAM, REPORT_STREAM
from engine.raised import own_text
from engine.topology import Bolt, ComponentSpec, FailTuple, Fields, Tuple, wrong_values
from engine.topology.task_port import BoltPortUser
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import FailedBatch

REPORT_FIELDS: Final = Fields("attempt", "counts")
ATTEMPT_FIELD: Final = "attempt"
REFUSALS: Final = (FailedBatch, FailTuple)
"""Raised on purpose: they fail the batch without an error report, unless they ask for one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a user's bolt stands in its topology."""

    spec: ComponentSpec
    """As the user declared it, with the attempt in front of its fields."""
    early_sources: frozenset[str]
    """The components that report to it in the processing phase."""
    late_sources: frozenset[str]
    """Those that report in the commit phase: committers, and what is behind one."""
    is_committer: bool
    most_open: int
    """How many batches are open at once."""
    replays_differ: bool
    cleanups: "dict[int, set[asyncio.Task[None]]]" = field(default_factory=dict)
    """By task id, what cleans up after instances that are over: it outlives the host, and the last host of the task waits for it."""
    runners: "dict[int, set[asyncio.Task[None]]]" = field(default_factory=dict)
    """By task id, the calls that go on: of a host that died too, since they may take their time to be cancelled."""

    @property
    def is_late(self) -> bool:
        """True where it finishes in the commit phase."""
        return self.is_committer or bool(self.late_sources)


@dataclass(slots=True, eq=False)
class Hosted:
    """One attempt at this task."""

    attempt: TransactionAttempt
    part: BatchPart
    early_left: int
    """Reports of the processing phase that have not come."""
    left: int
    """All reports that have not come."""
    held: list[Tuple] = field(default_factory=list)
    """Control tuples to be settled when it is finished; the last one is what its own report is anchored to."""
    commit_came: bool = False
    failure: Failure | None = None
    instance: Any = None
    progress_at: float = 0.0
    """When a call of the instance that was awaited has last returned."""
    refreshed_at: float = 0.0
    """When `held` were last told that it gets further."""


class Host(Bolt, BoltPortUser):
    """The half that is the same for basic and for batch bolts."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._hosted: dict[TransactionAttempt, Hosted] = {}
        self._newest: dict[int, int] = {}
        """txid -> its newest attempt id that was seen here."""

    def prepare_feed(self, *, emits_results: bool) -> BatchFeed:
        """Get ready to count."""
        context = self.context
        self._early = frozenset(task for component in self._place.early_sources for task in context.task_ids(component))
        sources = {*self._early, *(task for component in self._place.late_sources for task in context.task_ids(component))}
        self._sources = len(sources)
        self.feed = self.port.batch_feed(self, sources, emits_results=emits_results)
        return self.feed

    # Attempts

    def begin(self, attempt: TransactionAttempt) -> BatchPart | None:
        """Begin an attempt that is new here; None where a newer one has been seen of it, or of an earlier txid (TX-3)."""
        txid, attempt_id = attempt
        for seen, newest in self._newest.items():
            if seen <= txid and newest > attempt_id:
                return None
        self._newest[txid] = attempt_id
        self._drop_old(txid, attempt_id)
        hosted = self._hosted[attempt] = Hosted(attempt, BatchPart(self.feed, attempt), len(self._early), self._sources)
        try:
            self._begin_instance(hosted)
        except Exception as error:  # noqa: BLE001 - the user's own: told, and the batch fails
            self._fail_by(hosted, error)
        return hosted.part

    def _drop_old(self, txid: int, attempt_id: int) -> None:
        """Drop what this attempt supersedes, and what must be committed by now."""
        over = txid - self._place.most_open
        for attempt in [each for each in self._hosted if each.txid <= over or (each.txid >= txid and each.attempt_id < attempt_id)]:
            self._drop(self._hosted[attempt])
        for seen in [seen for seen in self._newest if seen <= over]:
            del self._newest[seen]

    def _drop(self, hosted: Hosted) -> None:
        """Forget an attempt: it is finished, or old. What is held of it belongs to a tree that nobody waits for."""
        del self._hosted[hosted.attempt]
        self.feed.drop(hosted.attempt)
        self._settle_held(hosted)
        self._end_instance(hosted)

    @abstractmethod
    def _begin_instance(self, hosted: Hosted) -> None:
        """Have the attempt's tuples be executed."""

    @abstractmethod
    def _end_instance(self, hosted: Hosted) -> None:
        """The attempt is over here: finished, failed or old."""

    # Reports and commits

    def on_control(self, tup: Tuple) -> None:
        """Take a report, or the commit of an attempt."""
        if self.feed.find(tup[0]) is None:  # an old attempt
            self.port.settle_control(tup)
            return
        hosted = self._hosted[tup[0]]
        if tup.stream == COMMIT_STREAM:
            self._take_commit(hosted, tup)
        else:
            self._take_report(hosted, tup)

    def _take_report(self, hosted: Hosted, tup: Tuple) -> None:
        source, counts = tup.source_task, tup[1]
        is_early = source in self._early
        hosted.left -= 1
        hosted.early_left -= is_early
        sent, came = counts.get(self.context.task_id, 0), hosted.part.received_from(source)
        if sent != came:
            text = f"{tup.source_component!r} (task {source}) has sent {sent:,} tuples of batch {hosted.attempt}, and {came:,} came"
            self._fail(hosted, self._failure(FAILED, text))
        elif not is_early:
            self._check_early(hosted)
        if hosted.failure is not None or (is_early and self._place.is_late):
            self.port.settle_control(tup, hosted.failure)
        else:
            hosted.held.append(tup)
        self._try_finish(hosted)

    def _take_commit(self, hosted: Hosted, tup: Tuple) -> None:
        self._check_early(hosted)
        if hosted.failure is not None:
            self.port.settle_control(tup, hosted.failure)
            return
        hosted.commit_came = True
        hosted.held.append(tup)
        self._try_finish(hosted)

    def _check_early(self, hosted: Hosted) -> None:
        """In the commit phase every report of the processing phase has come, unless an instance of this task has died since."""
        if hosted.early_left and hosted.failure is None:
            self._fail(hosted, self._failure(TASK_DIED, f"it had taken a part of batch {hosted.attempt}"))

    # Finishing

    def _try_finish(self, hosted: Hosted) -> None:
        """Finish an attempt of which everything has come, and the commit if it waits for one."""
        if hosted.left or hosted.failure is not None or (self._place.is_committer and not hosted.commit_came):
            return
        self._finish(hosted)

    @abstractmethod
    def _finish(self, hosted: Hosted) -> None:
        """Have the instance finish its batch, then `finished`; called again whenever nothing of the attempt waits any longer."""

    def finished(self, hosted: Hosted) -> None:
        """Tell what was sent, and let go of the attempt."""
        hosted.part.over = True
        counts = hosted.part.sent_by_task()
        self.port.emit_control((hosted.attempt, counts), hosted.held[-1] if hosted.held else None, REPORT_STREAM)
        self._drop(hosted)

    # Failing

    def call_failed(self, part: BatchPart, error: BaseException, tup: Tuple | None) -> None:
        """A call of execute raised: the batch fails, the task and its other batches go on (TX-6)."""
        hosted = self._hosted.get(part.attempt)
        if hosted is not None:
            self._fail_by(hosted, error, tup)

    def lost(self, part: BatchPart) -> None:
        """A test has had a tuple lost: its source's report shows it, unless that is in already, and the tuple had waited here."""
        hosted = self._hosted.get(part.attempt)
        if hosted is not None and hosted.left < self._sources:
            self._fail(hosted, self._failure(FAILED, f"a tuple of batch {hosted.attempt} was lost"))

    def _fail_by(self, hosted: Hosted, error: BaseException, tup: Tuple | None = None) -> None:
        """Fail an attempt by what its instance raised; a FatalError ends the run."""
        if isinstance(error, FatalError):
            raise error
        if hosted.failure is not None:  # of a call that was under way when another one failed
            return
        if not isinstance(error, REFUSALS) or error.report:
            self.port.report(error, f"batch {hosted.attempt} fails, and is tried again", tup)
        if isinstance(error, REFUSALS):
            self._fail(hosted, self._failure(FAILED, own_text(error) or None))
        else:
            self._fail(hosted, self._failure(ERROR, failure_text(error)))

    def _fail(self, hosted: Hosted, failure: Failure) -> None:
        if hosted.failure is not None:
            return
        hosted.failure = failure
        hosted.part.dead = hosted.part.over = True
        hosted.part.waiting = hosted.part.rows = None
        self._settle_held(hosted, failure)
        self._end_instance(hosted)

    def _settle_held(self, hosted: Hosted, failure: Failure | None = None) -> None:
        held, hosted.held = hosted.held, []
        for tup in held:
            self.port.settle_control(tup, failure)

    def _failure(self, reason: Any, text: str | None) -> Failure:
        return Failure(reason, self.context.component_id, self.context.task_id, text)

    # The errors of a wrong emit

    def wrong_values(self, stream: str, values: object) -> EngineError:
        """The error of values that do not fit the stream."""
        return wrong_emit(self._place.spec, stream, values)

    def wrong_time(self, part: BatchPart) -> EngineError:
        """The error of an emit for an attempt that is over here."""
        return UsageError(
            f"bolt {self._place.spec.component_id!r} emitted for batch {part.attempt}, which is finished, failed or superseded here",
            hint="Emit in execute() and finish_batch(), before they return; await what you start there.",
        )


def wrong_emit(spec: ComponentSpec, stream: str, values: object) -> EngineError:
    """The error of values that do not fit a stream, whose first field the engine fills."""
    fields = spec.streams[stream].names[1:]
    error = wrong_values(f"{spec.component_id!r} emitted to stream {stream!r}", values, Fields(*fields) if fields else None)
    if isinstance(values, (tuple, list)) and values and isinstance(values[0], TransactionAttempt):
        return UsageError(error.message, hint="The attempt is put in front by the collector: emit the values behind it only.")
    return error


def failure_text(error: BaseException) -> str:
    """What an error says, for a Failure: without a hint, which its report has."""
    text = error.message if isinstance(error, EngineError) else own_text(error)
    return f"{type(error).__name__}: {text}".removesuffix(": ")


@asynccontextmanager
async def call_timeout(config: Config, what: str) -> AsyncIterator[None]:
    """Cancel what is awaited here after `batch_timeout_secs`, and fail its batch: until it has returned, no newer attempt comes."""
    try:
        async with asyncio.timeout(config.batch_timeout_secs) as scope:
            yield
    except TimeoutError as error:
        if not scope.expired():
            raise
        text = f"{what} did not return within {config.batch_timeout_secs:g} s (batch_timeout_secs), and was cancelled"
        raise FailedBatch(text, report=True) from error


class _Reports:
    """What a collector of batches has beside its emits."""

    _outer: Any

    def report_error(self, error: BaseException) -> None:
        self._outer.report_error(error)

    async def ready(self) -> None:
        await self._outer.ready()


class HostedCollector(_Reports, BatchEmitter):
    """`self.collector` of one instance of a batch bolt."""

    def __init__(self, part: BatchPart, outer: Any) -> None:
        super().__init__(part)
        self._outer = outer


class EmitterCollector(_Reports, DigestingEmitter):
    """What an emitter emits one batch with."""

    def __init__(self, part: BatchPart, outer: Any, *, digests: bool) -> None:
        super().__init__(part, digests=digests)
        self._outer = outer
