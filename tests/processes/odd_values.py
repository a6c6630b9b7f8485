"""Values that end their program, or that cannot be loaded, and bolts that send them."""

import sys
from typing import Any

from engine import BasicBolt, Tuple
from tests.processes.bolts import LOGGER, Pairs, Unreadable


class ExitsAtPickling:
    """A value that ends the program when it is pickled."""

    def __reduce__(self) -> str:
        sys.exit(4)


class ExitsAtLoad:
    """A value that ends the program when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (5,)


class ApiError(Exception):
    """An exception that pickle stores, and cannot load, because its constructor has other arguments than its base."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


class UnreadablePairs(Pairs):
    """Emits a value that cannot be loaded before one of the pairs."""

    async def finish(self, pair: list[Tuple]) -> None:
        if pair[0]["number"] == 2:
            self.collector.emit((Unreadable(),), anchors=pair)
        await super().finish(pair)


class LogsErrors(BasicBolt):
    """Logs an error as a value."""

    def execute(self, tup: Tuple) -> None:
        LOGGER.warning("%s failed", tup["number"], extra={"error": ApiError(404, "none"), "code": 404})
