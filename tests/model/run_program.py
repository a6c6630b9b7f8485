"""Random tuple DAGs through whole runs in virtual time, compared with the model.

The program decides what a bolt does with an input, and the bolt reports it to the model. No verdict depends on the order in which
settles reach
an acker. A tree is acked if all its deliveries are, fails if one of them does, and times out otherwise.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial

from engine import Bolt, Config, Topology, TopologyBuilder, Tuple
from engine.testing import ACKER, DropTuple, Fault, Feeder, InjectedError, KillTask, run_topology
from tests.model.ledger_program import pick
from tests.model.tree_model import AckerModel, Delivery, Forest, Message, Verdict

TASKS = {"a": 2, "b": 2, "c": 3}
TARGETS = {"source": ("a", "b"), "a": ("b", "c"), "b": ("c",), "c": ()}
LINKS = tuple((source, target) for source, targets in TARGETS.items() for target in targets)
GROUPINGS = ("all", "shuffle", "load_aware", "global", "partial_key")
DEEDS = (
    *("ack", "ack", "ack", "ack", "ack", "branch", "branch", "branch", "branch", "join", "join", "join"),
    *("hold", "hold", "twice", "fail", "forget", "keep", "explode"),
)


class RunProgram:
    """One run under a program."""

    def __init__(self, ackers: int, seed: int) -> None:
        self.ackers, self.seed = ackers, seed
        self.program = b"\0"
        self.feeder = Feeder("label")
        self.forest, self.judge = Forest(), AckerModel()
        self.verdicts: dict[int, Verdict] = {}
        """Model: verdict by root, which is the message id."""
        self.reasons: defaultdict[int, set[str]] = defaultdict(set)
        self.labels = 0
        self.coming: dict[tuple[int, str], list[Delivery]] = {}
        self.kept: list[Tuple] = []

    def byte(self, number: int) -> int:
        """One byte of the program; the number may be larger than its length."""
        return self.program[number % len(self.program)]

    def run(self, program: bytes) -> None:
        """Feed the trees, run the topology, and compare the verdicts."""
        self.program = program
        for number in range(1 + self.byte(0) % 12):
            self.plant(tracked=self.byte(number) < 240)
        self.feeder.close()
        config = Config(
            acker_executors=self.ackers,
            message_timeout_secs=30,
            executor_receive_buffer_size=2 + self.byte(1) % 8,
            burst=1 + self.byte(2) % 5,
            max_spout_pending=1 + self.byte(3) % 8 if self.byte(4) % 2 else None,
            max_task_restarts=1000,
        )
        finished = run_topology(self.topology(), config, faults=list(self.faults()), seed=self.seed, shuffle=True)
        assert finished.state == "complete"
        self.check(acker_died=any(isinstance(strike.fault, KillTask) for strike in finished.strikes))

    def check(self, *, acker_died: bool) -> None:
        """Each root has one verdict: the model's, or the one of its acker's death."""
        told = [verdict.message_id for verdict in self.feeder.verdicts]
        assert len(told) == len(set(told))
        assert not self.feeder.unsettled
        for verdict in self.feeder.verdicts:
            assert isinstance(verdict.message_id, int)
            expected = self.verdicts.get(verdict.message_id)
            if verdict.failure is None:
                assert expected is not None, verdict
                assert expected.outcome == "acked", verdict
            elif acker_died and verdict.failure.component_id == ACKER:
                continue
            elif expected is None:
                assert verdict.failure.reason == "timeout", verdict
            else:
                assert expected.outcome == "failed", verdict
                assert verdict.failure.reason in self.reasons[verdict.message_id], verdict

    def topology(self) -> Topology:
        """Build a topology of `source` → `a` and `b`, `a` → `b` and `c`, `b` → `c`."""
        builder = TopologyBuilder("program")
        builder.set_spout("source", self.feeder)
        for component_id, tasks in TASKS.items():
            make = partial(AwaitingBolt if component_id == "b" else ProgrammedBolt, self)
            on_error = "restart" if self.restarts(component_id) else "fail"
            concurrency = 3 if component_id == "b" and on_error == "fail" else 1
            declarer = builder.set_bolt(component_id, make, tasks, on_error=on_error, concurrency=concurrency, tick_tuple_freq_secs=7)
            for source, target in LINKS:
                if target == component_id:
                    grouping = self.grouping(source, target)
                    keys = ("label",) if grouping == "partial_key" else ()
                    getattr(declarer, f"{grouping}_grouping")(source, *keys)
        return builder.build()

    def grouping(self, source: str, target: str) -> str:
        """Grouping of a link."""
        return pick(GROUPINGS, self.byte(5 + LINKS.index((source, target))))

    def restarts(self, component_id: str) -> bool:
        """Whether an exception ends the instance of a component."""
        return self.byte(ord(component_id)) % 3 == 0

    def faults(self) -> Iterator[Fault]:
        """Faults: some tuples are lost on their way, and in some runs an acker dies."""
        if self.byte(10) % 2:
            yield DropTuple(*pick(LINKS, self.byte(11)), number=1 + self.byte(12) % 16)
        if self.byte(13) % 4 == 0:
            yield KillTask(ACKER, self.byte(14) % self.ackers, at_call=1 + self.byte(15) % 8, of=pick(("a", "b", "c"), self.byte(16)))

    # The model's side of the components

    def plant(self, *, tracked: bool) -> None:
        """Feed one tuple to the source."""
        label = self.next_label()
        message_id = self.feeder.feed((label,), tracked=tracked)
        root = message_id if isinstance(message_id, int) else None
        deliveries = [each for tasks in self.copies("source", label) for each in self.forest.plant(root, tasks)]
        self.expect("source", label, deliveries)
        if root is not None:
            self.tell([self.forest.init_of(root, deliveries, 1)])

    def branch(self, source: str, anchors: Iterable[Delivery]) -> int:
        """Emit one tuple from a bolt; return its label."""
        label, anchors = self.next_label(), list(anchors)
        deliveries = [each for tasks in self.copies(source, label) for each in self.forest.branch(anchors, tasks)]
        self.expect(source, label, deliveries)
        return label

    def copies(self, source: str, label: int) -> list[range]:
        """Placeholders for the tasks of each subscriber that get a copy of the tuple."""
        return [range(TASKS[target] if self.grouping(source, target) == "all" else 1) for target in TARGETS[source]]

    def expect(self, source: str, label: int, deliveries: list[Delivery]) -> None:
        """Record the expected deliveries, by label and component."""
        rest = iter(deliveries)
        for target, tasks in zip(TARGETS[source], self.copies(source, label), strict=True):
            self.coming[label, target] = [next(rest) for _ in tasks]

    def arrived(self, tup: Tuple, component_id: str) -> Delivery:
        """Return the model's delivery of an input. Copies of one tuple are interchangeable."""
        return self.coming[tup["label"], component_id].pop()

    def next_label(self) -> int:
        """Number of the next tuple."""
        self.labels += 1
        return self.labels

    def tell(self, messages: list[Message]) -> None:
        """Apply messages to the model. A later failure of a root that has its verdict is ignored."""
        for message in messages:
            if message.kind == "fail" and message.root not in self.verdicts:
                self.reasons[message.root].add(message.reason)
            verdict = self.judge.take(message)
            if verdict is not None:
                self.verdicts.setdefault(message.root, verdict)
            elif message.kind == "fail":
                self.reasons[message.root].add(message.reason)


class ProgrammedBolt(Bolt):
    """Treats each input as the program says, and reports it to the model."""

    output_fields = "label"

    def __init__(self, program: RunProgram) -> None:
        self.program = program
        self.sides: dict[int, Delivery] = {}
        """Model: deliveries that this instance took and has not settled, by label. It holds no tuple."""
        self.held: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.act(tup)

    def act(self, tup: Tuple) -> None:
        """Do one action for an input."""
        if tup.is_tick:
            for each in self.held:
                self.ack(each)
            self.held.clear()
            return
        program, label = self.program, tup["label"]
        self.sides[label] = program.arrived(tup, self.context.component_id)
        deed = pick(DEEDS, program.byte(label * 7 + self.context.task_id))
        if deed == "keep" and program.restarts(self.context.component_id):
            deed = "hold"
        getattr(self, deed if TARGETS[self.context.component_id] or deed not in ("branch", "join") else "ack")(tup)

    def emit(self, anchors: list[Tuple]) -> None:
        """Emit one tuple with these anchors."""
        label = self.program.branch(self.context.component_id, [self.sides[anchor["label"]] for anchor in anchors])
        self.collector.emit((label,), anchors)

    def settle(self, tup: Tuple, reason: str | None = None) -> None:
        """Model: settle an input."""
        side = self.sides.pop(tup["label"])
        self.program.tell(self.program.forest.ack(side) if reason is None else self.program.forest.fail(side, reason))

    # Actions

    def ack(self, tup: Tuple) -> None:
        self.settle(tup)
        self.collector.ack(tup)

    def branch(self, tup: Tuple) -> None:
        for _ in range(1 + tup["label"] % 2):
            self.emit([tup])
        self.ack(tup)

    def join(self, tup: Tuple) -> None:
        """Emit with the input and the held tuples as anchors; with the input twice if none is held."""
        self.emit([tup, *(self.held[:2] or [tup])])
        self.ack(tup)

    def hold(self, tup: Tuple) -> None:
        """Ack at the next tick."""
        self.held.append(tup)

    def twice(self, tup: Tuple) -> None:
        self.ack(tup)
        self.collector.fail(tup)
        self.collector.ack(tup)

    def fail(self, tup: Tuple) -> None:
        self.settle(tup, "failed")
        self.collector.fail(tup)

    def forget(self, tup: Tuple) -> None:
        self.settle(tup, "forgotten")

    def keep(self, tup: Tuple) -> None:
        """Never settle the input."""
        self.program.kept.append(tup)

    def explode(self, tup: Tuple) -> None:
        """Raise, maybe after an emit. If the instance dies, the tuples that it holds fail with it."""
        if TARGETS[self.context.component_id] and tup["label"] % 2:
            self.emit([tup])
        self.settle(tup, "error")
        if self.program.restarts(self.context.component_id):
            for side in self.sides.values():
                self.program.tell(self.program.forest.fail(side, "task_died"))
        raise InjectedError(f"label {tup['label']}")


class AwaitingBolt(ProgrammedBolt):
    """Takes some time, and several inputs at once."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(self.program.byte(int(self.context.clock.now() * 1000)) / 1000)
        self.act(tup)
