"""What an instance of a batch bolt sees in a topology without batches: its collector, and the task of an earlier run."""

from collections.abc import Iterable
from typing import Any, Final

from engine.api import Values
from engine.errors import FatalError
from engine.names import DEFAULT_STREAM
from engine.topology import ComponentSpec


class IntervalCollector:
    """`self.collector` of an instance (`BatchCollector`)."""

    def __init__(self, outer: Any, spec: ComponentSpec, *, may_emit: bool) -> None:
        self._outer = outer
        self._where = spec.where
        self._may_emit = may_emit
        self.is_mute = False
        """True while rows are executed again. What they emit is dropped."""
        self.report_error = outer.report_error
        self.ready = outer.ready

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        if self._may():
            self._outer.emit(values, (), stream)

    def emit_many(self, rows: Iterable[Values], stream: str = DEFAULT_STREAM) -> None:
        if self._may():
            self._outer.emit_many(rows, (), stream)

    def emit_each(self, values: Iterable[Any], stream: str = DEFAULT_STREAM) -> None:
        if self._may():
            self._outer.emit_each(values, (), stream)

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        if self._may():
            self._outer.emit_direct(task, values, (), stream)

    def _may(self) -> bool:
        if not self._may_emit:
            text = f"{self._where}: a committer of a topology without batches emits nothing, because nobody can subscribe to it"
            raise FatalError(text, hint="Emit in a bolt before it, or build the topology with TransactionalTopologyBuilder.")
        return not self.is_mute


class TaskOfBefore:
    """The context of a task, under the number that another task had in an earlier run."""

    def __init__(self, context: Any, task_index: int, tasks: int) -> None:
        self._context = context
        self.task_index: Final = task_index
        self.tasks: Final = tasks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)
