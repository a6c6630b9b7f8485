"""The checkpoint spout carries out the steps of the state machine.

For each step it saves the record, sends a barrier, and waits for the result (CP-3).
"""

import asyncio
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from engine.api import Fields, OutputFields, Spout, SpoutExhausted
from engine.backoff import Backoff
from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.machine import Event, Step
from engine.names import CHECKPOINT_STREAM
from engine.topology.task_port import SpoutPortUser

BARRIER_FIELDS: Final = Fields("round", "txid", "action")
LONGEST_PAUSE_SECS: Final = 0.1
"""Longest pause between two checks whether a checkpoint is due."""
BACKOFF: Final = Backoff(0.1, 5.0)
"""Pauses between the attempts of a recovery. The first attempt is immediate."""
EARLY: Final = frozenset({"full", "exhausted", "drained", "waited_for"})
"""Statuses of a spout that may wait for a commit. If every spout has such a status, a checkpoint begins before its interval is over."""


class CheckpointSpout(Spout, SpoutPortUser):
    """Runs the checkpoints of a run. A background coroutine emits the barriers as control tuples. Polls emit nothing."""

    output_fields: OutputFields = MappingProxyType({CHECKPOINT_STREAM: BARRIER_FIELDS})

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._verdict: asyncio.Future[Event] | None = None
        self._wanted = asyncio.Event()

    def open(self) -> None:
        self.port.run.on_commit_request(self._wanted.set)
        self.context.create_task(self._drive())

    @property
    def progress(self) -> int:
        """Return the newest committed txid. An instance that dies before its next complete checkpoint has made no progress."""
        return self._checkpoints.committed_txid

    def next_tuple(self) -> None:
        raise SpoutExhausted

    def ack(self, message_id: object) -> None:
        self._judge(message_id, Event.DONE)

    def fail(self, message_id: object) -> None:
        if self.context.failure is not None:
            self._checkpoints.note_cause(self.context.failure)
        self._judge(message_id, Event.FAILED)

    def _judge(self, round_: object, event: Event) -> None:
        """Note the result of the current barrier. Results of older rounds are ignored."""
        if round_ == self._checkpoints.machine.record.round and self._verdict is not None and not self._verdict.done():
            self._verdict.set_result(event)

    async def _drive(self) -> None:
        checkpoints, machine = self._checkpoints, self._checkpoints.machine
        event = Event.BEGIN if machine.step is Step.IDLE and not checkpoints.begun else Event.FAILED
        checkpoints.begun = True
        failures = 0
        while True:
            before = machine.step
            machine.apply_event(event)
            checkpoints.note_event()
            failures = failures + 1 if event is Event.FAILED else 0
            if event is Event.FAILED:
                checkpoints.note_recovery()
                if failures > 1:
                    await asyncio.sleep(BACKOFF.pause_secs(failures - 1))
            checkpoints.hold_spouts()
            await checkpoints.save()
            if before is Step.COMMIT and event is Event.DONE:
                checkpoints.note_committed()
            checkpoints.note_step()
            event = await (self._wait_until_due() if machine.step is Step.IDLE else self._send())

    async def _send(self) -> Event:
        """Send the barrier of the step, and wait until its tree is settled or a task dies."""
        checkpoints, machine = self._checkpoints, self._checkpoints.machine
        # A recovery initialises every task, so an earlier death needs no action. In other steps, a death must fail the step.
        if machine.recovers:
            checkpoints.lost.clear()
        self._verdict = asyncio.get_running_loop().create_future()
        record = machine.record
        self.port.emit_control(
            (record.round, record.txid, machine.action),
            record.round,
            CHECKPOINT_STREAM,
            timeout_secs=self.context.config.checkpoint_timeout_secs,
        )
        lost = asyncio.get_running_loop().create_task(checkpoints.lost.wait())
        lost.add_done_callback(lambda _: self._judge(record.round, Event.FAILED))
        try:
            return await self._verdict
        finally:
            lost.cancel()

    async def _wait_until_due(self) -> Event:
        """Wait for the interval. Wait less if a checkpoint is requested, or if all spouts of the user wait for one."""
        checkpoints = self._checkpoints
        interval = self.context.config.state_checkpoint_interval_ms / 1000
        waited = 0.0
        await asyncio.sleep(0)  # if this step was the last one, `commit_all` must see it before a waiting request begins the next
        while (waited < interval or not checkpoints.has_work) and not checkpoints.lost.is_set():
            pause = min(LONGEST_PAUSE_SECS, interval - waited if waited < interval else interval)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            waited += pause
            if checkpoints.machine.record.txid < 0 or self._wanted.is_set() or (self._all_wait() and checkpoints.has_work):
                break
        if checkpoints.lost.is_set():
            checkpoints.lost.clear()
            return Event.FAILED
        self._wanted.clear()
        return Event.DUE

    def _all_wait(self) -> bool:
        statuses = self.port.run.spout_status().values()
        return bool(statuses) and EARLY.issuperset(statuses)
