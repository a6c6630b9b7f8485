"""Complaints of Python and asyncio in a simulated run: tasks left over, exceptions never retrieved, coroutines never awaited."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.testing import LeftoverTaskWarning
from tests.simulation.child_world import VIOLATIONS


@contextmanager
def report_complaints(add_violation: Callable[[str], None], *, quiet: bool) -> Iterator[None]:
    """Pass each complaint to `add_violation`. With `quiet`, the engine's log of the injected errors is off."""
    handler = _Complaints(add_violation)
    loggers = (logging.getLogger("asyncio"), VIOLATIONS)
    for logger in loggers:
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
            for logger in loggers:
                logger.removeHandler(handler)
            engine.setLevel(level)
    for warning in caught:
        if issubclass(warning.category, (RuntimeWarning, ResourceWarning, LeftoverTaskWarning)):
            add_violation(f"{warning.category.__name__}: {warning.message}")


class _Complaints(logging.Handler):
    def __init__(self, add_violation: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.add_violation = add_violation

    def emit(self, record: logging.LogRecord) -> None:
        self.add_violation(f"{record.name}: {record.getMessage()}{' ' + repr(record.exc_info[1]) if record.exc_info else ''}")
