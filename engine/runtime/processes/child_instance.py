"""`ChildInstance` stands for the instance of a bolt that lives in a child process."""

import pickle
from typing import Any, Protocol

from engine.api import TaskContext
from engine.errors import FatalError
from engine.raised import raised_text
from engine.runtime.plan import TaskInfo
from engine.runtime.processes.frame_size import STATE_ROWS_PER_FRAME, FrameSize
from engine.runtime.processes.process_calls import ProcessCalls
from engine.state import LayeredState
from engine.state.changes import Changes, frames, rows_in
from engine.topology import ComponentSpec
from engine.topology.task_port import RemoteInstance


class TaskOfChild(Protocol):
    """The task of the instance."""

    info: TaskInfo
    spec: ComponentSpec
    calls: ProcessCalls
    changes: Changes

    def new_context(self) -> TaskContext: ...

    async def call_child(self, method: str, *arguments: Any) -> Any: ...

    async def close_child(self) -> None: ...


class ChildInstance(RemoteInstance):
    """Stands for the instance in the child. A stateful bolt has the hooks of `KeepsState`."""

    def __init__(self, task: TaskOfChild) -> None:
        self._task = task
        self.context = task.new_context()
        self._state: LayeredState[Any, Any] | None = None
        if task.spec.keeps_state:
            self.key_of = task.spec.factory.create().key_of  # the run needs the key groups of the changes

    @property
    def has_changes(self) -> bool:  # type: ignore[override]
        """True while the child has changes of its state."""
        return self._task.calls.progress.has_changes

    async def cleanup(self) -> None:
        """Close the instance."""
        await self._task.close_child()

    async def init_state(self, state: LayeredState[Any, Any]) -> None:
        """Copy the committed state to the child, and give it to the instance."""
        task = self._task
        await task.call_child("begin", state.place, state.uses_key_of)
        size = FrameSize(STATE_ROWS_PER_FRAME)
        for frame in frames(state.stored_parts(), lambda: size.rows):
            pickled = pickle.dumps(frame, 5)
            size.note(rows_in(frame), len(pickled))
            await task.call_child("take_rows", pickled)
        await task.call_child("init_state")
        self._state = state

    async def pre_prepare(self, txid: int) -> None:
        """Call the hook, and take the changes of the child."""
        assert self._state is not None
        self._task.changes = Changes()
        await self._task.call_child("pre_prepare", txid)
        changes, self._task.changes = self._task.changes, Changes()
        try:
            self._state.take_changes(changes)
        except Exception as error:
            text = f"bolt {self._task.info.component_id!r}: key_of() raised {raised_text(error)} in the process of the run"
            hint = "With processes=True, the run calls key_of() of an instance without prepare(). Let it use only the key and __init__()."
            raise FatalError(text, hint=hint) from error

    async def pre_commit(self, txid: int) -> None:
        """Call the hook, and commit in the child."""
        await self._task.call_child("pre_commit", txid)
