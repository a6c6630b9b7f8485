"""Bolt that stores its inputs for a test. The test may settle them."""

from dataclasses import dataclass
from typing import Any, Final

from engine.api import Bolt
from engine.api import Tuple as AnyTuple
from engine.errors import UsageError
from engine.kernel import Tuple
from engine.waiters import Waiters


@dataclass(frozen=True, slots=True)
class Arrival:
    """One input of a `CaptureBolt`."""

    tup: Tuple
    task_id: int
    secs: float
    """Time of arrival by the run's clock."""


class Capture:
    """Stores the inputs of a bolt for a test: `builder.set_bolt("sink", Capture()).shuffle_grouping(...)`.

    The bolt acks each input. With `settles=False` the test settles the inputs: `capture.ack(tup)`, `capture.fail(tup)`. All tasks of the
    bolt, and all their instances, write to the same lists. A capture is also the factory of its `CaptureBolt`s.

    >>> from engine import TopologyBuilder
    >>> from engine.testing import Capture, Feeder, run_topology
    >>> lines, sink = Feeder("line"), Capture()
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("lines", lines)
    >>> _ = builder.set_bolt("sink", sink).shuffle_grouping("lines")
    >>> _ = lines.feed(("to be",))
    >>> lines.close()
    >>> _ = run_topology(builder.build())
    >>> sink.values
    [('to be',)]
    """

    def __init__(self, *, settles: bool = True) -> None:
        self.settles: Final = settles
        self.arrivals: Final[list[Arrival]] = []
        """All inputs, in order of arrival."""
        self._owners: dict[AnyTuple, CaptureBolt] = {}
        self._waiters = Waiters()

    def create(self) -> "CaptureBolt":
        """Return a new bolt that writes to this capture. The engine calls it for each instance of a task."""
        return CaptureBolt(self)

    @property
    def tuples(self) -> list[Tuple]:
        """The inputs, in order of arrival."""
        return [arrival.tup for arrival in self.arrivals]

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """The values of each input, in order of arrival."""
        return [arrival.tup.values for arrival in self.arrivals]

    def field(self, field: int | str) -> list[Any]:
        """Return one field of each input, by its index or its name, in order of arrival."""
        return [arrival.tup[field] for arrival in self.arrivals]

    @property
    def unsettled(self) -> list[Tuple]:
        """The inputs that are neither acked nor failed, and did not fail with their task."""
        return [arrival.tup for arrival in self.arrivals if not arrival.tup.is_settled]

    def ack(self, tup: AnyTuple) -> None:
        """Ack an input. Raises UsageError if the capture acks its inputs itself."""
        self._owner_of(tup).collector.ack(tup)

    def fail(self, tup: AnyTuple) -> None:
        """Fail an input. Raises UsageError if the capture acks its inputs itself."""
        self._owner_of(tup).collector.fail(tup)

    def settle_next(self, *, ack: bool = True) -> None:
        """Ack, or fail, the oldest input that is not settled."""
        tup = self.unsettled[0]
        if ack:
            self.ack(tup)
        else:
            self.fail(tup)

    def reset_timeout(self, tup: AnyTuple) -> None:
        """Restart the timeout of an input. Raises UsageError if the capture acks its inputs itself."""
        self._owner_of(tup).collector.reset_timeout(tup)

    async def arrived(self, count: int) -> None:
        """Wait until `count` inputs have arrived since the start."""
        while len(self.arrivals) < count:
            await self._waiters.wait()

    def add_arrival(self, tup: Tuple, bolt: "CaptureBolt") -> None:
        """Store an input, and ack it unless the test settles inputs. The bolts call this."""
        self.arrivals.append(Arrival(tup, bolt.context.task_id, bolt.context.clock.now()))
        if self.settles:
            bolt.collector.ack(tup)
        else:
            self._owners[tup] = bolt
        self._waiters.wake_all()

    def _owner_of(self, tup: AnyTuple) -> "CaptureBolt":
        owner = self._owners.get(tup)
        if owner is None:
            hint = "To settle in the test, write Capture(settles=False)."
            raise UsageError(f"{tup!r} is not an input of this capture, or the capture acked it", hint=hint)
        return owner


class CaptureBolt(Bolt):
    """Instance of a task whose inputs go to a `Capture`."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture

    def execute(self, tup: AnyTuple) -> None:
        """Hand one input to the capture."""
        assert isinstance(tup, Tuple)
        self.capture.add_arrival(tup, self)
