"""Aligns the barriers of one task (CP-1, CP-2). `Alignment` is a plain object that uses neither tuples nor the task port.

A barrier is complete when it has arrived from every source. Until then, the sources whose barrier has arrived are held.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple


class Barrier(NamedTuple):
    """Values of a control tuple of the checkpoint stream."""

    round: int
    txid: int


@dataclass(slots=True)
class Alignment:
    """Barriers of the current round at one task. sources: ids of all source tasks. come: sources whose barrier has arrived."""

    sources: frozenset[int]
    come: set[int] = field(default_factory=set)

    def arrives(self, source: int) -> bool:
        """Record the barrier of a source. Return True if it is the last one, and begin the next round then.

        There is one round at a time: a round that fails takes all its barriers with it, because a recovery drops every queue.
        """
        self.come.add(source)
        if self.come != self.sources:
            return False
        self.come.clear()
        return True

    def waits_for(self) -> Collection[int]:
        """Return the sources whose barrier is missing, if another barrier of the round has arrived."""
        return self.sources - self.come if self.come else frozenset()
