"""Models of pipelines that a window of open trees feeds, without an engine."""

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.runtime.spout_window import SpoutWindow


@dataclass(slots=True)
class Seen:
    """Measurements after `since`: trees, seconds, and the sum of the times of all trees."""

    since: float
    trees: int = 0
    secs: float = 0.0
    waited: float = 0.0
    windows: list[int] = field(default_factory=list)

    def count(self, now: float, trees: int, waited: float, window: int) -> None:
        if now > self.since:
            self.trees, self.waited, self.secs = self.trees + trees, self.waited + waited, now - self.since
        self.windows.append(window)

    @property
    def rate(self) -> float:
        return self.trees / self.secs

    @property
    def latency(self) -> float:
        return self.waited / self.trees


@dataclass
class Cpu:
    """One loop that does all work. A turn costs `turn_secs`, and each tree in it `tree_secs`."""

    turn_secs: float = 1e-3
    tree_secs: float = 6e-6
    noise: float = 0.0
    slower: Callable[[float], float] = lambda now: 1.0

    def run(self, window: int | SpoutWindow, secs: float, since: float, seed: int = 0) -> Seen:
        draws, seen = random.Random(seed), Seen(since)
        size = window if isinstance(window, int) else window.max_pending
        now = acked = changes = 0.0
        factor = 1.0
        while now < secs:
            if now >= changes:  # a machine is fast or slow for a while
                factor, changes = math.exp(draws.gauss(0, self.noise)), now + 0.02
            took = (self.turn_secs + size * self.tree_secs) * factor * self.slower(now)
            now, acked = now + took, acked + size
            seen.count(now, size, size * took, size)
            if isinstance(window, SpoutWindow):
                size = window.after_burst(0, now, int(acked), 0, size, True)
        return seen


@dataclass
class Pool:
    """Workers that each wait for one tree at a time."""

    workers: Callable[[float], int] = lambda now: 12
    work_secs: float = 0.005
    noise: float = 0.0
    poll: int = 1
    """Trees that the spout emits at once."""

    def run(self, window: int | SpoutWindow, secs: float, since: float, seed: int = 0) -> Seen:
        draws, seen = random.Random(seed), Seen(since)
        size = window if isinstance(window, int) else window.max_pending
        waiting: deque[float] = deque()
        working: list[tuple[float, float]] = []
        now, acked = 0.0, 0
        while now < secs:
            while len(waiting) + len(working) < size:
                waiting.extend([now] * self.poll)
            while waiting and len(working) < self.workers(now):
                heapq.heappush(working, (now + self.work_secs * math.exp(draws.gauss(0, self.noise)), waiting.popleft()))
            now = working[0][0]
            while working and working[0][0] <= now:  # one burst takes all acks that wait
                began = heapq.heappop(working)[1]
                acked += 1
                seen.count(now, 1, now - began, size)
            if isinstance(window, SpoutWindow):
                size = window.after_burst(0, now, acked, 0, len(waiting) + len(working), True)
        return seen


FIXED = tuple(2**power for power in range(15))


def best_of(pipeline: Cpu | Pool, secs: float) -> Seen:
    """Return the fixed window with the highest rate; among similar ones the smallest."""
    seen = [pipeline.run(size, secs, 0.0) for size in FIXED]
    most = max(each.rate for each in seen)
    return next(each for each in seen if each.rate >= 0.995 * most)
