from collections import deque
from collections.abc import Callable
from typing import final

from _native.tuples import Tuple

@final
class Backpressure:
    """The full mailboxes and holds that stop one task from emitting."""

    def __init__(self, on_resume: Callable[[], object] | None = None) -> None: ...
    @property
    def stopped_by(self) -> int: ...
    def set_on_resume(self, on_resume: Callable[[], object] | None) -> None:
        """Call on_resume() when the last stop ends."""

@final
class Mailbox:
    """Bounded FIFO of tuples with one consumer. `capacity` in tuples, at least 2."""

    def __init__(self, capacity: int = 32768, on_wake: Callable[[], object] | None = None) -> None: ...
    @property
    def capacity(self) -> int: ...
    @property
    def parked(self) -> bool: ...
    def park(self) -> bool:
        """Request one on_wake() at the next post. Return False, without a request, if a tuple already waits."""

    def unpark(self) -> None:
        """Withdraw the request of park(), because something else woke the consumer."""

    def set_on_wake(self, on_wake: Callable[[], object] | None) -> None: ...
    def post(self, tup: Tuple, sender: Backpressure | None = None) -> None:
        """Append tup, for tests and rare paths."""

    def take(self) -> Tuple | None:
        """Take the oldest tuple, or None. Stopped senders continue when the mailbox has drained to half."""

    def waiting(self) -> list[Tuple]:
        """Return the tuples in the mailbox, oldest first."""

    def __len__(self) -> int: ...
    @property
    def full(self) -> bool:
        """True if the mailbox has `capacity` tuples or more."""

    @property
    def nbytes(self) -> int: ...

@final
class SignalRing:
    """FIFO of signals with one consumer. It has no capacity of its own, but the number of open trees bounds it (BP-5)."""

    def __init__(self, on_wake: Callable[[], object] | None = None) -> None: ...
    @property
    def parked(self) -> bool: ...
    @property
    def objects(self) -> deque[object]: ...
    def park(self) -> bool:
        """Request one on_wake() at the next signal. Return False if a signal already waits."""

    def unpark(self) -> None: ...
    def set_on_wake(self, on_wake: Callable[[], object] | None) -> None: ...
    def signal(self, kind: int, root: int = 0, value: int = 0, task: int = -1, carried: object = None) -> None:
        """Send one signal, for rare paths and tests. `carried` is the object of a FAIL, OWN_CLOCK, FAILED or REPLY."""

    def clear(self) -> None:
        """Drop all signals, because the consumer died."""

    def waiting(self) -> list[tuple[int, int, int, int]]:
        """Return the signals as (kind, root, value, task), oldest first."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

@final
class HeldTuples:
    """Tuples that a bolt task holds back, in order. The bound of the mailbox does not apply to them.

    These are the tuples of held sources, and the sources are stopped meanwhile. While the gate is closed, these are the tuples of all
    sources, and no source is stopped.
    """

    def __init__(self) -> None: ...
    def hold(self, source_task: int, sender: Backpressure) -> bool:
        """Hold back tuples of source_task from now on, and stop that task. False if it is already held."""

    def release(self, source_task: int, sender: Backpressure) -> None:
        """Put the held tuples of source_task next in line, in order, and let that task continue."""

    def set_gate(self, closed: bool) -> None:
        """Hold back tuples of all sources except control tuples, or put the held tuples next in line, in order."""

    def tuples(self) -> list[Tuple]:
        """Return all tuples that are held back or next in line."""

    def clear(self) -> None:
        """Drop all tuples, at the end of a run."""

    def __len__(self) -> int: ...
