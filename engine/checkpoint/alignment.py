"""Aligns the barriers of one task (CP-1, CP-2). `Alignment` is a plain object that uses neither tuples nor the task port.

A barrier is complete when it has arrived from every source. Until then, PREPARE and ROLLBACK hold the sources whose barrier has
arrived. A newer round ends an older round at any point.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from engine.checkpoint.machine import Action

ALIGNING: Final = frozenset({"prepare", "rollback"})


class Barrier(NamedTuple):
    """Values of a control tuple of the checkpoint stream."""

    round: int
    txid: int
    action: Action


Verdict: TypeAlias = Literal["old", "waits", "complete"]


@dataclass(slots=True)
class Alignment:
    """Barriers of the current round at one task. sources: ids of all source tasks. come: sources whose barrier has arrived."""

    sources: frozenset[int]
    current: Barrier | None = None
    come: set[int] = field(default_factory=set)
    complete: bool = True

    def arrives(self, barrier: Barrier, source: int) -> tuple[Verdict, bool]:
        """Record a barrier, and return the decision about this barrier.

        The second value is True if the barrier ended an incomplete alignment. The caller then releases all sources.

        A barrier from a task that is not in `sources` is a notice. A notice ends an older alignment, but completes no alignment.
        """
        round_ = -1 if self.current is None else self.current.round
        if barrier.round < round_:
            return "old", False
        ended = False
        if barrier.round > round_:
            ended = not self.complete and bool(self.come)
            self.current, self.come, self.complete = barrier, set(), False
        if self.complete:
            return "old", ended
        if source in self.sources:
            self.come.add(source)
        self.complete = self.come == self.sources
        return ("complete" if self.complete else "waits"), ended

    def holds(self, source: int) -> bool:
        """Tell whether the data of this source must wait now."""
        return not self.complete and source in self.come and self.current is not None and self.current.action in ALIGNING

    def waits_for(self) -> Collection[int]:
        """Return the sources whose barrier is missing, if another barrier of the round has arrived."""
        return self.sources - self.come if not self.complete and self.come else frozenset()
