"""Values that end their program, that cannot be loaded, or that are large, and bolts that send them."""

import sys
from collections.abc import Iterator
from typing import Any

from engine import BasicBolt, Bolt, FailTuple, Tuple
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


class Length(BasicBolt):
    """Emits the length of each value."""

    output_fields = "length"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (len(tup["number"]),)


class EmitsLarge(BasicBolt):
    """Emits several large values for each input."""

    output_fields = "value"

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self.size = size

    def execute(self, tup: Tuple) -> Iterator[tuple[bytes]]:
        yield from ((bytes(self.size) + b"%d" % index,) for index in range(self.count))


class OddText(str):
    """A text that pickle cannot store."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("not this text")


class OddTextError(Exception):
    """An error whose text pickle cannot store."""

    def __str__(self) -> str:
        return OddText("odd")


class FailsWithOddTexts(Bolt):
    """Fails two of five inputs with texts that pickle cannot store."""

    output_fields = "number"

    def execute(self, tup: Tuple) -> None:
        number = tup["number"]
        if number % 5 == 0:
            self.collector.fail(tup, OddText("odd"))
        elif number % 5 == 1:
            raise FailTuple(OddTextError())
        else:
            self.collector.emit((number,), anchors=tup)
            self.collector.ack(tup)
