"""What a run waits for and cannot hasten: a store, a commit, a broker, a consumer that is behind (SV-11).

Whoever waits says so: `with waiting_for("the state store (redis)"): ...`. That costs a microsecond. A wait that takes long is logged once,
and once more when it is over. Meanwhile the snapshot and the page name it, and the run is not ready. The processing of tuples and batches
in user code is no such wait, because only the user knows how long it should take.
"""

import asyncio
from collections.abc import Iterator
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
LOGGER: Final = EngineLogger("engine.runtime")


@dataclass(frozen=True, slots=True)
class LongWait:
    """Something that a run has been waiting for longer than `LONG_SECS`."""

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
        """Waits that the log has told, and when they began. Equal texts of several tasks are one wait."""
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
        now, found = self._now(), dict[str, float]()
        for wait, began in self._open.items():
            if now - began < LONG_SECS:
                break
            found.setdefault(wait.what, now - began)
        return tuple(LongWait(what, secs) for what, secs in found.items())

    def begin(self, wait: "Wait") -> None:
        """Note the begin of a wait. A second call has no effect."""
        self._open.setdefault(wait, self._now())
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECS, self._check)

    def end(self, wait: "Wait") -> None:
        """Note the end of a wait. A second call has no effect."""
        if self._open.pop(wait, None) is not None and wait.what in self._logged and not any(each.what == wait.what for each in self._open):
            LOGGER.warning("%r goes on: it has waited %.0f s for %s", self._name, self._now() - self._logged.pop(wait.what), wait.what)

    def close(self) -> None:
        """Forget all waits, because the run has ended."""
        self._open.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        now = self._now()
        for wait, began in self._open.items():
            if now - began < LONG_SECS:
                break
            if wait.logs and wait.what not in self._logged:
                self._logged[wait.what] = began
                LOGGER.warning("%r has been waiting for %s for %.0f s", self._name, wait.what, now - began)
        if self._open:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECS, self._check)


class Wait:
    """One wait of the run that the caller belongs to. Outside of a run it has no effect.

    A `with` block, or `end` of a wait that was begun by `begun`.
    """

    __slots__ = ("_waits", "logs", "what")

    def __init__(self, what: str, *, logs: bool = True) -> None:
        """what: completes "has been waiting for ...", such as "a commit of group 'orders' in Kafka". Without passwords.

        logs: False if the caller tells the log by itself.
        """
        self.what = what
        self.logs = logs
        self._waits = _CURRENT.get()

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
