"""A bolt that keeps what came in, and lets a test settle it by hand."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from engine.errors import UsageError
from engine.kernel import Tuple
from engine.topology import Bolt
from engine.topology import Tuple as AnyTuple


@dataclass(frozen=True, slots=True)
class Arrival:
    """One tuple that a `CaptureBolt` was given."""

    tup: Tuple
    task_id: int
    secs: float
    """When, by the run's clock."""


class Capture:
    """The test's end of a `CaptureBolt`, and its factory: `builder.set_bolt("sink", Capture()).shuffle_grouping(...)`.

    It acks what comes in; with `settles=False` that is left to the test: `capture.ack(tup)`, `.fail(tup)`. All tasks
    of the bolt keep into the same lists, through deaths of their instances.
    """

    def __init__(self, *, settles: bool = True) -> None:
        self.settles: Final = settles
        self.arrivals: Final[list[Arrival]] = []
        """All that came in, in order."""
        self._takers: dict[AnyTuple, CaptureBolt] = {}
        self._waiters: list[asyncio.Future[None]] = []

    def create(self) -> "CaptureBolt":
        """Return a new bolt that keeps into this capture; the engine calls it once per task."""
        return CaptureBolt(self)

    @property
    def tuples(self) -> list[Tuple]:
        """The tuples that came in, in order."""
        return [arrival.tup for arrival in self.arrivals]

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """Their values."""
        return [arrival.tup.values for arrival in self.arrivals]

    @property
    def unsettled(self) -> list[Tuple]:
        """The tuples that are neither acked nor failed, nor failed with their task."""
        return [arrival.tup for arrival in self.arrivals if not arrival.tup.is_settled]

    def ack(self, tup: AnyTuple) -> None:
        """Ack a tuple that came in."""
        self._taker(tup).collector.ack(tup)

    def fail(self, tup: AnyTuple) -> None:
        """Fail a tuple that came in."""
        self._taker(tup).collector.fail(tup)

    def reset_timeout(self, tup: AnyTuple) -> None:
        """Restart the clock of a tuple that came in."""
        self._taker(tup).collector.reset_timeout(tup)

    async def arrived(self, count: int) -> None:
        """Wait until so many tuples have come in, in all."""
        while len(self.arrivals) < count:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def keep(self, tup: Tuple, bolt: "CaptureBolt") -> None:
        """Keep a tuple, and settle it if that is not left to the test; called by the bolts."""
        self.arrivals.append(Arrival(tup, bolt.context.task_id, bolt.context.clock.now()))
        if self.settles:
            bolt.collector.ack(tup)
        else:
            self._takers[tup] = bolt
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _taker(self, tup: AnyTuple) -> "CaptureBolt":
        taker = self._takers.get(tup)
        if taker is None:
            raise UsageError(f"{tup!r} did not come in here, or is acked already", hint="Settle by hand only with Capture(settles=False).")
        return taker


class CaptureBolt(Bolt):
    """A task's bolt of a `Capture`."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture

    def execute(self, tup: AnyTuple) -> None:
        """Keep one input."""
        assert isinstance(tup, Tuple)
        self.capture.keep(tup, self)
