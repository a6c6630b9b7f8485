"""Holds the provider, the record, the task states and the snapshot values for the checkpoints of one run.

A run opens its checkpoints before its tasks start, and closes them after its tasks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from engine.checkpoint.machine import Machine, Record, Step, settled_at_start
from engine.checkpoint.prepare import Prepare
from engine.checkpoint.record_entries import LEDGER, StoredEntries, checksums_entry, codec_entry, layout_entries, record_entry
from engine.checkpoint.sources import SourceLayout, Sources
from engine.checkpoint.status import CheckpointSnapshot
from engine.clock import Clock
from engine.config import Config
from engine.errors import ComponentError, EngineError, Failure, StateError, StateFenced, StateUnavailable
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


class StatefulTask(Protocol):
    """Barrier handler of a task with state."""

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
        places: Collection[StatePlace],
        sources: Collection[SourceLayout] = (),
    ) -> None:
        """places: one for each stateful task of the run. sources: those whose positions are in the checkpoint."""
        self._topology_name = topology_name
        self._provider = provider
        self._config = config
        self._clock = clock
        self._places = places
        self.sources = Sources(topology_name, sources, config.max_retries)
        self._ledger: Ledger | None = None
        self._states: dict[tuple[str, int], LayeredState[Any, Any]] = {}
        self._locks: dict[tuple[str, int], asyncio.Lock] = {}
        self._patience = StoreRetry(config.state_timeout_secs, self._note_trouble, store=store_named(config.state_provider))
        self.machine = Machine(Record())
        self._stores = self._sealed_stores(places, bare=False)
        self.lost = asyncio.Event()
        """Set when a stateful task has died. A recovery then begins at once."""
        self.prepare = Prepare(config.checkpoint_timeout_secs, config.message_timeout_secs, self.lost)
        self.begun = False
        """True once the machine has started. A new instance of the checkpoint spout continues with the same machine."""
        self._handlers: dict[tuple[str, int], StatefulTask] = {}
        self._idle = Waiters()
        self._port: RunPort | None = None
        self._end_run: Callable[[ComponentError], None] | None = None
        self._component_of: Mapping[int, str] = {}
        self._is_idle = False
        self.cause: str | None = None
        """Reason of the failure that the run recovers from, if it is known."""
        self._trouble: str | None = None
        self._troubles = 0
        """Number of store calls that are being retried."""
        self._waiting: dict[int, Collection[int]] = {}
        self._unsettled: set[int] = set()
        """Tasks that wait for their unsettled inputs before they forward the barrier."""
        self._ordered: dict[asyncio.Future[None], int] = {}
        """Orders of the current step, each with its task."""
        self._repeating: dict[int, str] = {}
        """The hook that each of these tasks repeats until it succeeds, and its last error, as text."""
        self._step_began = self._prepare_began = 0.0
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
        self.sources.most_owed_bytes = None if ledger.most_bytes is None else ledger.most_bytes // 2  # dead letters may have the other half
        self.sources.take_up(entries, has_state=stored.record.txid >= 0)
        record, layouts = stored.record, stored.layouts
        for place in self._places:
            _check_layout(place, layouts.get(place.component_id), self._topology_name)
        _warn_of_renamed({place.component_id for place in self._places}, set(layouts), self._topology_name)
        settled = settled_at_start(record)
        self.machine = Machine(settled)
        stores = self._stores = self._sealed_stores([*layouts.values(), *self._places], bare=stored.has_bare_blocks)
        for place in layouts.values():
            if place in self._places:
                continue  # the layout is unchanged, so each task loads its own deltas
            for index in range(place.tasks):
                of_task = replace(place, task_index=index)
                await self.patiently(partial(fold_committed, stores, codec, of_task, record.is_committed, record.decided_txid))
        checksums = checksums_entry(all_blocks=not stored.has_bare_blocks)
        written = {**record_entry(settled), **codec_entry(codec), **checksums, **layout_entries(self._places)}
        await self.patiently(lambda: ledger.write(written))

    def _sealed_stores(self, places: Iterable[StatePlace], *, bare: bool) -> SealedStores:
        keyed = {place.component_id: place.keyed for place in places}
        return SealedStores(self._provider, self._topology_name, keyed, txid=lambda: self.committed_txid, bare=bare)

    def join(self, port: RunPort, component_of: Mapping[int, str], end_run: Callable[[ComponentError], None]) -> None:
        """Store the run's port before the tasks begin. No spout is polled before every state is loaded."""
        self._port, self._component_of, self._end_run = port, component_of, end_run
        self.hold_spouts()

    def hold_spouts(self) -> None:
        """Pause the user's spouts during a recovery and while the store is unavailable, else resume them."""
        if self._port is not None:
            self._port.hold_spouts(on=not self.begun or self.machine.recovers or self._troubles > 0)

    async def close(self, *, fold: bool) -> None:
        """Close the states. fold: fold their committed changes, so that the next start is faster. A second call has no effect."""
        states, self._states = self._states, {}
        for state in states.values():
            try:
                await state.close(fold=fold)
            except StateError as error:
                LOGGER.warning("%s. Nothing is lost. The next start folds the committed changes.", error.message)

    # Calls of the machine and the tasks

    async def save(self) -> None:
        """Make the machine's record durable. The record decides which deltas are committed."""
        ledger = self._ledger
        assert ledger is not None
        entry = record_entry(self.machine.record)
        if self.machine.record.phase == "committing":
            entry |= self.sources.entries()  # this write is the commit point
        await self.patiently(lambda: ledger.write(entry), ends_run=ENGINE_WRITES)

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
                    lambda: self._stores.store(place.component_id, place.task_index, place.slots), ends_run=ENGINE_WRITES
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

    def note_handler(self, place: StatePlace, handler: StatefulTask) -> None:
        """Note the barrier handler of a task's new instance."""
        self._handlers[place.component_id, place.task_index] = handler

    @property
    def tasks(self) -> Collection[StatefulTask]:
        """The barrier handlers of all tasks with state."""
        return self._handlers.values()

    @property
    def has_work(self) -> bool:
        """True while a task has changes that no checkpoint has committed, a source has a new position, or an ack waits for a commit."""
        if self._port is not None and self._port.held_acks:
            return True
        return any(handler.has_work for handler in self._handlers.values()) or any(task.has_work for task in self.sources.tasks)

    @property
    def is_settled(self) -> bool:
        """True if nothing is left to commit, and no step is under way."""
        return self._is_idle and not self.has_work

    async def commit_all(self) -> None:
        """Request checkpoints until nothing is left to commit."""
        assert self._port is not None
        while not self.is_settled:
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
        self._waiting.clear()
        self._unsettled.clear()
        self._ordered.clear()
        self._is_idle = step is Step.IDLE
        if self._is_idle:
            self.cause = None
            self._idle.wake_all()

    def note_committed(self) -> None:
        """Note a complete checkpoint."""
        self._committed += 1
        self._last = ((self._clock.now() - self._prepare_began) * 1000, self._keys, self._bytes, self._alignment_secs * 1000)

    def note_recovery(self) -> None:
        """Note a failed step or a dead task."""
        self._recoveries += 1

    def note_cause(self, failure: Failure) -> None:
        """Note the reason of a failed step, for the failures of the rolled back tuples.

        The first reason is kept until the machine is idle.
        """
        if self.cause is None and failure.error:
            self.cause = failure.describe()

    def note_written(self, keys: int, size: int) -> None:
        """Note that a task has staged its delta."""
        self._keys += keys
        self._bytes += size

    def note_aligned(self, secs: float) -> None:
        """Note the time from the first to the last barrier of a task's alignment."""
        self._alignment_secs = max(self._alignment_secs, secs)

    def note_waiting(self, task: int, sources: Collection[int]) -> None:
        """Note the tasks whose barriers a task waits for. Empty: the task does not wait."""
        if sources:
            self._waiting[task] = sources
        else:
            self._waiting.pop(task, None)

    def note_unsettled(self, task: int, *, waits: bool) -> None:
        """Note that a task waits for its unsettled inputs before it forwards the barrier, or does no longer."""
        (self._unsettled.add if waits else self._unsettled.discard)(task)

    def note_ordered(self, orders: Collection["asyncio.Future[None]"]) -> None:
        """Note the orders of all tasks, in the order of `tasks`."""
        self._ordered = dict(zip(orders, (task.task_id for task in self.tasks), strict=True))

    def note_repeating(self, task: int, text: str | None) -> None:
        """Note the call of a hook that a task repeats, and its last error, as text. None: it repeats none."""
        if text is None:
            self._repeating.pop(task, None)
        else:
            self._repeating[task] = text

    def _note_trouble(self, text: str | None) -> None:
        self._troubles += -1 if text is None else 1
        self._trouble = text or (self._trouble if self._troubles else None)
        self.hold_spouts()

    def snapshot(self) -> CheckpointSnapshot:
        """Return the checkpoints for a snapshot."""
        machine = self.machine
        last_ms, keys, size, alignment_ms = self._last
        waits = [f"{self._named(task)} repeats {text}" for task, text in sorted(self._repeating.items())]
        waits += [
            f"{self._named(task)} waits for the barrier of {', '.join(map(self._named, sorted(sources)))}"
            for task, sources in sorted(self._waiting.items())
        ]
        waits += [f"{self._named(task)} waits until its inputs of before the barrier are settled" for task in sorted(self._unsettled)]
        busy = sorted({task for order, task in self._ordered.items() if not order.done()} - self._repeating.keys())
        waits += [f"{self._named(task)} has not done the step" for task in busy]
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
            waits_for=tuple(waits),
            owed=self.sources.waiting,
            held_acks=() if self._port is None else tuple(sorted(self._port.held_acks)),
        )

    def _named(self, task: int) -> str:
        return f"{self._component_of.get(task, 'task')}[{task}]"


def _warn_of_renamed(running: set[str], stored: set[str], topology_name: str) -> None:
    """Warn if bolts have no stored state and stored state has no bolt, because a bolt may have been renamed."""
    if (new := sorted(running - stored)) and (left := sorted(stored - running)):
        LOGGER.warning(
            "topology %r: nothing is stored for %s, which begins with an empty state. State is stored for %s, which is not a bolt of this "
            "run. A bolt finds its state by its id. If you renamed a bolt, give it its old id. To see all: python -m engine state list",
            topology_name, ", ".join(map(repr, new)), ", ".join(map(repr, left)),
        )  # fmt: skip


def _check_layout(place: StatePlace, stored: StatePlace | None, topology_name: str) -> None:
    """Raise StateError if stored rows would not be found with this layout (CP-9)."""
    if stored is None:
        return
    where = f"topology {topology_name!r}: bolt {place.component_id!r}"
    if stored.keyed != place.keyed:
        was, now = ("with", "without") if place.keyed else ("without", "with")
        text = f"{where}: its state was stored {was} another grouping than fields groupings, and the bolt is now {now} one"
        raise StateError(text, hint="Keep the groupings, or give the bolt another id.")
    if place.keyed and stored.key_groups != place.key_groups:
        text = f"{where}: its state was stored in {stored.key_groups} key groups, and this run has {place.key_groups}"
        raise StateError(text, hint=f"Run it with Config(key_groups={stored.key_groups}).")
    if not place.keyed and stored.tasks != place.tasks:
        text = (
            f"{where}: its state was stored by {stored.tasks} tasks, and the bolt now has {place.tasks}. "
            "Only fields groupings can redistribute keys"
        )
        raise StateError(text, hint=f"Keep parallelism={stored.tasks}, or feed the bolt by fields groupings alone.")
