"""An explicit model of tuple trees: deliveries, links and open links, as sets. No XOR, no hash table, no generations.

A link is one delivery below one of its anchors, or below its root; the engine draws an edge id for it. The emit of a spout opens the links
of its first deliveries. The ack of a delivery closes its own links and opens those of its children.
A tree is done when its init has come and every link that was opened is closed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["acked", "failed"]
Link: TypeAlias = int
Root: TypeAlias = int

LIFETIME = 12
"""Number of rotations without progress after which a tree times out."""


@dataclass(frozen=True)
class Message:
    """Message of a task to the acker of a root."""

    kind: Literal["init", "ack", "fail", "reset"]
    root: Root
    opens: frozenset[Link] = frozenset()
    closes: frozenset[Link] = frozenset()
    task: int = -1
    reason: str = ""


@dataclass(eq=False)
class Delivery:
    """One tuple that is on its way to a task, or there."""

    label: int
    task: int
    links: dict[Root, set[Link]]
    """Own links by root: one per anchor that has the root."""
    children: set[Link] = field(default_factory=set)
    """Links of the deliveries that are anchored to this one."""
    state: Literal["waiting", "taken", "settled"] = "waiting"


class Forest:
    """Tuples and their trees as a component sees them: emits make deliveries, settles make messages."""

    def __init__(self) -> None:
        self.links = 0
        self.labels = 0

    def plant(self, root: Root | None, tasks: Iterable[int]) -> list[Delivery]:
        """A spout emits: one delivery per task. A root of None is not tracked."""
        return [self._delivery(task, {} if root is None else {root: {self._link()}}) for task in tasks]

    def init_of(self, root: Root, deliveries: Iterable[Delivery], spout: int) -> Message:
        """Message of the spout's task to the acker after such an emit."""
        return Message("init", root, opens=frozenset(link for each in deliveries for link in each.links[root]), task=spout)

    def branch(self, anchors: Iterable[Delivery], tasks: Iterable[int]) -> list[Delivery]:
        """A bolt emits with anchors: one delivery per task, one link per anchor that has a root (ACK-2)."""
        anchors = list(anchors)
        made = []
        for task in tasks:
            links: dict[Root, set[Link]] = {}
            for anchor in anchors:
                if anchor.links:
                    link = self._link()
                    anchor.children.add(link)
                    for root in anchor.links:
                        links.setdefault(root, set()).add(link)
            made.append(self._delivery(task, links))
        return made

    def ack(self, delivery: Delivery) -> list[Message]:
        """Ack a delivery; a second settle does nothing (ACK-5)."""
        if delivery.state == "settled":
            return []
        delivery.state = "settled"
        opens = frozenset(delivery.children)
        return [Message("ack", root, opens=opens, closes=frozenset(links)) for root, links in delivery.links.items()]

    def fail(self, delivery: Delivery, reason: str) -> list[Message]:
        """Fail a delivery; a second settle does nothing."""
        if delivery.state == "settled":
            return []
        delivery.state = "settled"
        return [Message("fail", root, reason=reason) for root in delivery.links]

    def reset(self, delivery: Delivery) -> list[Message]:
        """Restart the timeouts of its trees, unless it is settled."""
        return [] if delivery.state == "settled" else [Message("reset", root) for root in delivery.links]

    def _link(self) -> Link:
        self.links += 1
        return self.links

    def _delivery(self, task: int, links: dict[Root, set[Link]]) -> Delivery:
        self.labels += 1
        return Delivery(self.labels, task, links)


@dataclass
class _Tree:
    open: set[Link] = field(default_factory=set)
    closed_early: set[Link] = field(default_factory=set)
    """Links whose closing ack came before the message that opens them."""
    task: int | None = None
    """Spout task; None before the init."""
    failure: str | None = None
    """Reason of a fail that came before the init."""
    progress: int = 0


@dataclass(frozen=True)
class Verdict:
    """Result of a tree, with the spout task to tell."""

    root: Root
    task: int
    outcome: Outcome
    reason: str = ""


class AckerModel:
    """State of one acker, which applies one message at a time."""

    def __init__(self, *, timeout_from: Literal["progress", "emit"] = "progress", timeouts: bool = True) -> None:
        self.from_progress = timeout_from == "progress"
        self.timeouts = timeouts
        self.rotations = 0
        self.trees: dict[Root, _Tree] = {}

    def take(self, message: Message) -> Verdict | None:
        """Apply a message; return the verdict that follows from it."""
        if message.kind == "reset":
            if message.root in self.trees:
                self.trees[message.root].progress = self.rotations
            return None
        tree = self.trees.get(message.root)
        if tree is None:
            tree = self.trees[message.root] = _Tree(progress=self.rotations)
        if message.kind == "init":
            tree.task = message.task
            tree.progress = self.rotations
        elif tree.task is None or (self.from_progress and message.kind == "ack"):
            tree.progress = self.rotations
        if message.kind == "fail" and tree.failure is None:
            tree.failure = message.reason
        self._draw(tree, message)
        return self._judge(message.root, tree)

    def _draw(self, tree: _Tree, message: Message) -> None:
        for link in message.opens:
            if link in tree.closed_early:
                tree.closed_early.remove(link)
            else:
                tree.open.add(link)
        for link in message.closes:
            if link in tree.open:
                tree.open.remove(link)
            else:
                tree.closed_early.add(link)

    def _judge(self, root: Root, tree: _Tree) -> Verdict | None:
        if tree.task is None:
            return None
        if tree.failure is not None:
            del self.trees[root]
            return Verdict(root, tree.task, "failed", tree.failure)
        if not tree.open and not tree.closed_early:
            del self.trees[root]
            return Verdict(root, tree.task, "acked")
        return None

    def drop(self, task: int) -> None:
        """Forget the trees of a spout task whose instance died."""
        self.trees = {root: tree for root, tree in self.trees.items() if tree.task != task}

    def rotate(self) -> set[tuple[Root, int]]:
        """Forget trees without progress for LIFETIME rotations. Return those whose spout is known, with its task."""
        self.rotations += 1
        over = {
            root: tree
            for root, tree in self.trees.items()
            if self.rotations - tree.progress >= LIFETIME and (self.timeouts or tree.task is None)
        }
        for root in over:
            del self.trees[root]
        return {(root, tree.task) for root, tree in over.items() if tree.task is not None}
