"""Stubs of `_native.held_call`."""

from collections.abc import Callable, Iterable
from typing import Any, final

from _native.bolt import BoltCore
from _native.tuples import Tuple

def failed_calls(tup: Tuple) -> int:
    """Return how many calls with this input have raised and were retried."""

def note_failed_call(tup: Tuple) -> int:
    """Count a call that has raised and will be retried. Return the number of such calls with this input."""

def requeue(core: BoltCore, tup: Tuple) -> None:
    """Let a taken input wait again, before all others. If the instance is replaced meanwhile, the next one takes it."""

@final
class HeldEmit:
    """One emit whose targets are chosen."""

@final
class HeldCall:
    """What one call has emitted and settled, in order."""

    def __init__(self, core: BoltCore) -> None: ...
    @property
    def core(self) -> BoltCore: ...
    @property
    def has_returned(self) -> bool: ...
    @property
    def has_raised(self) -> bool: ...
    def emit(self, values: object, anchors: object, stream: str) -> None:
        """Hold the values of one tuple. Raises the errors of `BoltCore.emit`."""

    def emit_rows(self, rows: Iterable[object], anchors: object, stream: str, single_values: bool) -> None:
        """Hold one tuple for each row. single_values: a row is the only value of its tuple."""

    def emit_direct(self, task: int, values: object, anchors: object, stream: str) -> None:
        """Hold a tuple for one task of each direct subscriber."""

    def settle(self, tup: Tuple, failure: Any, method: str) -> None:
        """Hold an ack (failure None) or a fail. A second one of the same input is counted and ignored, as without a hold (ACK-5)."""

    def send(self, fail: Callable[[Tuple, Any], object]) -> None:
        """Let the steps leave, because the call has returned. `fail(tup, failure)` fails an input.

        Raises UsageError, and sends nothing, if other code has settled an anchor meanwhile.
        """

    def drop(self) -> None:
        """Forget the steps, because the call has raised."""
