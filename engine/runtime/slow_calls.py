"""Warnings of calls that hold the event loop."""

from typing import Final

from engine.clock import Clock
from engine.kernel import TaskCore
from engine.runtime.error_report import ErrorReporter

WARNING_PAUSE_SECS: Final = 60.0


class SlowCalls:
    """Names a component whose calls hold the loop for longer than `slow_call_warn_ms`, once a minute at most."""

    def __init__(self, who: str, reporter: ErrorReporter, clock: Clock) -> None:
        """who: kind and id of the component."""
        self._who = who
        self._reporter = reporter
        self._clock = clock
        self._next_warning = 0.0

    def look(self, core: TaskCore) -> None:
        """Warn of the slowest call since the last look, if it was too slow."""
        secs = core.take_slow_call()
        if secs:
            self.note(secs)

    def note(self, secs: float) -> None:
        """Warn of one call, or one step of a coroutine, that held the loop for too long."""
        if self.may_warn():
            self._reporter.warn(
                f"one call of {self._who} held the event loop for {secs * 1000:.0f} ms: nothing else ran "
                "meanwhile. Await what it waits for, give a BasicBolt threads=n for blocking code, or do less in one call."
            )

    def may_warn(self) -> bool:
        """True at most once a minute; the caller warns then."""
        now = self._clock.now()
        if now < self._next_warning:
            return False
        self._next_warning = now + WARNING_PAUSE_SECS
        return True
