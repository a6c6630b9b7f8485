"""What a spout emits with: the compiled emit, and what is rare enough for Python."""

from collections.abc import Awaitable, Callable, Sequence

from engine.errors import UsageError
from engine.kernel import SpoutCore, SpoutEmitter
from engine.names import DEFAULT_STREAM
from engine.topology import Values


class ExecutorSpoutCollector(SpoutEmitter):
    """`self.collector` of one instance of a spout (`engine.topology.SpoutCollector`); `emit` is compiled."""

    def __init__(self, core: SpoutCore, *, ready: Callable[[], Awaitable[None]], report_error: Callable[[BaseException], None]) -> None:
        super().__init__(core)
        self._core = core
        self._ready = ready
        self._report_error = report_error

    def emit_many(self, rows: Sequence[Values], message_ids: Sequence[object] | None = None, stream: str = DEFAULT_STREAM) -> None:
        if message_ids is None:
            for values in rows:
                self.emit(values, None, stream)
            return
        if len(message_ids) != len(rows):
            raise UsageError(
                f"emit_many() was given {len(rows)} rows and {len(message_ids)} message ids",
                hint="Give one message id (or None) for each row, or leave message_ids out.",
            )
        for values, message_id in zip(rows, message_ids, strict=True):
            self.emit(values, message_id, stream)

    def emit_direct(self, task: int, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM) -> None:
        self.check_alive()
        self._core.emit_direct(task, values, message_id, stream)

    def report_error(self, error: BaseException) -> None:
        self._report_error(error)

    async def ready(self) -> None:
        await self._ready()
