"""Accumulators of a sliding window, merged step by step.

A window of 60 s every 1 s has 60 panes, and merging all of them at each close would cost 60 merges for each key and second. Each key
has two stacks instead: `front` holds what the oldest panes merge to from each of them on, `back` holds the newer panes and their merge.
A pane is merged once when it comes and once when the stacks are turned over, and a result is one more merge. Nothing is subtracted, so
it serves every `merge`, and sums of floats do not drift. Only panes in which a key has rows stand there, so the memory is a multiple of
what the state holds anyway. The stacks are not stored; they are made again from the panes.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from engine.streams.aggregates import Reduction
from engine.streams.times import FIRST


class _Stacks:
    __slots__ = ("back", "back_acc", "front")

    def __init__(self) -> None:
        self.front: list[tuple[int, Any]] = []
        self.back: list[tuple[int, Any]] = []
        self.back_acc: Any = None


class RunningMerge:
    """Merged accumulators of the panes before `covered`, for windows whose starts only rise."""

    def __init__(self, reduction: Reduction) -> None:
        self._merge = reduction.merge
        self._keys: dict[Any, _Stacks] = {}
        self.covered = 2 * FIRST
        """End of the last window that was asked for."""

    def forget(self) -> None:
        """Begin again, because a pane that is covered has changed."""
        self._keys.clear()
        self.covered = 2 * FIRST

    def append(self, pane: int, accs: Iterable[tuple[Any, Any]]) -> None:
        """Add a pane that is newer than all before."""
        for key, acc in accs:
            stacks = self._keys.get(key)
            if stacks is None:
                stacks = self._keys[key] = _Stacks()
            stacks.back_acc = self._merge(stacks.back_acc, acc) if stacks.back else acc
            stacks.back.append((pane, acc))

    def window(self, start: int) -> Iterator[tuple[Any, Any]]:
        """Yield the keys with rows from `start` on, and forget what is older."""
        over = []
        for key, stacks in self._keys.items():
            front = stacks.front
            while front and front[-1][0] < start:
                front.pop()
            if not front and stacks.back and stacks.back[0][0] < start:
                self._turn(stacks, start)
            if front:
                acc = front[-1][1]
                yield key, self._merge(acc, stacks.back_acc) if stacks.back else acc
            elif stacks.back:
                yield key, stacks.back_acc
            else:
                over.append(key)
        for key in over:
            del self._keys[key]

    def _turn(self, stacks: _Stacks, start: int) -> None:
        """Move the panes from `start` on to the front, each merged with all newer ones."""
        acc: Any = None
        for pane, own in reversed(stacks.back):
            if pane < start:
                break
            acc = self._merge(own, acc) if stacks.front else own
            stacks.front.append((pane, acc))
        stacks.back, stacks.back_acc = [], None
