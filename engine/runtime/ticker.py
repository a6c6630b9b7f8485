"""`Ticker` posts the tick tuples of a bolt task."""

import asyncio

from engine.api import Fields
from engine.kernel import Source, make_tuple
from engine.names import SYSTEM_COMPONENT, TICK_STREAM
from engine.runtime.bolt_executor import BoltExecutor


class Ticker:
    """Posts the tick tuples of one bolt task, every `tick_tuple_freq_secs`. At most one tick waits in the mailbox."""

    def __init__(self, executor: BoltExecutor, period_secs: float) -> None:
        self._executor = executor
        self._period_secs = period_secs
        self._source = Source(SYSTEM_COMPONENT, TICK_STREAM, 0, Fields())
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Schedule the next tick."""
        self._timer = self._executor.run_context.loop.call_later(self._period_secs, self._tick)

    def stop(self) -> None:
        """End the ticks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._executor.core.post_tick(make_tuple((), self._source))
        self.start()
