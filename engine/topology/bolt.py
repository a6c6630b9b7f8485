"""A step of processing."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Awaitable, Iterable
from typing import TypeAlias

from engine.topology.collector import BasicCollector, BoltCollector, Tuple
from engine.topology.context import TaskContext
from engine.topology.spout import OnError
from engine.topology.stream import OutputFields
from engine.topology.values import Values


class FailTuple(Exception):
    """Raised by a `BasicBolt` to fail its input quietly; with `report=True` it is also reported (ACK-11)."""

    def __init__(self, *args: object, report: bool = False) -> None:
        super().__init__(*args)
        self.report = report


class BoltBase(ABC):
    """What `Bolt` and `BasicBolt` have in common: the settings of a bolt, its context, `prepare` and `cleanup`."""

    output_fields: OutputFields = None
    concurrency: int = 1
    """How many inputs an `async def execute` works on at once; 1: one after the other, in order."""
    on_error: OnError | None = None
    """None: as `Config.on_error` says (`fail`)."""
    tick_tuple_freq_secs: float | None = None
    """`execute` gets a tick (`tup.is_tick`) this often; None: never."""


    context: TaskContext
    """Set before `prepare`."""

    def prepare(self) -> Awaitable[None] | None:
        """Get ready; called first, before any spout opens."""
        return None

    def cleanup(self) -> Awaitable[None] | None:
        """Give back what `prepare` took; called last (Storm's name for a bolt's close). Not called where `prepare` raised."""
        return None


class Bolt(BoltBase):
    """Base of bolts that anchor and settle by hand.

    `execute` settles each input by `self.collector.ack(tup)` or `.fail(tup)`, now or later; one that it lets go of
    without either fails at once (ACK-15).
    """

    collector: BoltCollector
    """Set before `prepare`."""

    @abstractmethod
    def execute(self, tup: Tuple) -> Awaitable[None] | None:
        """Process one input."""


BasicResult: TypeAlias = Values | Iterable[Values] | AsyncIterable[Values] | Awaitable[tuple[object, ...] | None] | None
"""What `BasicBolt.execute` may return; see there."""


class BasicBolt(BoltBase):
    """Base of bolts whose every emit is anchored to the input, and whose input is acked when `execute` has returned (ACK-11)."""

    threads: int = 0
    """0: `execute` runs on the loop. n: up to n calls of a plain `def execute` run in a pool, for blocking code (ACK-10)."""

    collector: BasicCollector
    """Set before `prepare`."""

    @abstractmethod
    def execute(self, tup: Tuple) -> BasicResult:
        """Process one input: a plain function, a generator, `async def`, or an async generator.

        Each value tuple that a generator yields is emitted to the default stream; a tuple that a function returns is
        one such emit; None is none; anything else raises UsageError. Other streams: `self.collector.emit(values, stream)`.
        Raising fails the input.
        """
