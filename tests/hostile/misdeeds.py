"""What hostile code of a program does when it is called."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final


class Own(BaseException):
    """No Exception, like the outcomes of a test framework."""


class Nonsense:
    """A result that is of no use to any caller: not even its truth can be told."""

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


@dataclass(frozen=True)
class Misdeed:
    """What a hostile function does, whatever its arguments are. Can be pickled, for a child process."""

    error: type[BaseException] | None = None
    is_slow: bool = False

    def __call__(self, *_: Any, **__: Any) -> Any:
        if self.is_slow:
            time.sleep(0.002)
        if self.error is not None:
            raise self.error("hostile")
        return Nonsense()

    def __str__(self) -> str:
        return "blocks" if self.is_slow else "nonsense" if self.error is None else self.error.__name__


MISDEEDS: Final = (
    *map(Misdeed, (ValueError, StopIteration, asyncio.CancelledError, GeneratorExit, Own, RecursionError, TimeoutError)),
    Misdeed(),
    Misdeed(is_slow=True),
)
EXITS: Final = (Misdeed(SystemExit), Misdeed(KeyboardInterrupt))
"""Misdeeds that end the program. They do so through the event loop, after the step of the engine."""
