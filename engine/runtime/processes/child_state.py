"""`ChildState` is the state of a stateful bolt in a child process.

The run has the committed rows, and all rules of checkpoints. The child has a copy of the rows. At each PREPARE the run gets the changes.
"""

import pickle
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from typing import Any

from engine.errors import FatalError, StateError
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.processes.frame_size import STATE_ROWS_PER_FRAME, FrameSize
from engine.state import LayeredState, ResidentStore, Row, StagedDelta, StatePlace, codec_named
from engine.state.changes import frames, rows_in


class ChildState:
    """The state of the task's only instance, which dies with its process."""

    def __init__(self, executor: BoltExecutor) -> None:
        self._executor = executor
        self._state: LayeredState[Any, Any] | None = None
        self._frame_size = FrameSize(STATE_ROWS_PER_FRAME)

    @property
    def has_changes(self) -> bool:
        """True while there are changes that no checkpoint has committed."""
        return self._state is not None and self._state.has_changes

    def send_changes(self, send: Callable[..., int]) -> None:
        """Send the frozen changes in parts that the run reads without holding its loop (BP-4)."""
        size = self._frame_size
        for frame in frames(self._loaded.frozen_changes.entries(), lambda: size.rows):
            size.note(rows_in(frame), send("changes", frame))

    # Calls of the run

    async def begin(self, place: StatePlace, uses_key_of: bool) -> None:
        """Make an empty state."""
        config, bolt = self._executor.run_context.config, self._executor.component
        key_of = bolt.key_of if uses_key_of else None
        self._state = LayeredState(_NoStore(), codec_named(config.state_codec), place, key_of=key_of)
        await self._state.load()

    async def take_rows(self, pickled: bytes) -> None:
        """Add committed rows. A value that cannot be decoded ends the run, as when the run decodes it (CP-11)."""
        try:
            self._loaded.take_rows(pickle.loads(pickled))
        except StateError as error:
            raise FatalError(error.message, hint=error.hint) from None

    async def init_state(self) -> None:
        """Give the state to the instance."""
        executor, state = self._executor, self._loaded
        await executor.call_hook(executor.component.init_state, state)
        executor.core.guard_state(state)

    async def pre_prepare(self, txid: int) -> None:
        """Freeze the changes since the last PREPARE."""
        state = self._loaded
        await self._executor.call_hook(self._executor.component.pre_prepare, txid)
        state.freeze(txid)
        await state.write_frozen()

    async def pre_commit(self, txid: int) -> None:
        """Call the hook, then commit the changes of a PREPARE. A child that began after the PREPARE got them with its rows."""
        await self._executor.call_hook(self._executor.component.pre_commit, txid)
        if self._loaded.prepared_txid == txid:
            await self._loaded.commit(txid)

    @property
    def _loaded(self) -> LayeredState[Any, Any]:
        assert self._state is not None
        return self._state


class _NoStore(ResidentStore):
    """Store of a child, which stores nothing."""

    drops_prefixes = True

    async def drop_prefixes(self, prefixes: Sequence[bytes]) -> None:
        pass

    async def load(self) -> AsyncIterator[list[Row]]:
        rows: list[Row] = []
        yield rows

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        pass

    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        pass

    async def deltas(self) -> list[StagedDelta]:
        return []

    async def drop(self, after_txid: int) -> None:
        pass
