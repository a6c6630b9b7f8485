"""Resets the timeouts of trees that only wait (ACK-8), and finds the task that owes a missing ack (ACK-15).

Before each rotation of the ackers, `TreeClock` resets the timeouts of all tuples that wait. So a tree whose tuples only wait never times
out. The hot path has no cost.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from engine.clock import Clock
from engine.config import Config
from engine.errors import TIMEOUT, Failure
from engine.kernel import LIFETIME, Signal, Tuple
from engine.runtime.acker_executor import SLICE_SECS, AckerExecutor
from engine.runtime.bolt_executor import BoltExecutor
from engine.safe_text import safe_repr

TUPLES_PER_STEP: Final = 2048
MOST_TUPLES: Final = 100_000
"""Maximum number of tuples that one explanation examines.

If no examined tuple belongs to a tree, the task that owes the ack stays unknown.
"""
MOST_TRACED: Final = 10_000
_EVENT_TEXTS: Final = {"opened": "opened by", "sent": "sent to", "acked": "acked by", "failed": "failed by", "taken back": "taken back by"}


def rotation_secs(config: Config) -> float:
    """Return the seconds between two rotations. A tree fails at the LIFETIME-th rotation after its last progress.

    The divisor is LIFETIME - 2, because the last reset of a waiting tuple may be one rotation old when its wait ends.
    """
    return config.message_timeout_secs / (LIFETIME - 2)


class TreeClock:
    """Rotates the ledgers of all ackers of a run."""

    def __init__(self, config: Config, bolts: Sequence[BoltExecutor], ackers: Sequence[AckerExecutor]) -> None:
        self._period_secs = rotation_secs(config)
        self._resets_waiting = config.timeout_from == "progress"
        self._bolts = bolts
        self._ackers = ackers

    async def run(self) -> None:
        """Rotate until cancelled."""
        while True:
            await asyncio.sleep(self._period_secs)  # counted from the end of the last rotation, so that no tree fails early
            if self._resets_waiting:
                await self._reset_waiting()
            for acker in self._ackers:
                acker.inbox.signal(Signal.ROTATE)

    async def _reset_waiting(self) -> None:
        """Reset the timeouts of all waiting tuples. Yields to the event loop every 5 ms."""
        now = asyncio.get_running_loop().time
        began = now()
        for bolt in self._bolts:
            core = bolt.core
            position = 0
            while position >= 0:
                position = core.refresh_waiting(position, TUPLES_PER_STEP)
                if now() - began >= SLICE_SECS:
                    await asyncio.sleep(0)
                    began = now()
            core.refresh_held()
            for tup in bolt.calls.waiting():
                core.reset_timeout(tup)


def event_text(event: str, task: int, component_of: Mapping[int, str]) -> str:
    """Return the text of an event that a core traces: `sent to split[2]`."""
    return f"{_EVENT_TEXTS[event]} {component_of.get(task, '?')}[{task}]"


class TreeTrace:
    """Paths of sampled trees while tracing is on. A path has the tasks that the tree visited. Keeps the latest 10,000 trees."""

    def __init__(self, clock: Clock, component_of: Mapping[int, str], rate: float) -> None:
        self._clock = clock
        self._component_of = component_of
        self._below = int(rate * 2**64)
        self._paths: OrderedDict[int, list[tuple[float, str, int]]] = OrderedDict()

    def __call__(self, event: str, roots: Sequence[int], task: int) -> None:
        """Note an event of a tracked tuple. Called by the cores."""
        for root in roots:
            if root < self._below:
                path = self._paths.get(root)
                if path is None:
                    path = self._paths[root] = []
                    if len(self._paths) > MOST_TRACED:
                        self._paths.popitem(last=False)
                path.append((self._clock.now(), event, task))

    def path(self, root: int) -> str | None:
        """Return the path of a tree, None if it was not traced.

        The form is `opened by lines[1] +0.000 s, sent to split[2] +0.000 s, acked by split[2] +0.004 s, …`.
        """
        events = self._paths.get(root)
        if not events:
            return None
        start = events[0][0]
        return ", ".join(f"{event_text(event, task, self._component_of)} +{at - start:.3f} s" for at, event, task in events)


class TimeoutExplainer:
    """Finds the tasks that owe the acks of trees that timed out (ACK-15). Examines the taken tuples first, then the waiting tuples."""

    def __init__(self, bolts: Iterable[BoltExecutor]) -> None:
        self._bolts = tuple(bolts)
        self.trace: TreeTrace | None = None

    def __call__(self, roots: Iterable[int]) -> Iterator[tuple[int, Failure] | None]:
        """Yield each root with its Failure. Yield None after each examined tuple of other trees, so that the caller may pause."""
        missing, examined = set(roots), 0
        for bolt, tup, is_taken in self._tuples():
            for root in missing.intersection(tup.roots):
                missing.discard(root)
                yield root, self._failure(root, bolt, _owed_text(bolt, tup) if is_taken else _waiting_text(tup))
            examined += 1
            if not missing or examined == MOST_TUPLES:
                break
            yield None
        unknown = "no task holds a tuple of this tree: an ack was lost, or a task died with the tuple"
        if examined == MOST_TUPLES:
            unknown = f"the task that owes the ack is not known, because only the first {MOST_TUPLES:,} of the open tuples were examined"
        for root in missing:
            yield root, self._failure(root, None, unknown)

    def _tuples(self) -> Iterator[tuple[BoltExecutor, Tuple, bool]]:
        """Yield the taken tuples of all tasks, then the waiting ones, which time out only with `timeout_from="emit"`."""
        for bolt in self._bolts:
            yield from ((bolt, tup, True) for tup in bolt.core.oldest_taken(MOST_TUPLES))
        for bolt in self._bolts:
            yield from ((bolt, tup, False) for tup in (*bolt.core.held_tuples.tuples(), *bolt.core.mailbox.waiting()))

    def _failure(self, root: int, bolt: BoltExecutor | None, text: str) -> Failure:
        path = None if self.trace is None else self.trace.path(root)
        if path is not None:
            text = f"{text}; its path: {path}"
        if bolt is None:
            return Failure(TIMEOUT, None, None, text)
        return Failure(TIMEOUT, bolt.info.component_id, bolt.info.task_id, text)


def _waiting_text(tup: Tuple) -> str:
    return f"{safe_repr(tup, 200)} is still in its mailbox"


def _owed_text(bolt: BoltExecutor, tup: Tuple) -> str:
    secs = bolt.core.taken_age_ms(tup, bolt.run_context.clock.now()) / 1000
    return f"it took {safe_repr(tup, 200)} {secs:.1f} s ago and has neither acked nor failed it"
