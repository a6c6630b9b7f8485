"""`SettleWarnings` warns of a bolt that forgot an ack, or settled a tuple twice (ACK-5, ACK-15)."""

from engine.kernel import BoltCore
from engine.runtime.error_report import ErrorReporter


class SettleWarnings:
    """The warnings of one bolt task. Each comes once."""

    def __init__(self, core: BoltCore, component_id: str, reporter: ErrorReporter, *, fails_forgotten: bool) -> None:
        self._core = core
        self._component_id = component_id
        self._reporter = reporter
        self._fails_forgotten = fails_forgotten
        self.warned_of_forgotten = self._warned_of_double = False

    def check(self) -> None:
        """Warn if the bolt has just done one of both for the first time."""
        core = self._core
        if core.forgotten_tuples and not self.warned_of_forgotten:
            self.warned_of_forgotten = True
            effect = "its trees failed at once" if self._fails_forgotten else "its trees wait for their timeout"
            self._reporter.warn(
                f"bolt {self._component_id!r} dropped a tuple without ack or fail; {effect}. Call self.collector.ack(tup) or "
                "fail(tup) on every path, or derive from BasicBolt, which does it for you."
            )
        if core.settled_twice and not self._warned_of_double:
            self._warned_of_double = True
            self._reporter.warn(
                f"bolt {self._component_id!r} settled a tuple twice; the second ack or fail was ignored. Settle each input once."
            )
