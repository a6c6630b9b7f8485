"""Random programs of emits and settles on the compiled cores, without an event loop, compared with the model.

The topology has two spouts, two bolts that may emit to each other, and any number of ackers. The engine draws every edge id. The model
records the order of all messages, so each verdict and its reason are compared when the verdict comes.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

from engine.kernel import (
    AckerCore,
    BoltBacklog,
    BoltCore,
    BoltEmitter,
    Choice,
    EdgeIds,
    Mailbox,
    Outlet,
    OutStream,
    Signal,
    SignalRing,
    Source,
    SpoutCore,
    SpoutEmitter,
    Tuple,
)
from tests.model.core_sides import AckerSide, BoltSide, Event, SpoutSide
from tests.model.ledger_program import Rule, pick
from tests.model.tree_model import LIFETIME, AckerModel, Delivery, Forest, Message, Verdict

SPOUTS = (1, 2)
BOLTS = (11, 12)
FIELDS = ("tasks", "label")


def misuse(kind: str, **what: object) -> Exception:
    """Fail the test: no program uses the API wrongly."""
    return AssertionError(f"{kind}: {what}")


def tasks_of(bits: int, tasks: tuple[int, ...] = BOLTS) -> tuple[int, ...]:
    """Select some of the tasks, maybe none or all."""
    return tuple(task for number, task in enumerate(tasks) if bits >> number & 1)


class CoreProgram:
    """Cores of a small topology that run a program, and their model."""

    STEPS: ClassVar[tuple[str, ...]] = (
        *("emit", "emit", "emit", *("take", "branch") * 6),
        *("ack", "ack", "ack", "ack_many", "fail", "forget", "settle_again", "reset", "lose"),
        *("acker_turn", "acker_turn", "spout_turn", "spout_turn", "rotate", "refresh"),
        *("bolt_dies", "spout_dies", "acker_dies"),
    )

    def __init__(self, ackers: int, seed: int, *, timeout_from: Rule = "progress") -> None:
        self.rules: dict[str, Any] = {"timeout_from": timeout_from, "timeouts": True}
        self.forest = Forest()
        self.deliveries: dict[tuple[int, int], Delivery] = {}
        self.message_ids = 0
        self.tracked: set[object] = set()
        self.dropped: set[object] = set()
        self.history: list[Event] = []
        rings = [SignalRing() for _ in range(ackers)]
        random, boxes = Random(seed), {task: Mailbox() for task in BOLTS}

        def common(task: int) -> dict[str, Any]:
            ids = EdgeIds(random.getrandbits(64))
            return {"ids": ids, "ackers": rings, "now": lambda: 0.0, "misuse": misuse, "backlog": BoltBacklog()}

        verdicts = {task: SignalRing() for task in SPOUTS}
        reasons = {"failed_reason": "failed", "forgotten_reason": "forgotten"}
        spouts = {task: SpoutCore(task, verdicts=verdicts[task], acker_failure="task_died", **common(task)) for task in SPOUTS}
        bolts = {task: BoltCore(task, mailbox=boxes[task], **reasons, **common(task)) for task in BOLTS}
        for task, core in (spouts | bolts).items():
            outlet = Outlet(Choice.CUSTOM, list(boxes.items()), chooser=lambda values: values[0])
            core.wire({"default": OutStream(Source(f"task{task}", "default", task, FIELDS), [outlet])})
        self.spouts = {task: SpoutSide(spout, SpoutEmitter(spout)) for task, spout in spouts.items()}
        self.bolts = {task: BoltSide(bolt, BoltEmitter(bolt)) for task, bolt in bolts.items()}
        self.ackers = [
            AckerSide(AckerCore(101 + index, ring, verdicts, lambda: 0.0, **self.rules), AckerModel(**self.rules))
            for index, ring in enumerate(rings)
        ]
        for spout_side in self.spouts.values():
            self.bind_spout(spout_side)
        for bolt_side in self.bolts.values():
            self.bind_bolt(bolt_side)

    def bind_spout(self, spout: SpoutSide) -> None:
        """Bind a new instance, which records its verdicts."""
        got = spout.got
        spout.core.bind(
            lambda: None,
            lambda message_id: got.append(("acked", message_id, "")),
            lambda message_id, reason: got.append(("failed", message_id, reason)),
        )

    def bind_bolt(self, bolt: BoltSide) -> None:
        """Bind a new instance, which holds its inputs."""
        bolt.emitter = BoltEmitter(bolt.core)
        bolt.core.bind(bolt.held.append, basic=False)

    def run(self, program: bytes) -> None:
        """Run all steps, then drain everything; nothing may be left.

        Tuples that are still held are acked, or they are never settled and time out.
        """
        for step in range(0, len(program) - 2, 3):
            getattr(self, pick(self.STEPS, program[step]))(program[step + 1], program[step + 2])
        for number in range(len(BOLTS)):
            self.take(number, 255)
        if program[0] % 4:
            self.ack_all()
        self.turn_all()
        for _ in range(LIFETIME):
            for number in range(len(self.ackers)):
                self.rotate(number, 0)
        self.turn_all()
        self.check_the_end()

    def check_the_end(self) -> None:
        """Compare all verdicts: one per tracked message id of a living instance. Ledgers and lists are empty."""
        assert Counter(message_id for _, message_id, _ in self.history) == Counter(self.tracked - self.dropped)
        for spout in self.spouts.values():
            assert spout.core.pending == len(spout.open) == 0
        for acker in self.ackers:
            assert len(acker.core.ledger) == len(acker.model.trees) == 0
        for bolt in self.bolts.values():
            assert bolt.core.taken == len(bolt.held)
            assert bolt.core.taken_tuples() == bolt.held
            assert bolt.core.settled_twice == bolt.settled_twice

    def delivery(self, bolt: BoltSide, tup: Tuple) -> Delivery:
        """Return the model's delivery of a tuple."""
        return self.deliveries[tup["label"], bolt.core.task_id]

    def send(self, deliveries: list[Delivery], label: int) -> None:
        """Model: put deliveries into mailboxes."""
        for each in deliveries:
            self.deliveries[label, each.task] = each
            self.bolts[each.task].waiting.append(each)

    def tell(self, messages: list[Message]) -> None:
        """Model: put messages into the inboxes of their ackers (ACK-7)."""
        for message in messages:
            self.ackers[message.root % len(self.ackers)].inbox.append(message)

    # Steps: emits

    def emit(self, first: int, second: int) -> None:
        """A spout emits to some tasks or to none, tracked or not."""
        spout, tasks, label = self.spouts[pick(SPOUTS, first)], tasks_of(second), self.forest.labels
        if first >= 240:
            spout.emitter.emit((tasks, label))
            self.send(self.forest.plant(None, tasks), label)
            return
        self.message_ids += 1
        message_id = self.message_ids
        before = set(spout.core.open_trees.roots())
        spout.emitter.emit((tasks, label), message_id)
        self.tracked.add(message_id)
        opened = set(spout.core.open_trees.roots()) - before
        if not tasks:
            assert not opened
            spout.acked_now.append(message_id)
            return
        [root] = opened
        deliveries = self.forest.plant(root, tasks)
        self.send(deliveries, label)
        spout.open[root] = message_id
        self.tell([self.forest.init_of(root, deliveries, spout.core.task_id)])

    def branch(self, first: int, second: int) -> None:
        """A bolt emits to some tasks, with 0 to 4 anchors of the tuples that it holds. An anchor may occur twice."""
        bolt, tasks, label = self.bolts[pick(BOLTS, first)], tasks_of(second), self.forest.labels
        count = 1 + first // 8 % 4 if bolt.held and first < 248 else 0
        anchors = [pick(bolt.held, second * (number + 3) + number) for number in range(count)]
        if len(anchors) == 1:
            bolt.emitter.emit((tasks, label), anchors[0])
        else:
            bolt.emitter.emit((tasks, label), anchors)
        self.send(self.forest.branch([self.delivery(bolt, anchor) for anchor in anchors], tasks), label)

    def take(self, first: int, second: int) -> None:
        """A bolt takes tuples out of its mailbox."""
        bolt = self.bolts[pick(BOLTS, first)]
        taken = len(bolt.held)
        bolt.core.run_burst(1 + second * 16)
        expected = [bolt.waiting.popleft() for _ in range(min(1 + second * 16, len(bolt.waiting)))]
        assert [self.delivery(bolt, tup) for tup in bolt.held[taken:]] == expected

    # Steps: settles

    def ack(self, first: int, second: int) -> None:
        """A bolt acks one tuple."""
        bolt = self.bolts[pick(BOLTS, first)]
        if bolt.held:
            tup = bolt.held.pop(second % len(bolt.held))
            bolt.emitter.ack(tup)
            bolt.settled.append(tup)
            self.tell(self.forest.ack(self.delivery(bolt, tup)))

    def ack_many(self, first: int, second: int) -> None:
        """A bolt acks up to seven tuples."""
        for number in range(second % 8):
            self.ack(first, second + number)

    def ack_all(self) -> None:
        """Every bolt acks all tuples that it holds."""
        for number, bolt in enumerate(self.bolts.values()):
            for _ in range(len(bolt.held)):
                self.ack(number, 0)

    def fail(self, first: int, second: int) -> None:
        """A bolt fails one tuple."""
        bolt = self.bolts[pick(BOLTS, first)]
        if bolt.held and first % 4 == 0:
            tup = bolt.held.pop(second % len(bolt.held))
            bolt.emitter.fail(tup)
            bolt.settled.append(tup)
            self.tell(self.forest.fail(self.delivery(bolt, tup), "failed"))

    def forget(self, first: int, second: int) -> None:
        """A bolt forgets one tuple (ACK-15)."""
        bolt = self.bolts[pick(BOLTS, first)]
        if bolt.held and first % 4 == 0:
            tup = bolt.held.pop(second % len(bolt.held))
            delivery = self.delivery(bolt, tup)
            del tup
            bolt.core.flush_forgotten()
            self.tell(self.forest.fail(delivery, "forgotten"))

    def settle_again(self, first: int, second: int) -> None:
        """A bolt settles a tuple a second time, or a tuple of a dead instance (ACK-5)."""
        bolt = self.bolts[pick(BOLTS, first)]
        settle: Callable[[Tuple], None] = bolt.emitter.ack if second % 2 else bolt.emitter.fail
        if bolt.settled:
            settle(pick(bolt.settled, second))
            bolt.settled_twice += 1
        if bolt.ghosts:
            settle(pick(bolt.ghosts, second))

    def reset(self, first: int, second: int) -> None:
        """A bolt resets the timeout of one tuple."""
        bolt = self.bolts[pick(BOLTS, first)]
        if bolt.held:
            tup = pick(bolt.held, second)
            bolt.emitter.reset_timeout(tup)
            self.tell(self.forest.reset(self.delivery(bolt, tup)))

    def lose(self, first: int, second: int) -> None:
        """One tuple is lost on its way, so nobody ever settles it."""
        bolt = self.bolts[pick(BOLTS, first)]
        if bolt.held and first % 4 == 0:
            tup = bolt.held.pop(second % len(bolt.held))
            bolt.core.lose(tup)
            self.delivery(bolt, tup).state = "settled"
            bolt.ghosts.append(tup)

    def refresh(self, first: int, second: int) -> None:
        """The engine refreshes the clocks of waiting tuples (ACK-8)."""
        for bolt in self.bolts.values():
            position = 0
            while position >= 0:
                position = bolt.core.refresh_waiting(position, 1 + first)
            for delivery in bolt.waiting:
                self.tell(self.forest.reset(delivery))

    # Steps: turns of ackers and spouts

    def acker_turn(self, first: int, second: int) -> None:
        """An acker drains its inbox."""
        acker = pick(self.ackers, first)
        while acker.core.run_burst():
            pass
        while acker.inbox:
            message = acker.inbox.popleft()
            if isinstance(message, int):
                acker.model.drop(message)
                continue
            verdict = acker.model.take(message)
            if verdict is not None:
                self.spouts[verdict.task].verdicts.append(verdict)

    def rotate(self, first: int, second: int) -> None:
        """An acker rotates, and sends the verdicts of trees that timed out."""
        acker = pick(self.ackers, first)
        acker.core.inbox.signal(Signal.ROTATE)
        self.acker_turn(first, second)
        over: list[tuple[int, int]] = []
        while acker.core.ledger.sweeping:
            over += acker.core.sweep()
        assert set(over) == acker.model.rotate()
        for root, task in over:
            acker.core.fail_tree(root, task, "timeout")
            self.spouts[task].verdicts.append(Verdict(root, task, "failed", "timeout"))

    def spout_turn(self, first: int, second: int) -> None:
        """A spout gets its verdicts."""
        spout = self.spouts[pick(SPOUTS, first)]
        heard = len(spout.got)
        while spout.core.has_acks_to_flush or len(spout.core.verdicts):
            spout.core.run_burst(1 + second)
        expected: list[Event] = [("acked", message_id, "") for message_id in spout.acked_now]
        spout.acked_now.clear()
        while spout.verdicts:
            expected += self.heard_of(spout, spout.verdicts.popleft())
        assert Counter(spout.got[heard:]) == Counter(expected)
        self.history += expected

    def heard_of(self, spout: SpoutSide, verdict: Verdict | int) -> list[Event]:
        """Model: events that the spout sees because of a verdict."""
        if isinstance(verdict, int):
            for root in spout.open:
                if root % len(self.ackers) == verdict:
                    spout.verdicts.append(Verdict(root, spout.core.task_id, "failed", "task_died"))
            return []
        if verdict.root not in spout.open:
            return []
        return [(verdict.outcome, spout.open.pop(verdict.root), verdict.reason)]

    def turn_all(self) -> None:
        """Let ackers and then spouts take turns until nothing is left to do."""
        for number in range(len(self.ackers)):
            self.acker_turn(number, 0)
        for number in range(len(SPOUTS)):
            self.spout_turn(number, 255)

    # Steps: deaths

    def bolt_dies(self, first: int, second: int) -> None:
        """A bolt's instance dies: the tuples that it took fail, oldest first (ACK-15)."""
        if second % 8:
            return
        bolt = self.bolts[pick(BOLTS, first)]
        assert bolt.core.fail_taken("task_died") == len(bolt.held)
        for tup in bolt.held:
            self.tell(self.forest.fail(self.delivery(bolt, tup), "task_died"))
        bolt.ghosts += bolt.held
        bolt.held.clear()
        bolt.emitter.retire()
        self.bind_bolt(bolt)

    def spout_dies(self, first: int, second: int) -> None:
        """A spout's instance dies: its trees are dropped, and the next instance never hears of them (ACK-13)."""
        if second % 8:
            return
        spout = self.spouts[pick(SPOUTS, first)]
        assert spout.core.drop_instance() == len(spout.open)
        self.dropped |= {*spout.open.values(), *spout.acked_now}
        spout.open.clear()
        spout.acked_now.clear()
        spout.verdicts.clear()
        for acker in self.ackers:
            acker.inbox.append(spout.core.task_id)
        self.bind_spout(spout)

    def acker_dies(self, first: int, second: int) -> None:
        """An acker dies: its trees are lost, and each spout is told (ACK-13)."""
        if second % 8:
            return
        acker = pick(self.ackers, first)
        acker.core.begin(**self.rules)
        acker.model = AckerModel(**self.rules)
        acker.inbox.clear()
        index = self.ackers.index(acker)
        for spout in self.spouts.values():
            spout.core.verdicts.signal(Signal.ACKER_DIED, value=index)
            spout.verdicts.append(index)
