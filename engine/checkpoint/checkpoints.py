"""Provider, record, task states and snapshot of the checkpoints of one run, which opens them before its tasks and closes them after."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from engine.checkpoint.given_up import GivenUpRow, Letters
from engine.checkpoint.layout import Layout, check_layout, warn_of_renamed
from engine.checkpoint.machine import Machine, Record, Step, settled_at_start
from engine.checkpoint.one_by_one import ALONE
from engine.checkpoint.prepare import Prepare
from engine.checkpoint.publish_deaths import PublishDeaths
from engine.checkpoint.record_entries import (
    LEDGER,
    Refused,
    StoredEntries,
    checksums_entry,
    codec_entry,
    layout_entries,
    output_entries,
    record_entry,
    refused_entry,
    stager_entries,
)
from engine.checkpoint.sources import Sources
from engine.checkpoint.staged_output import StagedOutputs, StagedTask, open_outputs
from engine.checkpoint.status import CheckpointSnapshot
from engine.checkpoint.step_waits import StepWaits, TaskWaits
from engine.clock import Clock
from engine.config import Config
from engine.errors import ComponentError, EngineError, StateError, StateFenced, StateUnavailable
from engine.log import EngineLogger
from engine.names import CHECKPOINT_COMPONENT
from engine.raised import raised_text
from engine.state import LayeredState, Ledger, SealedStores, StatePlace, StateProvider, StoreRetry, codec_named, fold_committed
from engine.state.retry import store_named
from engine.topology.task_port import RunPort
from engine.waiters import Waiters

THE_STORES: Final = (StateUnavailable, StateFenced)
"""Errors of the store, which end the run. Any other StateError may come from a value of the user, and ends only the instance."""
ENGINE_WRITES: Final = (StateError,)
"""Errors of records that the engine writes itself. Restarting a task cannot repair them, so they end the run."""
LOGGER: Final = EngineLogger("engine.checkpoint")
_T = TypeVar("_T")


class DurableTask(Protocol):
    """Barrier handler of a task that stores something at each checkpoint: a state, or the output of a committer."""

    @property
    def task_id(self) -> int: ...

    @property
    def has_work(self) -> bool: ...

    def order_commit(self, txid: int) -> "asyncio.Future[None]": ...

    def order_recovery(self, committing: int | None) -> "asyncio.Future[None]": ...


class Checkpoints:
    """State that the checkpoint spout and the barrier handlers of a run share. Only the loop's thread uses this object."""

    def __init__(
        self,
        topology_name: str,
        provider: StateProvider,
        config: Config,
        clock: Clock,
        layout: Layout,
    ) -> None:
        self._topology_name = topology_name
        self._provider = provider
        self._config = config
        self._clock = clock
        self._layout = layout
        self.outputs: dict[str, StagedOutputs] = {}  # by component id
        self.sources = Sources(topology_name, layout.sources, config.max_retries, Letters(topology_name, config, clock.wall))
        self._ledger: Ledger | None = None
        self._unsaved: dict[str, object] = {}  # of a save that the death of the checkpoint spout has interrupted; the next one goes on
        self.publish_deaths = PublishDeaths(topology_name, config.max_retries, self._write)
        self._states: dict[tuple[str, int], LayeredState[Any, Any]] = {}
        self._locks: dict[tuple[str, int], asyncio.Lock] = {}
        self._patience = StoreRetry(config.state_timeout_secs, self._note_trouble, store=store_named(config.state_provider))
        self.machine = Machine(Record())
        self.stores = self._sealed_stores(layout.places, bare=False)
        self.lost = asyncio.Event()
        """Set when a stateful task has died. A recovery then begins at once."""
        self.prepare = Prepare(config.checkpoint_timeout_secs, config.message_timeout_secs, self.lost)
        self.begun = False
        """True once the machine has started. A new instance of the checkpoint spout continues with the same machine."""
        self._handlers: dict[int, DurableTask] = {}  # by task id
        self._unwritten: dict[int, Exception] = {}
        """Errors of writes that have made a PREPARE fail, by task id."""
        self._idle = Waiters()
        self._port: RunPort | None = None
        self._end_run: Callable[[ComponentError], None] | None = None
        self._is_idle = False
        self.cause: str | None = None
        """Reason of the failure that the run recovers from, if it is known."""
        self._trouble: str | None = None
        self._troubles = 0  # store calls that are being retried
        self.task_waits = TaskWaits(self.prepare)
        self.waits = StepWaits(config.state_checkpoint_interval_ms / 1000, lambda: self.cause or self.task_waits.first, self.hold_spouts)
        self._step_began = self._prepare_began = 0.0
        self._committed_at = clock.now()
        self._committed = self._recoveries = 0
        self._keys = self._bytes = 0
        self._alignment_secs = 0.0
        self._last = (None, 0, 0, 0.0)  # type: tuple[float | None, int, int, float]

    # Open and close

    async def open(self) -> None:
        """Decide the result of an interrupted checkpoint, before any task runs (CP-7). The provider is open already."""
        ledger = self._ledger = self._provider.ledger(LEDGER)
        await self.patiently(ledger.claim)
        entries = await self.patiently(ledger.read)
        codec = codec_named(self._config.state_codec)
        stored = StoredEntries(entries, self._topology_name)
        stored.check_whole()
        stored.check_codec(codec)
        stored.check_committers(self._layout.committers)
        self.sources.take_up(entries, has_state=stored.record.decided_txid >= 0, most_bytes=ledger.most_bytes)
        record, layouts = stored.record, stored.layouts
        for place in self._layout.places:
            check_layout(place, layouts.get(place.component_id), self._topology_name)
        warn_of_renamed({place.component_id for place in self._layout.places}, set(layouts), self._topology_name)
        settled = settled_at_start(record)
        self.machine = Machine(settled)
        places = [*layouts.values(), *self._layout.places]
        stores = self.stores = self._sealed_stores(places, bare=stored.has_bare_blocks, others=stored.stagers)
        self.outputs = await open_outputs(stored, self._layout.committers, stores, self.patiently)
        for place in layouts.values():
            if place in self._layout.places:
                continue  # the layout is unchanged, so each task loads its own deltas
            for index in range(place.tasks):
                of_task = replace(place, task_index=index)
                await self.patiently(partial(fold_committed, stores, codec, of_task, record.is_committed, record.decided_txid))
        checksums = checksums_entry(all_blocks=not stored.has_bare_blocks)
        rows = {ALONE: None, **self.sources.counts.at_start()} if ALONE in entries else {}
        rows |= output_entries(dict.fromkeys(stored.outputs.keys() - self._layout.committers.keys()))  # published, and gone
        rows |= stager_entries({**dict.fromkeys(stored.stagers), **self._layout.committers})  # what they have left is dropped by now
        rows |= self.publish_deaths.take_up(stored, [each.component_id for each in self.outputs.values() if each.has_unpublished])
        written = {**rows, **record_entry(settled), **codec_entry(codec), **checksums, **layout_entries(self._layout.places)}
        await self.patiently(partial(ledger.write, written))

    def _sealed_stores(self, places: Iterable[StatePlace], *, bare: bool, others: Iterable[str] = ()) -> SealedStores:
        """others: committers of earlier runs."""
        keyed = dict.fromkeys([*others, *self._layout.committers], False) | {place.component_id: place.keyed for place in places}
        return SealedStores(self._provider, self._topology_name, keyed, txid=lambda: self.committed_txid, bare=bare)

    def join(self, port: RunPort, component_of: Mapping[int, str], end_run: Callable[[ComponentError], None]) -> None:
        """Store the run's port before the tasks begin. No spout is polled before every state is loaded."""
        self._port, self._end_run = port, end_run
        self.task_waits.join(component_of)
        self.sources.one_by_one.join(self.hold_spouts, self._write)
        self.hold_spouts()

    def hold_spouts(self) -> None:
        """Pause the user's spouts during a recovery, while the store is unavailable and while a checkpoint is late, else resume them."""
        if self._port is not None:
            self._port.hold_spouts(on=self._held_because() is not None)

    def _held_because(self) -> str | None:
        """Return the reason for which the spouts are not polled."""
        if self._troubles > 0:
            return f"the state store is unavailable: {self._trouble}"
        if not self.begun or self.machine.recovers:
            return "the states go back to the last commit" if self._recoveries else "the states are loaded"
        if self.sources.one_by_one.is_under_way:
            return self.sources.one_by_one.reason
        return f"the checkpoint takes longer than {self.waits.late_secs:g} s" if self.waits.is_late else None

    async def close(self, *, fold: bool) -> None:
        """Close the states. fold: fold their committed changes, so that the next start is faster. A second call has no effect."""
        self.waits.close()
        with suppress(StateError):  # then the next process only believes that this one has died
            if fold and (left := self.sources.one_by_one.clean_entries()):
                await self._write(left)
            if self._ledger is not None and (ended := self.publish_deaths.end_entries()):
                await self._ledger.write(ended)  # once, because the run may end because the store is away
        states, self._states = self._states, {}
        for state in states.values():
            try:
                await state.close(fold=fold)
            except StateError as error:
                LOGGER.warning("%s. Nothing is lost. The next start folds the committed changes.", error.message)

    # Calls of the machine and the tasks

    async def save(self) -> None:
        """Make the machine's record durable. The record decides which deltas are committed."""
        self._unsaved |= record_entry(self.machine.record) | self.sources.changes(self.machine)
        if self.machine.step is Step.COMMIT:  # a recovery writes no layouts of outputs, because another run may have staged them
            self._unsaved |= output_entries(self._layout.committers)
        self._unsaved |= self.publish_deaths.committed_entries() if self.machine.record.phase == "committed" else {}
        await self._write(dict(self._unsaved))
        self._unsaved = {}

    def leave_out(self, component_id: str, output: StagedTask, rows: Mapping[int, GivenUpRow]) -> None:
        """Make dead letters of rows that a committer cannot publish, with the next `output_to_publish` (EO-9)."""
        assert self.sources.letters is not None
        letters = self.sources.letters.refuse(output.txid, output.round, rows.values())
        refused = refused_entry(component_id, output.task_index, Refused(output.txid, output.round, output.left_out.union(rows)))
        self.outputs[component_id].leave_out(output.task_index, rows, letters | refused)

    async def output_to_publish(self, component_id: str, task_index: int) -> StagedTask:
        """Return the staged output of a task, when the rows that it leaves out are dead letters."""
        outputs = self.outputs[component_id]
        if (output := outputs.of(task_index)).unwritten:
            await self._write(output.unwritten)
            outputs.note_written(output)
        return outputs.of(task_index)

    async def _write(self, entries: Mapping[str, object]) -> None:
        assert self._ledger is not None
        await self.patiently(partial(self._ledger.write, entries), ends_run=ENGINE_WRITES)

    async def patiently(self, work: Callable[[], Awaitable[_T]], *, ends_run: tuple[type[StateError], ...] = THE_STORES) -> _T:
        """Call the store, and retry while it is unavailable.

        After `state_timeout_secs`, or after an error of a class in `ends_run`, end the run.
        """
        try:
            return await self._patience.call_with_retries(work)
        except StateError as error:
            if isinstance(error, ends_run):
                self._fail_run(error, error.message, error.hint)
            raise
        except Exception as error:
            what = f"the state provider raised {raised_text(error)}"
            self._fail_run(error, what, "A state provider raises StateUnavailable for temporary errors, and StateError for all others.")
            raise

    def fail_run(self, error: BaseException) -> None:
        """End the run with an error that no recovery can repair."""
        if isinstance(error, EngineError):
            self._fail_run(error, error.message, error.hint)
        else:
            self._fail_run(error, f"raised {raised_text(error)}", None)

    def _fail_run(self, error: BaseException, message: str, hint: str | None) -> None:
        if self._end_run is not None:
            self._end_run(ComponentError(CHECKPOINT_COMPONENT, None, error, message=message, hint=hint))

    async def state_of(
        self, place: StatePlace, key_of: Callable[[Any], object] | None, *, opens_values: bool = True
    ) -> LayeredState[Any, Any]:
        """Return the state of a task. The first call loads it, and checks all of it (CP-11). opens_values: as in `LayeredState`."""
        name = (place.component_id, place.task_index)
        async with self._locks.setdefault(name, asyncio.Lock()):
            state = self._states.get(name)
            if state is None:
                store = await self.patiently(
                    lambda: self.stores.store(place.component_id, place.task_index, place.slots), ends_run=ENGINE_WRITES
                )
                codec = codec_named(self._config.state_codec)
                cache_keys = self._config.state_cache_keys
                state = LayeredState(store, codec, place, key_of=key_of, cache_keys=cache_keys, opens_values=opens_values)
                record = self.machine.record
                await self.patiently(partial(state.load, record.decided_txid, record.is_committed), ends_run=ENGINE_WRITES)
                await self.patiently(store.check, ends_run=ENGINE_WRITES)
                await self.patiently(state.check_values, ends_run=ENGINE_WRITES)
                self._states[name] = state
        return state

    @property
    def committed_txid(self) -> int:
        """The newest txid whose COMMIT every task has executed."""
        record = self.machine.record
        return record.txid if record.phase == "committed" else record.txid - 1

    def note_handler(self, handler: DurableTask) -> None:
        """Note the barrier handler of a task's new instance."""
        self._handlers[handler.task_id] = handler

    @property
    def tasks(self) -> Collection[DurableTask]:
        """The barrier handlers of all tasks that store something."""
        return self._handlers.values()

    @property
    def has_work(self) -> bool:
        """True while a task has changes that no checkpoint has committed, a source has a new position, or an ack waits for a commit."""
        if (self._port is not None and self._port.held_acks) or self.sources.passes.rowless.has_work:
            return True
        return any(each.has_work for each in self.tasks) or any(task.has_work for task in self.sources.tasks)

    @property
    def is_settled(self) -> bool:
        """True if nothing is left to commit, and no step is under way."""
        return self._is_idle and not self.has_work

    async def commit_all(self) -> None:
        """Request checkpoints until nothing is left to commit. After a recovery, return if the sources have rows to repeat."""
        assert self._port is not None
        before = self._recoveries
        while not self.is_settled and (before == self._recoveries or self._port.all_spouts_wait):
            if self.has_work:
                self._port.request_commit()
            await self._idle.wait()

    def note_lost_task(self) -> None:
        """Note that a stateful task has died."""
        self.lost.set()

    # Values for snapshots

    def note_event(self) -> None:
        """Note an event of the machine. The machine's new record is not saved yet."""
        self._is_idle = False

    def note_step(self) -> None:
        """Note a saved step. A new step begins, or the last step is done."""
        now, step = self._clock.now(), self.machine.step
        if step is Step.PREPARE:
            self._prepare_began = now
            self._keys = self._bytes = 0
            self._alignment_secs = 0.0
        self._step_began = now
        self.task_waits.begin_step()
        self._is_idle = step is Step.IDLE
        self.waits.begin_step(step)
        if self._is_idle:
            self.cause = None
            self._idle.wake_all()

    def note_committed(self) -> None:
        """Note a complete checkpoint."""
        self._committed += 1
        self._committed_at = self._clock.now()
        self.waits.end_outage()
        self._last = ((self._clock.now() - self._prepare_began) * 1000, self._keys, self._bytes, self._alignment_secs * 1000)

    def note_recovery(self) -> None:
        """Note a failed step or a dead task."""
        self._recoveries += 1

    def note_cause(self, text: str) -> None:
        """Note the reason of a failed step, for the failures of the rolled back tuples.

        The first reason is kept until the machine is idle.
        """
        if self.cause is None:
            self.cause = text

    def note_unwritten(self, task_id: int, round_: int, error: Exception) -> None:
        """Note that a task could not write for a PREPARE, which fails. The task dies of the error in the recovery (CP-4)."""
        if self.prepare.note_failed(round_):
            self._unwritten[task_id] = error

    def raise_unwritten(self, task_id: int) -> None:
        """Raise the error of a write that has made the PREPARE fail. Only the first call raises it."""
        if (error := self._unwritten.pop(task_id, None)) is not None:
            raise error

    def note_written(self, keys: int, size: int) -> None:
        """Note that a task has staged its delta."""
        self._keys += keys
        self._bytes += size

    def note_aligned(self, secs: float) -> None:
        """Note the time from the first to the last barrier of a task's alignment."""
        self._alignment_secs = max(self._alignment_secs, secs)

    def _note_trouble(self, text: str | None) -> None:
        self._troubles += -1 if text is None else 1
        self._trouble = text or (self._trouble if self._troubles else None)
        self.hold_spouts()

    def snapshot(self) -> CheckpointSnapshot:
        """Return the checkpoints for a snapshot."""
        machine = self.machine
        last_ms, keys, size, alignment_ms = self._last
        return CheckpointSnapshot(
            step=machine.step.value,
            step_secs=self._clock.now() - self._step_began,
            txid=self.committed_txid,
            round=machine.record.round,
            committed=self._committed,
            recoveries=self._recoveries,
            last_ms=last_ms,
            last_keys=keys,
            last_bytes=size,
            last_alignment_ms=alignment_ms,
            trouble=self._trouble,
            waits_for=tuple(self.task_waits.texts()),
            owed=sum(task.waiting for task in self.sources.tasks),
            held_acks=() if self._port is None else tuple(sorted(self._port.held_acks)),
            since_commit_secs=self._clock.now() - self._committed_at,
            held=self._held_because(),
            cause=self.cause,
        )
