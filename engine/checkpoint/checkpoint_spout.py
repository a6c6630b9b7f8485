"""The checkpoint spout carries out the steps of the state machine.

For each step it saves the record, then acts and waits for the result (CP-3). PREPARE is a barrier that flows behind the tuples. Commits and
recoveries go to the tasks directly, so that no queue delays them.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from engine.api import Fields, OutputFields, Spout, SpoutExhausted
from engine.backoff import Backoff
from engine.cancellation import aio_task_error
from engine.checkpoint.alignment import Barrier
from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.machine import Event, Step
from engine.errors import ROLLBACK, Failure
from engine.log import EngineLogger
from engine.names import CHECKPOINT_COMPONENT, CHECKPOINT_STREAM
from engine.topology.task_port import SpoutPortUser

BARRIER_FIELDS: Final = Fields(*Barrier._fields)
LONGEST_PAUSE_SECS: Final = 0.1
"""Longest pause between two checks whether a checkpoint is due."""
LOGGER: Final = EngineLogger("engine.checkpoint")
LONGEST_REPETITION: Final = 4
"""Longest time of a pass that repeats another one, in intervals."""
OUTAGE_BACKOFF: Final = Backoff(0.5, 10.0)
"""Pauses before an interval is repeated in which a component has failed and processed nothing."""
MOST_HALVINGS: Final = 8
"""An interval in which other rows fail each time becomes shorter. Else many rows, of which a few fail by chance, would never commit."""


class CheckpointSpout(Spout, SpoutPortUser):
    """Runs the checkpoints of a run. A background coroutine emits the barriers as control tuples. Polls emit nothing."""

    output_fields: OutputFields = MappingProxyType({CHECKPOINT_STREAM: BARRIER_FIELDS})

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._wanted = asyncio.Event()
        self._outages = 0
        """Passes in a row in which nothing counted."""
        self._halvings = 0
        """Passes in which other rows have failed than in those that they repeat, minus commits."""

    def open(self) -> None:
        self.port.run.on_commit_request(self._wanted.set)
        self.context.create_task(self._drive())

    @property
    def progress(self) -> int:
        """Return the newest committed txid. An instance that dies before its next complete checkpoint has made no progress."""
        return self._checkpoints.committed_txid

    def next_tuple(self) -> None:
        raise SpoutExhausted

    async def _drive(self) -> None:
        checkpoints, machine = self._checkpoints, self._checkpoints.machine
        event, is_start = Event.FAILED, not checkpoints.begun
        if is_start:
            event, checkpoints.begun = Event.BEGIN, True
        while True:
            before = machine.step
            machine.apply_event(event)
            checkpoints.note_event()
            if event is Event.FAILED:
                checkpoints.note_recovery()
            if machine.recovers:
                checkpoints.hold_spouts()
            await checkpoints.save()
            checkpoints.hold_spouts()  # only now, because a row that kills the process must find the record of this start
            if before is Step.COMMIT and event is Event.DONE:
                checkpoints.note_committed()
                self._outages = 0
                self._halvings = max(self._halvings - 1, 0)
                checkpoints.sources.passes.differed &= self._halvings > 0  # else the sources would keep a limit for ever
                checkpoints.sources.begin_interval(self.port.run.acked())
            checkpoints.note_step()
            match machine.step:
                case Step.IDLE:
                    event = await self._wait_until_due()
                case Step.PREPARE:
                    event = await self._prepare()
                case Step.COMMIT:
                    checkpoints.sources.note_committed()
                    txid = machine.record.txid
                    event = await self._order([task.order_commit(txid) for task in checkpoints.tasks])
                    if event is Event.DONE:
                        self.port.run.release_acks()
                case Step.RECOVER:
                    event = await self._recover(is_start=is_start)
            is_start = False

    async def _prepare(self) -> Event:
        """Let the barriers flow, and wait until all bolts have prepared. Each failed row of before them must be owed (EO-3)."""
        checkpoints, record = self._checkpoints, self._checkpoints.machine.record
        barrier = Barrier(record.round, record.txid)
        checkpoints.prepare.begin(record.round)
        checkpoints.sources.begin_prepare()
        checkpoints.sources.passes.rowless.begin_prepare(record.round)
        self.port.run.cut_acks()
        sending = asyncio.ensure_future(self._send_barriers(barrier))
        sending.add_done_callback(self._check_sources)
        try:
            passes = checkpoints.sources.passes
            look = passes.rowless.fail_overdue
            if not await checkpoints.prepare.wait(self._progress_of_prepare, lambda: passes.have_failed, look):
                return Event.FAILED
            for source in checkpoints.sources.tasks:
                await source.verdicts_arrived()
            checkpoints.sources.take_owed(self.port.run.acked())
        except TimeoutError:
            text = f"a checkpoint waited {checkpoints.prepare.timeout_secs:g} s, and nothing went on (checkpoint_timeout_secs)"
            checkpoints.note_cause(text)
            return Event.FAILED
        finally:
            sending.cancel()
        if checkpoints.sources.passes.have_failed:
            why = checkpoints.sources.passes.describe_failures()
            if not checkpoints.waits.in_outage:  # the log tells a long outage as a wait
                LOGGER.warning("topology %r: %s", self.context.topology_name, why)
            checkpoints.note_cause(why)
            return Event.FAILED
        return Event.FAILED if checkpoints.lost.is_set() else Event.DONE

    def _progress_of_prepare(self) -> int:
        """Return a number that grows while bolts process inputs, or the store takes what they have to write."""
        return sum(self.port.run.acked().values()) + self._checkpoints.stores.blobs

    async def _send_barriers(self, barrier: Barrier) -> None:
        """Let rows go alone first, because a task that dies of one may not have had a barrier."""
        checkpoints = self._checkpoints
        await asyncio.gather(*(task.emit_kept() for task in checkpoints.sources.tasks if task.kept))
        checkpoints.prepare.note_barriers()
        self.port.emit_control(tuple(barrier), None, CHECKPOINT_STREAM)
        await asyncio.gather(*(task.prepare(barrier) for task in checkpoints.sources.tasks))

    def _check_sources(self, task: "asyncio.Task[None]") -> None:
        """End the run if a source cannot give its position, because no repetition would change that."""
        error = aio_task_error(task)
        if error is not None:
            self._checkpoints.fail_run(error)

    async def _recover(self, *, is_start: bool) -> Event:
        """Take every task back to the last commit: drop what is in flight, then restore the states and the sources (EO-5)."""
        checkpoints, record = self._checkpoints, self._checkpoints.machine.record
        committing = record.txid if record.phase == "committing" else None
        if committing is not None:
            checkpoints.sources.note_committed()

        async def begin_pass() -> None:
            """Begin the next pass, when no task runs. What a task notes from then on belongs to it."""
            if committing is not None:
                self.port.run.release_acks()
            checkpoints.lost.clear()
            checkpoints.sources.begin_pass(self.port.run.acked())

        if not is_start:
            self._wanted.clear()  # whoever still wants a checkpoint of the next pass will ask again
            await self._end_pass()
            await self.port.run.roll_back(Failure(ROLLBACK, CHECKPOINT_COMPONENT, None, checkpoints.cause), begin_pass)
        return await self._order([task.order_recovery(committing) for task in checkpoints.tasks])

    async def _end_pass(self) -> None:
        """Count the failed rows. After an outage, pause before the next pass."""
        checkpoints = self._checkpoints
        for source in checkpoints.sources.tasks:
            await source.verdicts_arrived()  # a death has failed its inputs, and the news may be under way
        self.port.run.tell_failures()
        for source in checkpoints.sources.tasks:
            await source.verdicts_arrived()
        if checkpoints.sources.passes.has_any:
            for source in checkpoints.sources.tasks:
                source.end_pass()
        was_long = OUTAGE_BACKOFF.pause_secs(max(1, self._outages)) >= OUTAGE_BACKOFF.longest_secs
        if checkpoints.sources.passes.end(self.port.run.acked(), was_long=was_long):
            self._halvings = min(self._halvings + checkpoints.sources.passes.differed, MOST_HALVINGS)
            self._outages = 0
            checkpoints.waits.end_outage()
            return
        self._outages += 1
        if self._outages > 1:
            checkpoints.waits.note_outage(checkpoints.sources.passes.describe_failures())
        await asyncio.sleep(OUTAGE_BACKOFF.pause_secs(self._outages))

    async def _order(self, orders: Sequence[asyncio.Future[None]]) -> Event:
        """Wait until every stateful task has carried out its order. Return FAILED as soon as a task dies, or if one has died before."""
        checkpoints = self._checkpoints
        checkpoints.task_waits.note_ordered(dict(zip(orders, (task.task_id for task in checkpoints.tasks), strict=True)))
        lost = asyncio.get_running_loop().create_task(checkpoints.lost.wait())
        waits_for: set[asyncio.Future[Any]] = {lost, *orders}
        try:
            while len(waits_for) > 1 and not lost.done():
                done, waits_for = await asyncio.wait(waits_for, return_when=asyncio.FIRST_COMPLETED)
                if any(order.cancelled() or order.exception() is not None for order in done - {lost}):
                    return Event.FAILED
        finally:
            lost.cancel()
        return Event.FAILED if checkpoints.lost.is_set() else Event.DONE

    async def _wait_until_due(self) -> Event:
        """Wait for the interval. Wait less if a checkpoint is requested, or if all spouts of the user wait for one.

        A pass that repeats another one has the same rows, so it may take longer, because rows that have failed in it go their own ways.
        """
        checkpoints, is_repeating = self._checkpoints, self._checkpoints.sources.is_repeating
        interval = self.context.config.state_checkpoint_interval_ms / 1000 / 2**self._halvings
        interval *= LONGEST_REPETITION if is_repeating and not self._halvings else 1
        is_first = checkpoints.machine.record.txid < 0 and not is_repeating
        waited = 0.0
        await asyncio.sleep(0)  # if this step was the last one, `commit_all` must see it before a waiting request begins the next
        while (waited < interval or not checkpoints.has_work) and not checkpoints.lost.is_set():
            pause = min(LONGEST_PAUSE_SECS, interval - waited if waited < interval else interval)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            waited += pause
            if waited >= interval and not checkpoints.has_work:
                checkpoints.sources.poll_on()
            if is_first or self._wanted.is_set() or (self.port.run.all_spouts_wait and checkpoints.has_work):
                break
        if checkpoints.lost.is_set():
            checkpoints.lost.clear()
            return Event.FAILED
        self._wanted.clear()
        return Event.DUE
