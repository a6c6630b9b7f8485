"""Model of an acker's ledger: open trees with sets of edges, and an age in rotations.

The model of tests/native/test_ack_ledger.py. It has no XOR and no generations: the first mention of an edge adds it, the second removes it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["open", "acked", "failed"]


@dataclass
class Tree:
    unsettled: set[int] = field(default_factory=set)
    task: int = -1
    opened: bool = False
    failed: bool = False
    own_clock: bool = False
    age: int = 0
    """Rotations since its last progress."""


@dataclass
class AckLedgerModel:
    lifetime: int
    from_progress: bool = True
    timeouts: bool = True
    trees: dict[int, Tree] = field(default_factory=dict)

    def init(self, root: int, edges: Collection[int], task: int) -> Verdict:
        tree = self.trees.setdefault(root, Tree())
        tree.opened, tree.task, tree.age = True, task, 0
        tree.unsettled ^= set(edges)
        return self._verdict(root)

    def ack(self, root: int, edges: Collection[int]) -> Verdict:
        tree = self.trees.setdefault(root, Tree())
        tree.unsettled ^= set(edges)
        if self.from_progress or not tree.opened:
            tree.age = 0
        return self._verdict(root)

    def fail(self, root: int) -> Verdict:
        tree = self.trees.setdefault(root, Tree())
        tree.failed, tree.age = True, 0
        return self._verdict(root)

    def reset(self, root: int) -> None:
        if root in self.trees:
            self.trees[root].age = 0

    def set_own_clock(self, root: int) -> None:
        self.trees.setdefault(root, Tree()).own_clock = True

    def drop_task(self, task: int) -> int:
        dropped = [root for root, tree in self.trees.items() if tree.opened and tree.task == task]
        for root in dropped:
            del self.trees[root]
        return len(dropped)

    def grow_older(self) -> None:
        for tree in self.trees.values():
            tree.age += 1

    def over(self) -> dict[int, int]:
        """Roots that a sweep must find, each with its spout task."""
        return {
            root: tree.task
            for root, tree in self.trees.items()
            if tree.age >= self.lifetime and not tree.own_clock and (self.timeouts or not tree.opened)
        }

    def _verdict(self, root: int) -> Verdict:
        tree = self.trees[root]
        if not tree.opened or (tree.unsettled and not tree.failed):
            return "open"
        del self.trees[root]
        return "failed" if tree.failed else "acked"
