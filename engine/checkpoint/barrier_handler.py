"""Handles the barriers of one bolt instance (CP-1, CP-2, CP-4).

Every handler waits until the barrier has arrived from all sources, and then forwards the barrier. The handler of a stateful bolt also
carries out the action of the barrier.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from engine.api import TaskContext, Tuple
from engine.backoff import Backoff
from engine.checkpoint.alignment import Alignment, Barrier
from engine.checkpoint.bolts import KeepsState
from engine.checkpoint.checkpoints import Checkpoints
from engine.errors import ERROR, ROLLBACK, TASK_DIED, Failure, FatalError, StateError, with_hint
from engine.names import CHECKPOINT_COMPONENT, CHECKPOINT_STREAM
from engine.raised import headline, own_text, raised_text
from engine.state import LayeredState, StatePlace
from engine.topology.task_port import BoltPort, ControlHandler, RemoteInstance
from engine.waits import waiting_for

HOOK_BACKOFF: Final = Backoff(0.5, 5.0)
"""Pauses between the calls of a `pre_commit` that raises. At most 5 calls fall into 10 s, so every error is reported."""


class BarrierHandler(ControlHandler):
    """Waits for the barriers of a stateless bolt, and forwards the complete barrier. Base of the handler of stateful bolts."""

    def __init__(self, checkpoints: Checkpoints, context: TaskContext, port: BoltPort, sources: frozenset[int]) -> None:
        """sources: the task ids from which each barrier must arrive."""
        self._checkpoints = checkpoints
        self._context = context
        self._port = port
        self._alignment = Alignment(sources)
        self._barriers: list[Tuple] = []
        """Control tuples of the current round. The tree of the round stays open until all control tuples are settled."""
        self._held: set[int] = set()
        self._aligning_since = 0.0

    async def begin(self, *, restarted: bool) -> None:
        """Start before `prepare`. restarted: an earlier instance has died, so release the sources that the earlier instance held."""
        if restarted:
            for source in self._alignment.sources:
                self._port.release(source)

    async def on_control(self, tup: Tuple) -> None:
        """Handle a barrier, or a notice of the checkpoint spout."""
        barrier = Barrier(*tup.values)
        before = self._alignment.current
        verdict, ended = self._alignment.arrives(barrier, tup.source_task)
        if ended:
            self._release()
        if self._alignment.current is not before:
            self._settle(self._barriers)
            self._barriers = []
            self._aligning_since = self._context.clock.now()
        if verdict == "old":
            self._port.settle_control(tup)
            return
        self._barriers.append(tup)
        # The checkpoint spout is never held, because its next barrier must arrive.
        if self._alignment.holds(tup.source_task) and tup.source_component != CHECKPOINT_COMPONENT:
            self._held.add(tup.source_task)
            self._port.hold(tup.source_task)
        self._checkpoints.note_waiting(self._context.task_id, self._alignment.waits_for())
        if verdict == "complete":
            self._checkpoints.note_aligned(self._context.clock.now() - self._aligning_since if self._held else 0.0)
            barriers, self._barriers = self._barriers, []
            await self._act(barrier, barriers)

    async def _act(self, barrier: Barrier, barriers: list[Tuple]) -> None:
        """Act on a complete barrier."""
        self._forward(barrier, barriers)
        self._release()
        self._settle(barriers)

    def _forward(self, barrier: Barrier, barriers: list[Tuple]) -> None:
        self._port.emit_control(tuple(barrier), barriers[-1], CHECKPOINT_STREAM)

    def _release(self) -> None:
        for source in self._held:
            self._port.release(source)
        self._held.clear()

    def _settle(self, barriers: list[Tuple], failure: Failure | None = None) -> None:
        for each in barriers:
            self._port.settle_control(each, failure)


class StatefulBarrierHandler(BarrierHandler):
    """Handles the barriers of a stateful bolt. Commits or rolls back its state and its deferred acks, and calls the user's hooks."""

    def __init__(
        self, checkpoints: Checkpoints, bolt: Any, context: TaskContext, port: BoltPort, sources: frozenset[int], place: StatePlace
    ) -> None:
        super().__init__(checkpoints, context, port, sources)
        self._bolt = bolt
        self._place: Final = place
        self._key_of = None if getattr(bolt.key_of, "__func__", None) is KeepsState.key_of else bolt.key_of
        self._state: LayeredState[Any, Any] | None = None
        """None until the instance has received it, by INITSTATE, or by a COMMIT before that."""
        self._is_initialised = False
        self._told_txid = -1
        """The last txid whose `pre_commit` has succeeded in this instance."""
        self._unwritten: Exception | None = None
        """Error of the last write. At the next barrier the error ends the instance."""

    async def begin(self, *, restarted: bool) -> None:
        """Let no data tuple pass before INITSTATE. After a death, drop the changes since the last PREPARE, and fail their tuples."""
        await super().begin(restarted=restarted)
        self._checkpoints.note_handler(self._place, self)
        self._port.close_gate()
        self._port.defer_settles()
        if restarted:
            state = self._checkpoints.state_if_loaded(self._place)
            if state is not None:
                state.drop_changes()
            await self._port.fail_settles(self._failure(TASK_DIED, self._checkpoints.cause), prepared=False)
            self._checkpoints.note_lost_task()

    async def on_control(self, tup: Tuple) -> None:
        """Handle a barrier, unless the last write failed."""
        error, self._unwritten = self._unwritten, None
        if error is not None:
            raise error
        try:
            await super().on_control(tup)
        except Exception as raised:
            self._checkpoints.note_cause(self._failure(ERROR, raised_text(raised)))
            raise

    @property
    def has_work(self) -> bool:
        """True while the task has changes or acks that no checkpoint has committed."""
        if isinstance(self._bolt, RemoteInstance) and self._bolt.has_changes:
            return True
        return self._port.deferred_settles > 0 or (self._state is not None and self._state.has_changes)

    async def _act(self, barrier: Barrier, barriers: list[Tuple]) -> None:
        match barrier.action:
            case "prepare":
                await self._prepare(barrier, barriers)
            case "commit":
                await self._commit(barrier, barriers)
            case "rollback":
                await self._roll_back(barrier, barriers)
            case "initstate":
                await self._initialise(barrier, barriers)

    async def _prepare(self, barrier: Barrier, barriers: list[Tuple]) -> None:
        """Freeze the changes and forward the barrier. Write the changes while the next tuples are processed (CP-7)."""
        state = self._state
        if state is None or not self._is_initialised:
            self._release()
            self._settle(barriers, self._failure(TASK_DIED, "it is not initialised yet"))
            return
        await self._call_hook(self._bolt.pre_prepare, barrier.txid)
        keys = state.freeze(barrier.txid, barrier.round)
        self._port.prepare_settles()
        self._forward(barrier, barriers)
        self._release()
        self._context.create_task(self._write(state, keys, barriers))

    async def _write(self, state: LayeredState[Any, Any], keys: int, barriers: list[Tuple]) -> None:
        try:
            await self._checkpoints.patiently(state.write_frozen)
        except Exception as error:  # noqa: BLE001 - raised by `on_control`, because background work may raise without a death
            told = with_hint(error.message, error.hint) if isinstance(error, StateError) else own_text(error)
            failure = self._failure(ERROR, told)
            self._checkpoints.note_cause(failure)
            self._unwritten = error
            self._settle(barriers, failure)
            return
        self._checkpoints.note_written(keys, state.staged_bytes if keys else 0)
        self._settle(barriers)

    async def _commit(self, barrier: Barrier, barriers: list[Tuple]) -> None:
        """Commit the frozen changes, and release the acks of their tuples.

        A fresh instance receives its state first, because its predecessor, or an earlier process, may not have completed `pre_commit`.
        """
        state = await self._receive_state()
        if barrier.txid != self._told_txid:
            await self._tell_of_commit(barrier.txid)
            self._told_txid = barrier.txid
        self._forward(barrier, barriers)
        await self._checkpoints.patiently(lambda: state.commit(barrier.txid))
        await self._port.release_settles()
        self._settle(barriers)

    async def _tell_of_commit(self, txid: int) -> None:
        """Call `pre_commit` until it succeeds. The commit is decided, and what the hook commits elsewhere must not be lost (CP-4)."""
        task = self._context.task_id
        try:
            for pause_secs in HOOK_BACKOFF.pauses():
                try:
                    await self._call_hook(self._bolt.pre_commit, txid)
                    return
                except FatalError:
                    raise
                except Exception as error:  # noqa: BLE001 - the user's own
                    self._checkpoints.note_repeating(task, f"pre_commit({txid}), which raised {headline(error)}")
                    self._port.report(error, f"pre_commit({txid}) is called again in {pause_secs:g} s, until it succeeds; the inputs wait")
                await asyncio.sleep(pause_secs)
        finally:
            self._checkpoints.note_repeating(task, None)

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

    async def _roll_back(self, barrier: Barrier, barriers: list[Tuple]) -> None:
        """Drop all changes since the last commit, and fail their tuples, so that the source replays them."""
        state = self._state
        if state is not None:
            await self._call_hook(self._bolt.pre_rollback)
        stored = state or await self._stored_state()
        await stored.rollback()
        failure = self._failure(ROLLBACK, self._checkpoints.cause)
        self._port.fail_taken(failure)
        await self._port.fail_settles(failure, prepared=True)
        self._forward(barrier, barriers)
        self._release()
        self._settle(barriers)

    async def _initialise(self, barrier: Barrier, barriers: list[Tuple]) -> None:
        """At the first INITSTATE, let the waiting tuples pass. Before that, pass the state to the instance, unless a COMMIT has done it."""
        await self._receive_state()
        if not self._is_initialised:
            self._is_initialised = True
            self._port.open_gate()
        self._forward(barrier, barriers)
        self._settle(barriers)

    async def _receive_state(self) -> LayeredState[Any, Any]:
        """Return the state of the instance. The first call passes it to `init_state`."""
        state = self._state
        if state is None:
            state = await self._stored_state()
            await self._call_hook(self._bolt.init_state, state)
            self._state = state
            self._port.guard_state(state)
        return state

    async def _stored_state(self) -> LayeredState[Any, Any]:
        """Return the state of the task, which the first call loads."""
        is_here = not isinstance(self._bolt, RemoteInstance)
        return await self._checkpoints.state_of(self._place, self._key_of, opens_values=is_here)

    def _failure(self, reason: Any, error: str | None = None) -> Failure:
        return Failure(reason, self._context.component_id, self._context.task_id, error)
