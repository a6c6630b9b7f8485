"""Random trees through burst bolts and bolts in processes, with the exact verdict of each tree.

Each tuple carries the plan of the tree below it. So the verdict is known before the run, and a bolt in a child process needs no model.
A tree fails if one of its tuples does, and is acked otherwise.
"""

from collections import Counter, deque
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, Final, Literal, TypeAlias

from engine import BasicBolt, BurstSpout, Config, Spout, SpoutExhausted, Topology, TopologyBuilder, Tuple
from engine.testing import run_topology
from tests.model.carrying_bolts import BOLTS, Deed, Kind, Twig

Grouping: TypeAlias = Literal["shuffle", "fields", "all", "global", "partial_key", "load_aware"]
KINDS: Final[tuple[Kind, ...]] = ("plain", "async", "burst", "settling burst", "async burst")
GROUPINGS: Final[tuple[Grouping, ...]] = ("shuffle", "fields", "all", "global", "partial_key", "load_aware")
DEEDS: Final[tuple[Deed, ...]] = ("ack", "ack", "ack", "ack", "twice", "reset", "later")
FAILING: Final[dict[Deed, str]] = {"fail": "failed", "refuse": "failed", "raise": "error", "forget": "forgotten"}
"""Deeds of which the tree fails, each with the reason of the failure."""


@dataclass(frozen=True)
class Layer:
    """The bolt of one layer."""

    kind: Kind
    tasks: int
    grouping: Grouping
    processes: bool

    @property
    def copies(self) -> int:
        """Number of tasks that get each tuple."""
        return self.tasks if self.grouping == "all" else 1

    @property
    def may_repeat(self) -> bool:
        """Whether a tuple that runs again after an error of its burst may send the same again (BU-1)."""
        return self.kind in ("settling burst", "async burst")


class CarryingProgram:
    """One run of random trees through layers of bolts."""

    def __init__(self, layers: list[Layer], trees: int, seed: int, *, burst_spout: bool) -> None:
        self.layers, self.seed, self.burst_spout = layers, seed, burst_spout
        self.random = Random(seed)
        self.labels = count(1)
        self.failing = self.random.choice([0, 0.02, 0.1])
        self.trees = {number: self.draw(0) for number in range(trees)}
        self.waiting = deque(self.trees.items())
        self.verdicts: dict[int, list[str]] = {number: [] for number in self.trees}
        """Verdicts of each tree: `acked`, or the reason of its failure."""
        self.seen: Counter[int] = Counter()

    def draw(self, depth: int) -> Twig:
        """Draw a tree. A twig that belongs to two trees, and all below it, never fail."""
        return self._twig(depth, may_fail=True)

    def _twig(self, depth: int, *, may_fail: bool) -> Twig:
        is_joined = depth > 0 and self.random.random() < 0.2
        may_fail = may_fail and not is_joined
        fails = may_fail and self.random.random() < self.failing
        deed = self.random.choice(list(FAILING) if fails else DEEDS)
        children = 0 if depth + 1 == len(self.layers) else self.random.choice([0, 1, 1, 2, 3])
        label = next(self.labels)
        return Twig(label, deed, is_joined, tuple(self._twig(depth + 1, may_fail=may_fail) for _ in range(children)))

    def run(self) -> None:
        """Run all trees, and compare each verdict and each count."""
        config = Config(
            acker_executors=self.random.choice([1, 2, 5]),
            burst=self.random.choice([1, 3, 256]),
            executor_receive_buffer_size=self.random.choice([2, 10, 1000]),
            max_spout_pending=self.random.choice([None, 1, 10]),
            enable_message_timeouts=False,
        )
        finished = run_topology(self.topology(), config, seed=self.seed, shuffle=True)
        assert finished.state == "complete"
        for number, tree in self.trees.items():
            self.check(number, tree)

    def check(self, number: int, tree: Twig) -> None:
        """Check that a tree has one verdict, the expected one. The tuples of an acked tree have all arrived, and none twice."""
        [verdict] = self.verdicts[number]
        reasons = {reason for depth, twig in tree.all() if (reason := self.reason_of(depth, twig)) is not None}
        assert verdict in (reasons or {"acked"}), (tree, verdict)
        for depth, twig in tree.all():
            expected = 1
            for layer in self.layers[: depth + 1]:
                expected *= layer.copies
            assert self.seen[twig.label] >= expected or reasons, (tree, twig, self.seen[twig.label])
            assert self.seen[twig.label] <= expected or any(layer.may_repeat for layer in self.layers[: depth + 1]), (tree, twig)

    def reason_of(self, depth: int, twig: Twig) -> str | None:
        """Reason for which this tuple fails its tree, or None."""
        if twig.deed == "forget" and "burst" in self.layers[depth].kind:
            return "failed"
        return FAILING.get(twig.deed)

    def topology(self) -> Topology:
        """Build a chain of the layers, and a sink for the reports of all of them."""
        builder = TopologyBuilder("carrying")
        builder.set_spout("trees", self.spout)
        sink = builder.set_bolt("sink", lambda: Sink(self.seen))
        for number, layer in enumerate(self.layers):
            name, before = f"layer{number}", f"layer{number - 1}" if number else "trees"
            declarer = builder.set_bolt(name, BOLTS[layer.kind], layer.tasks, processes=layer.processes)
            keys = ("label",) if layer.grouping in ("fields", "partial_key") else ()
            getattr(declarer, f"{layer.grouping}_grouping")(before, *keys)
            sink.shuffle_grouping(name, "seen")
        return builder.build()

    def spout(self) -> Spout:
        """Return the spout."""
        return ManyTrees(self) if self.burst_spout else OneTree(self)


class OneTree(Spout):
    """Emits one tree in a call."""

    output_fields = ("twig", "label")

    def __init__(self, program: CarryingProgram) -> None:
        self.program = program

    def next_tuple(self) -> None:
        if not self.program.waiting:
            raise SpoutExhausted
        number, tree = self.program.waiting.popleft()
        self.collector.emit((tree, tree.label), number)

    def ack(self, message_id: Any) -> None:
        self.program.verdicts[message_id].append("acked")

    def fail(self, message_id: Any) -> None:
        assert self.context.failure is not None
        self.program.verdicts[message_id].append(self.context.failure.reason)


class ManyTrees(BurstSpout, OneTree):
    """Emits many trees in a call, and gets lists of acks."""

    def next_tuples(self, limit: int) -> None:
        waiting = self.program.waiting
        if not waiting:
            raise SpoutExhausted
        chosen = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
        self.collector.emit_many([(tree, tree.label) for _, tree in chosen], message_ids=[number for number, _ in chosen])

    def ack_many(self, message_ids: list[Any]) -> None:
        for message_id in message_ids:
            self.program.verdicts[message_id].append("acked")


class Sink(BasicBolt):
    """Counts the tuples that bolts report."""

    def __init__(self, seen: Counter[int]) -> None:
        self.seen = seen

    def execute(self, tup: Tuple) -> None:
        self.seen[tup["label"]] += 1
