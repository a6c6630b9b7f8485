"""What a bolt emits and settles with: the compiled collector, and those of BasicBolts."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeAlias

from engine.api import Values
from engine.api.collector import Anchors
from engine.errors import UsageError
from engine.kernel import BoltCore, BoltEmitter, Tuple
from engine.names import DEFAULT_STREAM

ReportError: TypeAlias = Callable[[BaseException], None]
Emission: TypeAlias = tuple[Values, str, int | None]
"""Values, stream, and the task of an emit_direct."""


class ExecutorBoltCollector(BoltEmitter):
    """`self.collector` of one instance of a Bolt (`engine.api.BoltCollector`); emit, ack, fail and reset_timeout are compiled."""

    def __init__(self, core: BoltCore, *, ready: Callable[[], Awaitable[None]], report_error: ReportError) -> None:
        super().__init__(core)
        self._core = core
        self._ready = ready
        self._report_error = report_error

    def emit_direct(self, task: int, values: Values, anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        self.check_alive()
        self._core.emit_direct(task, values, anchors, stream)

    def report_error(self, error: BaseException) -> None:
        self._report_error(error)

    async def ready(self) -> None:
        await self._ready()


@dataclass(slots=True)
class Call:
    """One call of a BasicBolt's execute; `recorded` is set where it runs in a thread."""

    tup: Tuple
    recorded: list[Emission] | None = field(default=None)


CURRENT_CALL: ContextVar[Call | None] = ContextVar("current_call", default=None)
"""The call that the running code belongs to, where calls may be in flight side by side."""


class ExecutorBasicCollector:
    """`self.collector` of one instance of a BasicBolt: anchors to the input of the call that is running."""

    def __init__(self, emitter: BoltEmitter, core: BoltCore, where: str, report_error: ReportError) -> None:
        self._emitter = emitter
        self._core = core
        self._where = where
        self._report_error = report_error

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        call = CURRENT_CALL.get()
        if call is not None and call.recorded is not None:
            call.recorded.append((values, stream, None))
            return
        self._emitter.emit(values, self._input(call), stream)

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        call = CURRENT_CALL.get()
        if call is not None and call.recorded is not None:
            call.recorded.append((values, stream, task))
            return
        self._emitter.check_alive()
        self._core.emit_direct(task, values, self._input(call), stream)

    def report_error(self, error: BaseException) -> None:
        self._report_error(error)

    def _input(self, call: Call | None) -> Tuple:
        tup = self._core.current if call is None else call.tup
        if tup is None:
            raise UsageError(
                f"bolt {self._where!r} emitted outside execute()",
                hint="A BasicBolt emits while it executes an input; to emit at other times derive from Bolt.",
            )
        return tup
