"""What Python and asyncio complain about in a simulated run: tasks left over, exceptions that nobody took, coroutines never awaited."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.testing import LeftoverTaskWarning


@contextmanager
def overheard(violated: Callable[[str], None], *, quiet: bool) -> Iterator[None]:
    """Call `violated` with what asyncio and Python complain about; `quiet` keeps the engine's log of all the errors shut."""
    handler = _Complaints(violated)
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    engine = logging.getLogger("engine")
    level = engine.level
    if quiet:
        engine.setLevel(logging.CRITICAL)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            logger.removeHandler(handler)
            engine.setLevel(level)
    for warning in caught:
        if issubclass(warning.category, (RuntimeWarning, ResourceWarning, LeftoverTaskWarning)):
            violated(f"{warning.category.__name__}: {warning.message}")


class _Complaints(logging.Handler):
    def __init__(self, violated: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.violated = violated

    def emit(self, record: logging.LogRecord) -> None:
        self.violated(f"asyncio: {record.getMessage()}{' ' + repr(record.exc_info[1]) if record.exc_info else ''}")
