"""What a run waits for and cannot hasten: a store, a commit, a broker, a consumer that is behind (SV-11).

Whoever waits says so: `with waiting_for("the state store (redis)"): ...`. That costs a microsecond. A wait that takes long is logged, again
at growing intervals, and once more when it is over. Meanwhile the snapshot and the page name it, and the run is not ready. The work of user
code on tuples and batches is no such wait, because only the user knows how long it should take.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from engine.clock import Clock
from engine.log import EngineLogger

LONG_SECS: Final = 5.0
"""Time after which a wait is long."""
CHECK_SECS: Final = 1.0
"""Time between two looks at open waits. Without open waits there is no timer."""
LOGGED_AGAIN: Final = 4
"""A wait is logged again when it is so many times as long as at the last time, and after an hour at the latest."""
MOST_UNLOGGED_SECS: Final = 3600.0
LOGGER: Final = EngineLogger("engine.runtime")


@dataclass(frozen=True, slots=True)
class LongWait:
    """Something that a run has been waiting for longer than `LONG_SECS`, or than the wait itself says."""

    what: str
    secs: float


class Waits:
    """The waits of one run. Only the loop's thread uses this object."""

    def __init__(self, name: str, clock: Clock) -> None:
        """name: of the topology, for the log."""
        self._name = name
        self._now = clock.now
        self._open: dict[Wait, float] = {}
        """When each wait began, the oldest first."""
        self._logged: dict[str, float] = {}
        """Waits that the log has told, and when they began. Equal names of several tasks are one wait."""
        self._log_next: dict[str, float] = {}
        """Length at which the log tells each of them again."""
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make these the waits of all asyncio tasks that are created in the block, and of those that they create."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def long_waits(self) -> tuple[LongWait, ...]:
        """Return the waits that take long, the longest first."""
        now, found = self._now(), dict[str, LongWait]()
        for wait in self._long():
            found.setdefault(wait.what, LongWait(wait.text, now - self._open[wait]))
        return tuple(found.values())

    def _long(self) -> "list[Wait]":
        """Return the waits that take long, the oldest first."""
        now = self._now()
        found = [wait for wait, began in self._open.items() if now - began >= wait.long_secs]
        return [wait for wait in found if not wait.yields] or found

    def begin(self, wait: "Wait") -> None:
        """Note the begin of a wait. A second call has no effect."""
        self._open.setdefault(wait, self._now())
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECS, self._check)

    def end(self, wait: "Wait") -> None:
        """Note the end of a wait. A second call has no effect."""
        if self._open.pop(wait, None) is not None and wait.what in self._logged and not any(each.what == wait.what for each in self._open):
            del self._log_next[wait.what]
            LOGGER.warning("%r goes on: it has waited %.0f s for %s", self._name, self._now() - self._logged.pop(wait.what), wait.what)

    def close(self) -> None:
        """Forget all waits, because the run has ended."""
        self._open.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        for wait in self._long():
            began = self._open[wait]
            secs = self._now() - self._logged.get(wait.what, began)
            if wait.logs and secs >= self._log_next.get(wait.what, 0.0):
                self._logged.setdefault(wait.what, began)
                self._log_next[wait.what] = min(secs * LOGGED_AGAIN, secs + MOST_UNLOGGED_SECS)
                LOGGER.warning("%r has been waiting for %s for %.0f s", self._name, wait.text, secs)
        if self._open:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECS, self._check)


class Wait:
    """One wait of the run that the caller belongs to. Outside of a run it has no effect.

    A `with` block, or `end` of a wait that was begun by `begun`.
    """

    __slots__ = ("_detail", "_waits", "logs", "long_secs", "what", "yields")

    def __init__(
        self,
        what: str,
        *,
        logs: bool = True,
        long_secs: float = LONG_SECS,
        detail: Callable[[], str | None] = lambda: None,
        yields: bool = False,
    ) -> None:
        """what: completes "has been waiting for ...", such as "a commit of group 'orders' in Kafka". Without passwords.

        logs: False if the caller tells the log by itself. long_secs: time after which it is long. detail: returns what is known of its
        reason when it is told. yields: it is not told while another wait is long, which is then its reason.
        """
        self.what = what
        self.logs = logs
        self.long_secs = long_secs
        self._detail = detail
        self.yields = yields
        self._waits = _CURRENT.get()

    @property
    def text(self) -> str:
        """What is waited for, with the reason if it is known."""
        detail = self._detail()
        return self.what if detail is None else f"{self.what} ({detail})"

    def __enter__(self) -> None:
        if self._waits is not None:
            self._waits.begin(self)

    def __exit__(self, *_: object) -> None:
        if self._waits is not None:
            self._waits.end(self)

    def begun(self) -> "Wait":
        """Begin the wait, and return it."""
        if self._waits is not None:
            self._waits.begin(self)
        return self

    def end(self) -> None:
        """End the wait. A second call has no effect."""
        if self._waits is not None:
            self._waits.end(self)


waiting_for: Final = Wait
"""How a wait begins in the code: `with waiting_for("the state store (redis)"): ...`."""

_CURRENT: Final[ContextVar[Waits | None]] = ContextVar("waits of a run", default=None)
