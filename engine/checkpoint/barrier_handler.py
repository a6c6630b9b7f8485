"""Handles the barriers of one bolt instance, and for a stateful bolt also commits and recoveries (CP-1, CP-2, CP-4).

Every handler waits until the barrier has arrived from all sources, and then forwards the barrier. The handler of a stateful bolt freezes
its changes in between. Commits and recoveries are orders: they come directly, ahead of all inputs.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, Final, TypeAlias

from engine.api import TaskContext, Tuple
from engine.backoff import Backoff
from engine.checkpoint.alignment import Alignment, Barrier
from engine.checkpoint.bolts import KeepsState
from engine.checkpoint.checkpoints import Checkpoints
from engine.errors import ERROR, Failure, FatalError, StateError, with_hint
from engine.names import CHECKPOINT_COMPONENT, CHECKPOINT_STREAM
from engine.raised import headline, own_text, raised_text
from engine.safe_text import safe_repr
from engine.state import LayeredState, StatePlace
from engine.topology.task_port import BoltPort, ControlHandler, RemoteInstance
from engine.waits import waiting_for

SETTLE_BACKOFF: Final = Backoff(0.0005, 0.02)
"""Pauses between two looks whether the inputs of before a barrier are settled."""
WARN_SECS: Final = 10.0
"""Time that a checkpoint waits for unsettled inputs of a bolt before the bolt is warned of."""
LONGEST_TUPLE: Final = 200
HOOK_BACKOFF: Final = Backoff(0.5, 5.0)
"""Pauses between the calls of a `pre_commit` that raises. At most 5 calls fall into 10 s, so every error is reported."""
Write: TypeAlias = Callable[[], Awaitable[tuple[int, int]]]
"""Writes what a task has frozen. Returns the number of its keys and of its bytes."""


class BarrierHandler(ControlHandler):
    """Waits for the barriers of a stateless bolt, and forwards the complete barrier. Base of the handler of stateful bolts."""

    def __init__(self, checkpoints: Checkpoints, bolt: Any, context: TaskContext, port: BoltPort, sources: frozenset[int]) -> None:
        """sources: the task ids from which each barrier must arrive."""
        self._checkpoints = checkpoints
        self._bolt = bolt
        self._context = context
        self._port = port
        self._alignment = Alignment(sources)
        self._held: set[int] = set()
        self._waiting: asyncio.Task[None] | None = None
        """Waits for the inputs of before the barrier."""
        self._aligning_since = 0.0

    async def begin(self, *, restarted: bool) -> None:
        """Start before `prepare`. restarted: an earlier instance has died, so release the sources that the earlier instance held."""
        if restarted:
            for source in self._alignment.sources:
                self._port.release(source)
            self._checkpoints.prepare.note_new_instance(self._context.task_id)
        if self._notes_rowless:
            self._checkpoints.sources.passes.rowless.ports[self._context.task_id] = self._port
            self._port.on_rootless_failure(self._note_rootless_failure)
            self._refuse_rowless()

    @property
    def _notes_rowless(self) -> bool:
        return self._context.component_id in self._checkpoints.sources.passes.rowless.bolts

    def _refuse_rowless(self) -> None:
        """Let the inputs that are given up after deaths or timeouts reach the bolt no more, until a commit."""
        if self._notes_rowless:
            self._port.refuse(self._checkpoints.sources.passes.rowless.refused_by(self._context.component_id))

    def _note_rootless_failure(self, tup: Tuple, failure: Failure) -> None:
        """Report an input that no source knows of, so that its interval is repeated (EO-6)."""
        if not tup.is_tick:
            self._checkpoints.sources.passes.rowless.note_failed(self._context.task_id, self._port, tup, failure)

    @property
    def survives_rollback(self) -> bool:
        """True if the bolt says so, or has a `pre_rollback` that forgets its rows. An instance in another process does not survive."""
        if isinstance(self._bolt, RemoteInstance):
            return False
        return getattr(self._bolt, "survives_rollback", False) is True or self._pre_rollback is not None

    @property
    def _pre_rollback(self) -> Callable[[], object] | None:
        """The hook of the bolt. None if it has none of its own."""
        own = getattr(type(self._bolt), "pre_rollback", None)
        return None if own is None or own is KeepsState.pre_rollback else self._bolt.pre_rollback

    async def forget_rows(self) -> None:
        """Call `pre_rollback`."""
        if self._pre_rollback is not None:
            await self._call_hook(self._pre_rollback)

    def go_back(self) -> None:
        """Forget the round of before the rollback."""
        self._refuse_rowless()
        self._alignment.come.clear()
        self._held.clear()
        if self._waiting is not None:
            self._waiting.cancel()
        self._checkpoints.task_waits.note_aligning(self._context.task_id, ())

    async def on_control(self, tup: Tuple) -> None:
        """Handle a barrier."""
        if not self._alignment.come:
            self._aligning_since = self._context.clock.now()
        is_complete = self._alignment.arrives(tup.source_task)
        self._checkpoints.task_waits.note_aligning(self._context.task_id, self._alignment.waits_for())
        if not is_complete:
            # The checkpoint spout is never held, because it has no data that could wait.
            if tup.source_component != CHECKPOINT_COMPONENT:
                self._held.add(tup.source_task)
                self._port.hold(tup.source_task)
            return
        self._checkpoints.note_aligned(self._context.clock.now() - self._aligning_since if self._held else 0.0)
        barrier = Barrier(*tup.values)
        if self._checkpoints.sources and self._port.has_unsettled:
            self._port.hold_all()  # those that send no barrier, too, so that nothing new begins
            self._waiting = self._context.create_task(self._prepare_when_settled(barrier))
        else:
            await self._prepare(barrier)

    async def _prepare_when_settled(self, barrier: Barrier) -> None:
        """Wait for the inputs of before the barrier. What the bolt still emits for them belongs before the barrier, too (EO-3)."""
        self._checkpoints.task_waits.note_unsettled(self._context.task_id, waits=True)
        warning = asyncio.get_running_loop().call_later(WARN_SECS, self._warn_of_unsettled)
        try:
            for pause_secs in SETTLE_BACKOFF.pauses():
                if not self._port.has_unsettled:
                    break
                await asyncio.sleep(pause_secs)
        finally:
            warning.cancel()
        self._checkpoints.task_waits.note_unsettled(self._context.task_id, waits=False)
        await self._port.between_calls(lambda: self._prepare_and_release(barrier))

    async def _prepare_and_release(self, barrier: Barrier) -> None:
        await self._prepare(barrier)
        self._port.release_all()

    def _warn_of_unsettled(self) -> None:
        self._port.warn(
            f"bolt {self._context.component_id!r} (task {self._context.task_id}): a checkpoint has waited {WARN_SECS:g} s until the bolt "
            f"acks or fails {safe_repr(self._port.oldest_unsettled, LONGEST_TUPLE)}. Its sources wait, too. A bolt that keeps inputs for "
            "long should put them into its state and ack them. Else run it with Config(processing_guarantee='at_least_once')."
        )

    async def _prepare(self, barrier: Barrier) -> None:
        """Act on a complete barrier."""
        self._forward(barrier)
        self._checkpoints.prepare.note_done(self._context.task_id, barrier.round)

    def _forward(self, barrier: Barrier) -> None:
        self._checkpoints.sources.passes.rowless.note_barrier(self._context.task_id, barrier.round)
        self._refuse_rowless()
        self._port.emit_control(tuple(barrier), None, CHECKPOINT_STREAM)
        for source in self._held:
            self._port.release(source)
        self._held.clear()

    async def _call_hook(self, hook: Callable[..., object], *args: object) -> None:
        """Call a hook of the user. Raises TimeoutError after `checkpoint_timeout_secs`."""
        limit = self._context.config.checkpoint_timeout_secs
        name = getattr(hook, "__name__", "a hook")
        try:
            with waiting_for(f"{name}() of bolt {self._context.component_id!r}"):
                async with asyncio.timeout(limit) as scope:
                    await self._port.call(hook, *args)
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise TimeoutError(f"{name}() did not return within {limit:g} s (checkpoint_timeout_secs), and was cancelled") from error


class DurableBarrierHandler(BarrierHandler):
    """Handles the barriers of a bolt that stores something at each checkpoint, and the orders of the checkpoint spout."""

    def __init__(self, checkpoints: Checkpoints, bolt: Any, context: TaskContext, port: BoltPort, sources: frozenset[int]) -> None:
        super().__init__(checkpoints, bolt, context, port, sources)
        self._is_fresh = True
        """True until the first recovery of the instance, before which it gets no tuple."""
        self._is_initialised = False
        """True from a recovery until the next rollback."""
        self._has_recovered = False
        """True after the first recovery of the instance."""
        self._last_refusal: str | None = None
        """The call that is repeated, and its last error."""

    async def begin(self, *, restarted: bool) -> None:
        """Let no data tuple pass before the recovery. Ask for one if an instance has died."""
        await super().begin(restarted=restarted)
        self._checkpoints.note_handler(self)
        self._port.close_gate()
        if restarted:
            self._checkpoints.note_lost_task()

    @property
    def survives_rollback(self) -> bool:
        """True for an instance that has had no row yet, too, as after the death that is the reason of the rollback."""
        return self._is_fresh or (self._has_recovered and super().survives_rollback)

    async def forget_rows(self) -> None:
        """Call `pre_rollback`, unless the instance has had no row yet."""
        if not self._is_fresh:
            await super().forget_rows()

    def go_back(self) -> None:
        """Forget the round of before the rollback, and let no data tuple pass before the recovery."""
        super().go_back()
        self._is_initialised = False
        self._port.close_gate()

    async def _prepare(self, barrier: Barrier) -> None:
        """Freeze what the checkpoint stores, and forward the barrier. Write it while the next tuples are processed (CP-7)."""
        if not self._is_initialised:
            self._checkpoints.prepare.note_failed(barrier.round)
            return
        try:
            write = await self._freeze(barrier)
        except Exception as raised:
            self._note_cause(raised)
            raise
        self._forward(barrier)
        self._context.create_task(self._write(write, barrier.round))

    async def _write(self, write: Write, round_: int) -> None:
        try:
            keys, size = await write()
        except Exception as error:  # noqa: BLE001 - raised by `_recover`, because background work may raise without a death
            told = with_hint(error.message, error.hint) if isinstance(error, StateError) else own_text(error)
            self._checkpoints.note_cause(self._failure(ERROR, told).describe())
            self._checkpoints.note_unwritten(self._context.task_id, round_, error)
            return
        self._checkpoints.note_written(keys, size)
        self._checkpoints.prepare.note_done(self._context.task_id, round_)

    @abstractmethod
    async def _freeze(self, barrier: Barrier) -> Write:
        """Freeze what the checkpoint stores."""

    # Orders of the checkpoint spout

    @property
    def task_id(self) -> int:
        """The task."""
        return self._context.task_id

    @property
    @abstractmethod
    def has_work(self) -> bool:
        """True while the task has something that no checkpoint has committed."""

    def order_commit(self, txid: int) -> "asyncio.Future[None]":
        """Commit what is frozen between two calls."""
        return self._port.between_calls(lambda: self._commit(txid))

    async def _commit(self, txid: int) -> None:
        if not self._is_initialised:
            return  # the instance is new, so its recovery commits
        await self._commit_frozen(txid)
        self._port.note_progress()

    @abstractmethod
    async def _commit_frozen(self, txid: int) -> None:
        """Commit what is frozen."""

    def order_recovery(self, committing: int | None) -> "asyncio.Future[None]":
        """Go back to the last commit, and let the tuples pass. committing: txid whose `pre_commit` may not have succeeded everywhere."""
        return self._port.between_calls(lambda: self._recover(committing))

    async def _recover(self, committing: int | None) -> None:
        self._is_fresh = False
        self._checkpoints.raise_unwritten(self._context.task_id)
        try:
            await self._restore(committing)
        except Exception as raised:
            self._note_cause(raised)
            raise
        self._is_initialised = self._has_recovered = True
        self._port.open_gate()

    @abstractmethod
    async def _restore(self, committing: int | None) -> None:
        """Go back to the last commit. committing: complete the commit of this txid first."""

    async def _repeat(self, call: Callable[[], Awaitable[None]], name: str) -> None:
        """Call until it succeeds. The commit is decided, and what the call commits elsewhere must not be lost (CP-4, EO-9)."""
        with waiting_for(f"{name.partition('(')[0]}() of bolt {self._context.component_id!r}", detail=lambda: self._last_refusal):
            try:
                await self._call_until_done(call, name)
            finally:
                self._note_repeating(None)

    async def _call_until_done(self, call: Callable[[], Awaitable[None]], name: str) -> None:
        for pause_secs in HOOK_BACKOFF.pauses():
            try:
                await call()
                return
            except FatalError:
                raise
            except Exception as error:  # noqa: BLE001 - the user's own
                self._note_repeating(f"{name}, which raised {headline(error)}")
                self._port.report(error, f"{name} is called again in {pause_secs:g} s, until it succeeds; the inputs wait")
            await asyncio.sleep(pause_secs)

    def _note_repeating(self, text: str | None) -> None:
        self._last_refusal = text
        self._checkpoints.task_waits.note_repeating(self._context.task_id, text)

    def _note_cause(self, raised: Exception) -> None:
        self._checkpoints.note_cause(self._failure(ERROR, raised_text(raised)).describe())

    def _failure(self, reason: Any, error: str | None = None) -> Failure:
        return Failure(reason, self._context.component_id, self._context.task_id, error)


class StatefulBarrierHandler(DurableBarrierHandler):
    """Handles the barriers of a stateful bolt. Keeps its state."""

    def __init__(
        self, checkpoints: Checkpoints, bolt: Any, context: TaskContext, port: BoltPort, sources: frozenset[int], place: StatePlace
    ) -> None:
        super().__init__(checkpoints, bolt, context, port, sources)
        self._place: Final = place
        self._key_of = None if getattr(bolt.key_of, "__func__", None) is KeepsState.key_of else bolt.key_of
        self._state: LayeredState[Any, Any] | None = None
        """None until the instance has received it."""
        self._told_txid = -1
        """The last txid whose `pre_commit` has succeeded in this instance."""

    @property
    def has_work(self) -> bool:
        """True while the task has changes that no checkpoint has committed."""
        if isinstance(self._bolt, RemoteInstance) and self._bolt.has_changes:
            return True
        return self._state is not None and self._state.has_changes

    async def _freeze(self, barrier: Barrier) -> Write:
        state = self._state
        assert state is not None
        await self._call_hook(self._bolt.pre_prepare, barrier.txid)
        keys = state.freeze(barrier.txid, barrier.round)

        async def write() -> tuple[int, int]:
            await self._checkpoints.patiently(state.write_frozen)
            return keys, state.staged_bytes if keys else 0

        return write

    async def _commit_frozen(self, txid: int) -> None:
        state = self._state
        assert state is not None
        await self._tell_of_commit(txid)
        await self._checkpoints.patiently(lambda: state.commit(txid))

    async def _restore(self, committing: int | None) -> None:
        is_here = not isinstance(self._bolt, RemoteInstance)
        state = await self._checkpoints.state_of(self._place, self._key_of, opens_values=is_here)
        if committing is not None:
            await self._checkpoints.patiently(lambda: state.commit(committing))
        await state.rollback()
        if self._state is None:
            await self._call_hook(self._bolt.init_state, state)
            self._state = state
            self._port.guard_state(state)
        if committing is not None:
            await self._tell_of_commit(committing)

    async def _tell_of_commit(self, txid: int) -> None:
        """Call `pre_commit` until it succeeds (CP-4)."""
        if txid != self._told_txid:
            await self._repeat(lambda: self._call_pre_commit(txid), f"pre_commit({txid})")
            self._told_txid = txid

    async def _call_pre_commit(self, txid: int) -> None:
        """Call the hook. Beside exact spouts it may not emit: nothing emits this again if the next interval is repeated."""
        error = FatalError(
            f"bolt {self._context.component_id!r}: pre_commit({txid}) emits, but this belongs to the next interval, and may be lost",
            hint="Emit in execute(), at a tick or in pre_prepare(). What must follow the commit is the work of a committer.",
        )
        with self._port.refusing_emits(error) if self._checkpoints.sources else nullcontext():
            await self._call_hook(self._bolt.pre_commit, txid)
