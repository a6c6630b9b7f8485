"""Where one task is with the barriers of its sources (CP-1, CP-2), without tuples and without a port.

A barrier is complete when it has come from every source that it must come from. PREPARE and ROLLBACK hold the sources whose barrier
has come until then. A newer round ends an older one, wherever that is.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from engine.checkpoint.machine import Action

ALIGNING: Final = frozenset({"prepare", "rollback"})


class Barrier(NamedTuple):
    """What a control tuple of the checkpoint stream carries."""

    round: int
    txid: int
    action: Action


Verdict: TypeAlias = Literal["old", "waits", "complete"]


@dataclass(slots=True)
class Alignment:
    """The barriers of one task: of `sources`, task ids, the barrier of the current round has come from those in `come`."""

    sources: frozenset[int]
    current: Barrier | None = None
    come: set[int] = field(default_factory=set)
    complete: bool = True

    def arrives(self, barrier: Barrier, source: int) -> tuple[Verdict, bool]:
        """Note a barrier; return what it comes to, and whether it ended an incomplete alignment (then all sources are to be released).

        From a task that is none of `sources` it is a notice: it ends what is older, and completes nothing.
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
        """Tell whether what this source sends is put aside now."""
        return not self.complete and source in self.come and self.current is not None and self.current.action in ALIGNING

    def waits_for(self) -> Collection[int]:
        """The sources whose barrier has not come, while some have."""
        return self.sources - self.come if not self.complete and self.come else frozenset()
