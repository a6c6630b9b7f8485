from collections.abc import Iterable
from typing import Any

from _native.task_core import TaskCore
from _native.tuples import Tuple

class BoltDispatch(TaskCore):
    def emit(self, values: object, anchors: object, stream: str) -> None: ...
    def emit_direct(self, task: int, values: object, anchors: Tuple | Iterable[Any] | None, stream: str) -> None: ...
    def emit_control(self, values: object, stream: str, anchor: Tuple | None = None) -> None: ...
