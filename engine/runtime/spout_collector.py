"""What a spout emits with: the compiled emit, and what is rare enough for Python."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import repeat

from engine.api import Values
from engine.errors import UsageError
from engine.kernel import SpoutCore, SpoutEmitter
from engine.names import DEFAULT_STREAM
from engine.runtime.kept_rows import ROWS_PER_TURN, KeptRows


class ExecutorSpoutCollector(SpoutEmitter):
    """`self.collector` of one instance of a spout (`engine.api.SpoutCollector`); `emit` is compiled.

    While rows of an `emit_many` are kept, whatever is emitted is kept behind them: `keeps` sends each emit to `emit_rarely`.
    """

    def __init__(
        self, core: SpoutCore, rows: KeptRows, *, ready: Callable[[], Awaitable[None]], report_error: Callable[[BaseException], None]
    ) -> None:
        super().__init__(core)
        self._core = core
        self._rows = rows
        self._ready = ready
        self._report_error = report_error

    def emit_rarely(self, values: object, message_id: object, stream: str) -> None:
        self.check_alive()
        if self._rows.is_on_thread:
            self._rows.keep(self._core.emit, iter([(values, message_id, stream)]))
        else:
            self._core.emit(values, message_id, stream)  # raises, as from every other thread

    def emit_many(self, rows: Sequence[Values], message_ids: Sequence[object] | None = None, stream: str = DEFAULT_STREAM) -> None:
        if message_ids is not None and len(message_ids) != len(rows):
            raise UsageError(
                f"emit_many() was given {len(rows)} rows and {len(message_ids)} message ids",
                hint="Give one message id (or None) for each row, or leave message_ids out.",
            )
        at_once = 0 if self._rows and self._rows.is_on_thread else ROWS_PER_TURN  # another thread is refused by the first emit
        if not isinstance(rows, (list, tuple)):
            rows = list(rows)
        if message_ids is None:
            for values in rows[:at_once]:
                self.emit(values, None, stream)
        else:
            for values, message_id in zip(rows[:at_once], message_ids, strict=False):
                self.emit(values, message_id, stream)
        if len(rows) > at_once:
            self.check_alive()
            ids: Iterable[object] = repeat(None) if message_ids is None else list(message_ids)[at_once:]
            # Copies: the caller's lists may change as soon as this returns.
            self._rows.keep(self._core.emit, zip(rows[at_once:], ids, repeat(stream), strict=False))

    def emit_direct(self, task: int, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM) -> None:
        self.check_alive()
        if self._rows and self._rows.is_on_thread:
            self._rows.keep(self._core.emit_direct, iter([(task, values, message_id, stream)]))
        else:
            self._core.emit_direct(task, values, message_id, stream)

    def report_error(self, error: BaseException) -> None:
        self._report_error(error)

    async def ready(self) -> None:
        await self._ready()
