"""What goes wrong with Kafka and passes by itself, or is survived: shown, and tried again."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from engine.errors import EngineError, FatalError
from engine.kafka import client_errors

Report: TypeAlias = Callable[[BaseException], None]

FIRST_PAUSE_SECS: Final = 0.1
LONGEST_PAUSE_SECS: Final = 5.0


class KafkaTrouble(EngineError):
    """Something with Kafka that passes by itself, or is survived; only reported."""


class Patience:
    """Bears errors that pass by themselves, with pauses that grow; `calm()` when all is well again."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.pause_secs = FIRST_PAUSE_SECS

    def calm(self) -> None:
        """Begin with the shortest pause again."""
        self.pause_secs = FIRST_PAUSE_SECS

    async def bear(self, error: Exception, doing: str) -> None:
        """Show an error and wait; raises FatalError for one that no other try would pass. `doing`: "reading topics 'a'"."""
        if isinstance(error, FatalError):
            raise error
        if not client_errors.passes(error):
            raise client_errors.fatal(error, doing)
        pause, self.pause_secs = self.pause_secs, min(2 * self.pause_secs, LONGEST_PAUSE_SECS)
        self._report(KafkaTrouble(f"{doing} failed: {client_errors.describe(error)}", hint=f"It is tried again in {pause:g} s."))
        await asyncio.sleep(pause)
