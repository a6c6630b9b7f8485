"""Ticks: `execute` of a bolt with `tick_tuple_freq_secs` gets a tuple without values, at most one of which waits."""

import asyncio

from engine.api import Fields
from engine.kernel import Source, make_tuple
from engine.names import SYSTEM_COMPONENT, TICK_STREAM
from engine.runtime.bolt_executor import BoltExecutor


class Ticker:
    """Posts the ticks of one bolt task."""

    def __init__(self, executor: BoltExecutor, every_secs: float) -> None:
        self._executor = executor
        self._every_secs = every_secs
        self._source = Source(SYSTEM_COMPONENT, TICK_STREAM, 0, Fields())
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to tick."""
        self._timer = self._executor.around.loop.call_later(self._every_secs, self._tick)

    def stop(self) -> None:
        """Tick no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._executor.core.post_tick(make_tuple((), self._source))
        self.start()
