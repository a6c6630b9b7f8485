"""Watches one call of Spark from the engine's process: that Spark starts its tasks, and that their workers are not frozen (CL-3)."""

from spark_bridge.topology.frozen_watch import FrozenWatch, Running
from spark_bridge.topology.start_watch import StartWatch, Waiting


class CallWatch:
    """Handles the events of the calls of one attempt. An error of it cancels the call with its jobs."""

    def __init__(self, start: StartWatch, frozen: FrozenWatch, limit_secs: float) -> None:
        self._start = start
        self._frozen = frozen
        self.limit_secs = limit_secs

    def begin(self) -> None:
        """Begin another call. The time of an earlier one does not count."""
        self._start.begin()

    def on_event(self, event: Waiting | Running) -> None:
        """Handle an event of the call. Raises SparkStartsNothing or WorkerFrozen."""
        if isinstance(event, Running):
            self._frozen.on_event(event)
        else:
            self._start.on_event(event)
