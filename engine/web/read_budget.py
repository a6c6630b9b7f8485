"""Limits the share of the loop's time that all readers of a run take together (WEB-3).

Whoever asks waits for a turn, and each turn is paid from an account that fills by 5 ms per second. A reader that asks without pause
therefore gets fewer answers, and the run does not notice it. Connections, refused requests and unknown paths are paid in the same way,
because an attacker would choose the cheapest path that is free.

Hosts take turns, and within a host its probes, its scraper and its other requests do. So a host that floods the server waits for itself,
and neither a probe of Kubernetes nor a scraper of Prometheus waits for the flood.

Time is CPU time of the loop's thread, so that a pause of the process costs no reader its turn.
"""

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, NamedTuple

from engine.clock import Clock
from engine.coroutine_steps import by_steps

SHARE: Final = 0.005
"""Largest share of the loop's time that requests take. Samples have a share of their own. What requests do to the caches is not counted."""
MOST_SAVED_SECS: Final = 0.03
"""Time that is saved up while nobody asks. A page with its files takes a third of it."""
MOST_DEBT_SECS: Final = 0.01
"""Largest debt, so that one dear request delays the others by two seconds at most."""
TURN_SECS: Final = 0.0003
"""Price of each turn, besides the time that is measured: the system calls and turns of the loop for a connection or a request."""
MOST_WAITING: Final = 1024
"""Requests that wait for a turn. Further ones are refused, except one of each party that has none."""
MOST_NOTED: Final = 2048
"""Hosts and parties whose latest turn is known."""
MOST_ACCEPTED_IN_A_ROW: Final = 4
"""Turns after which new connections let a request go first. Else a flood of connections would leave no turn for an answer."""
NEW: Final = 0.0
"""The last turn of somebody who had none yet."""


class Party(NamedTuple):
    """Those of one host who wait for the same: what they ask for, and whether this is the first request of a connection."""

    host: str | None
    asks_for: str
    is_new: bool


ACCEPTING: Final = Party(None, "connections", True)
"""The party of new connections. Nobody knows yet what they ask for, so they come first."""


class ReadBudget:
    """The account of one application. Everything happens on the loop of the run."""

    def __init__(self) -> None:
        self._saved_secs = MOST_SAVED_SECS
        self._counted_at = 0.0
        self._now: Callable[[], float] | None = None
        self._cpu: Callable[[], float | None] = lambda: 0.0
        self._waiting: dict[Party, list[tuple[float, int, asyncio.Future[None]]]] = {}
        """Heaps of those who wait, by party: their last turn, a number, and the future that they await."""
        self._latest: OrderedDict[Party | str | None, int] = OrderedDict()
        """Numbers of the latest turns of the hosts and the parties. The latest is the last."""
        self._accepted_in_a_row = 0
        self._numbers = count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._apart_secs = 0.0
        self._is_lifted = False

    def is_full(self, party: Party) -> bool:
        """Return True if so many requests wait that the next one of this party is refused."""
        number = sum(map(len, self._waiting.values()))
        return number >= (MOST_WAITING if party in self._waiting else 2 * MOST_WAITING)

    @property
    def saved_secs(self) -> float:
        """Time that is left in the account. Negative: a debt."""
        self._fill()
        return self._saved_secs

    def debt_secs(self) -> float:
        """Return the time until the account is out of debt. 0: it has something left."""
        return 0.0 if self._is_lifted else max(-self.saved_secs, 0.0) / SHARE

    def charge(self, secs: float) -> None:
        """Take time from the account. Negative: give it back."""
        self._fill()
        self._saved_secs = min(max(self._saved_secs - secs, -MOST_DEBT_SECS), MOST_SAVED_SECS)

    def cpu_secs(self) -> float:
        """Return the CPU time of the loop's thread, from an arbitrary start."""
        return self._cpu() or 0.0

    @contextmanager
    def apart(self, note: Callable[[float], None]) -> Iterator[None]:
        """Leave out the time of a block from what a request is charged, and tell it to `note`, whose share it is."""
        began = self.cpu_secs()
        try:
            yield
        finally:
            secs = self.cpu_secs() - began
            self._apart_secs += secs
            note(secs)

    async def turn(self, party: Party, last: float = NEW) -> float:
        """Wait for a turn, and return its time. Of a party, the one whose `last` turn is the longest ago comes first."""
        if self.debt_secs() > 0 or self._waiting:
            future = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting.setdefault(party, []), (last, next(self._numbers), future))
            self._set_timer()
            await future
        else:
            self._take_turn(party)
        return self._counted_at

    async def run_charged(self, steps: Coroutine[Any, Any, None], charge: Callable[[float], None] | None = None) -> None:
        """Run a coroutine, and charge the time of its steps. The time between them belongs to others. charge: another account."""
        charge = charge or self.charge

        def run_step(step: Callable[..., Any], *given: Any) -> Any:
            self._apart_secs, began = 0.0, self.cpu_secs()
            try:
                return step(*given)
            finally:
                charge(self.cpu_secs() - began - self._apart_secs)

        await by_steps(steps, run_step)

    def lift(self) -> None:
        """Let everybody have a turn at once, because the run has ended."""
        self._is_lifted = True
        self._grant()

    def _grant(self) -> None:
        """Give turns to those who wait, as far as the account allows."""
        self._timer = None
        while self._waiting and self.debt_secs() <= 0:
            party = self._next_party()
            _, _, future = heapq.heappop(self._waiting[party])
            if not self._waiting[party]:
                del self._waiting[party]
            if not future.done():  # its request was not cancelled
                self._take_turn(party)
                future.set_result(None)
        self._set_timer()

    def _next_party(self) -> Party:
        """Return the party whose host has waited the longest. Each of them comes, however much the others ask for."""
        others = [party for party in self._waiting if party != ACCEPTING]
        if ACCEPTING in self._waiting and (not others or self._accepted_in_a_row < MOST_ACCEPTED_IN_A_ROW):
            return ACCEPTING
        return min(others, key=lambda party: (self._latest.get(party.host, 0), self._latest.get(party, 0)))

    def _take_turn(self, party: Party) -> None:
        self.charge(TURN_SECS)
        self._accepted_in_a_row = self._accepted_in_a_row + 1 if party == ACCEPTING else 0
        for noted in (party.host, party):
            self._latest[noted] = next(self._numbers)
            self._latest.move_to_end(noted)
        while len(self._latest) > MOST_NOTED:
            self._latest.popitem(last=False)

    def _set_timer(self) -> None:
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.debt_secs() + 0.001, self._grant)

    def _fill(self) -> None:
        if self._now is None:
            clock = Clock.of(asyncio.get_running_loop())
            self._now, self._cpu = clock.now, clock.measure_cpu()
            self._counted_at = self._now()
        now = self._now()
        self._saved_secs = min(self._saved_secs + (now - self._counted_at) * SHARE, MOST_SAVED_SECS)
        self._counted_at = now
