"""Why a tree timed out: who owes an ack and since when, and, where it was traced, which way it took."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from engine.clock import Clock
from engine.errors import TIMEOUT, Failure
from engine.kernel import Tuple
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.error_report import shown

MOST_TUPLES: Final = 100_000
"""Tuples that are looked through for one slice of a sweep; beyond, the owner stays unnamed."""
MOST_TRACED: Final = 10_000
_PHRASES: Final = {"opened": "opened by", "sent": "sent to", "acked": "acked by", "failed": "failed by"}


class Trace:
    """The paths of sampled trees, while tracing is on: component by component, the latest 10,000 trees."""

    def __init__(self, clock: Clock, component_of: Mapping[int, str], rate: float) -> None:
        self._clock = clock
        self._component_of = component_of
        self._below = int(rate * 2**64)
        self._paths: OrderedDict[int, list[tuple[float, str, int]]] = OrderedDict()

    def __call__(self, event: str, roots: Sequence[int], task: int) -> None:
        """Note an event of a tracked tuple; called by the cores."""
        for root in roots:
            if root < self._below:
                path = self._paths.get(root)
                if path is None:
                    path = self._paths[root] = []
                    if len(self._paths) > MOST_TRACED:
                        self._paths.popitem(last=False)
                path.append((self._clock.now(), event, task))

    def path(self, root: int) -> str | None:
        """`opened by lines[1] +0.000 s, sent to split[2] +0.000 s, acked by split[2] +0.004 s, …`; None where the tree was not traced."""
        events = self._paths.get(root)
        if not events:
            return None
        start = events[0][0]
        places = ((at - start, _PHRASES[event], f"{self._component_of.get(task, '?')}[{task}]") for at, event, task in events)
        return ", ".join(f"{phrase} {place} +{secs:.3f} s" for secs, phrase, place in places)


class Explainer:
    """Names who owes the acks of trees that timed out, from the lists of taken tuples (ACK-15)."""

    def __init__(self, bolts: Iterable[BoltExecutor]) -> None:
        self._bolts = tuple(bolts)
        self.trace: Trace | None = None

    def __call__(self, roots: Sequence[int]) -> Mapping[int, Failure]:
        """Return the Failure of each root."""
        missing, found = set(roots), dict[int, Failure]()
        for bolt, tup, is_taken in islice(self._tuples(), MOST_TUPLES):
            for root in missing.intersection(tup.roots):
                found[root] = self._failure(root, bolt, _owed(bolt, tup) if is_taken else f"{shown(tup, 200)} is still in its mailbox")
                missing.discard(root)
            if not missing:
                break
        for root in missing:
            found[root] = self._failure(root, None, "no task holds a tuple of it: an ack was lost, or its task died with it")
        return found

    def _tuples(self) -> Iterator[tuple[BoltExecutor, Tuple, bool]]:
        """The tuples of all tasks: those that are taken up, then those that wait, which time out by `timeout_from="emit"` alone."""
        for bolt in self._bolts:
            yield from ((bolt, tup, True) for tup in bolt.core.taken_tuples())
        for bolt in self._bolts:
            yield from ((bolt, tup, False) for tup in (*bolt.core.held_tuples.tuples(), *bolt.core.mailbox.waiting()))

    def _failure(self, root: int, bolt: BoltExecutor | None, text: str) -> Failure:
        path = None if self.trace is None else self.trace.path(root)
        if path is not None:
            text = f"{text}; its path: {path}"
        if bolt is None:
            return Failure(TIMEOUT, None, None, text)
        return Failure(TIMEOUT, bolt.place.component_id, bolt.place.task_id, text)


def _owed(bolt: BoltExecutor, tup: Tuple) -> str:
    secs = bolt.core.taken_age_ms(tup, bolt.around.clock.now()) / 1000
    return f"it took {shown(tup, 200)} up {secs:.1f} s ago and has neither acked nor failed it"
