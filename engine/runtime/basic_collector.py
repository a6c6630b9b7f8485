"""`ExecutorBasicCollector` is the collector of a BasicBolt, on top of the compiled one. `Call` is one call that takes time."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from engine.api import Values
from engine.api.basic_results import Emission
from engine.errors import UsageError
from engine.kernel import BoltCore, Burst, HeldCall, Tuple
from engine.names import DEFAULT_STREAM


@dataclass(slots=True)
class Call:
    """One call of a bolt's execute that takes time."""

    tup: Tuple | Burst
    recorded: list[Emission] | None = field(default=None)
    """Emits of a call in a thread."""
    held: HeldCall | None = None
    """Emits and settles of a call that has retries."""
    pause_secs: float = 0.0
    """Time before it begins, after a call with the same input has raised. 0 once it runs."""
    began: float | None = None
    """Time of the begin, while the call runs."""

    def end(self, now: float) -> float:
        """Return the seconds since the begin. 0 if the call has ended already."""
        began, self.began = self.began, None
        return 0.0 if began is None else now - began


CURRENT_CALL: ContextVar[Call | None] = ContextVar("current_call", default=None)
"""The call that the running code belongs to, if several calls run at once."""


class EmitsAnchored(Protocol):
    """The collector below, compiled or one that holds back."""

    def emit(self, values: Values, anchors: Tuple, stream: str) -> None: ...

    def emit_direct(self, task: int, values: Values, anchors: Tuple, stream: str) -> None: ...


class ExecutorBasicCollector:
    """Collector of one instance of a BasicBolt. Anchors to the input of the running call."""

    def __init__(self, emits_by: EmitsAnchored, core: BoltCore, component_id: str, report_error: Callable[[BaseException], None]) -> None:
        self._collector = emits_by
        self._core = core
        self._component_id = component_id
        self._report_error = report_error

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        call = CURRENT_CALL.get()
        if call is not None and call.recorded is not None:
            call.recorded.append((values, stream, None))
            return
        self._collector.emit(values, self._input(call), stream)

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        call = CURRENT_CALL.get()
        if call is not None and call.recorded is not None:
            call.recorded.append((values, stream, task))
            return
        self._collector.emit_direct(task, values, self._input(call), stream)

    def report_error(self, error: BaseException) -> None:
        self._report_error(error)

    def _input(self, call: Call | None) -> Tuple:
        tup = self._core.current if call is None else call.tup
        if not isinstance(tup, Tuple):
            raise UsageError(
                f"bolt {self._component_id!r} emitted outside execute()",
                hint="A BasicBolt emits while it executes an input. To emit at other times, derive from Bolt.",
            )
        return tup
