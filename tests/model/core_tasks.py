"""Compiled spouts, bolts and ackers of a small topology without an event loop, and all forms of their emits.

The topology has two spouts, two bolts that may emit to each other, and any number of ackers. The engine draws every edge id.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from engine.kernel import (
    AckerCore,
    BoltBacklog,
    BoltCollector,
    BoltCore,
    Choice,
    EdgeIds,
    Mailbox,
    Outlet,
    OutStream,
    SignalRing,
    Source,
    SpoutCollector,
    SpoutCore,
    Tuple,
    emit_rows,
)
from tests.model.core_sides import AckerSide, BoltSide, Event, Row, SpoutSide
from tests.model.ledger_program import Rule, pick
from tests.model.tree_model import AckerModel, Delivery, Forest, Message

SPOUTS = (1, 2)
BOLTS = (11, 12)
FIELDS = ("tasks", "label")


def misuse(kind: str, **what: object) -> Exception:
    """Fail the test: no program uses the API wrongly."""
    return AssertionError(f"{kind}: {what}")


def tasks_of(bits: int, tasks: tuple[int, ...] = BOLTS) -> tuple[int, ...]:
    """Select some of the tasks, maybe none or all."""
    return tuple(task for number, task in enumerate(tasks) if bits >> number & 1)


class CoreTasks:
    """Cores of a small topology, and their model."""

    def __init__(self, ackers: int, seed: int, *, timeout_from: Rule = "progress") -> None:
        self.rules: dict[str, Any] = {"timeout_from": timeout_from, "timeouts": True}
        self.forest = Forest()
        self.deliveries: dict[tuple[int, int], Delivery] = {}
        self.sent: list[tuple[int, int, Delivery]] = []
        """Emitting task, label and delivery of each tuple since the last call with a burst began."""
        self.labels = self.message_ids = 0
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
            first = Outlet(Choice.TO_FIRST, list(boxes.items())[:1])
            core.wire(
                {
                    "default": OutStream(Source(f"task{task}", "default", task, FIELDS), [outlet]),
                    "each": OutStream(Source(f"task{task}", "each", task, FIELDS[1:]), [first]),
                }
            )
        self.spouts = {task: SpoutSide(spout, SpoutCollector(spout)) for task, spout in spouts.items()}
        self.bolts = {task: BoltSide(bolt, BoltCollector(bolt)) for task, bolt in bolts.items()}
        self.ackers = [
            AckerSide(AckerCore(101 + index, ring, verdicts, lambda: 0.0, **self.rules), AckerModel(**self.rules))
            for index, ring in enumerate(rings)
        ]
        for spout_side in self.spouts.values():
            self.bind_spout(spout_side, takes_bursts=random.random() < 0.5)
        for bolt_side in self.bolts.values():
            self.bind_bolt(bolt_side, takes_bursts=random.random() < 0.5)

    def bind_spout(self, spout: SpoutSide, *, takes_bursts: bool) -> None:
        """Bind a new instance, which records its verdicts. With bursts, it emits in polls too."""
        got, spout.takes_bursts = spout.got, takes_bursts
        spout.core.polling = True
        spout.core.bind(
            (lambda limit: self.emit_planned(spout, limit)) if takes_bursts else (lambda: self.emit_planned(spout, 1)),
            lambda message_id: got.append(("acked", message_id, "")),
            lambda message_id, reason: got.append(("failed", message_id, reason)),
            on_acks=(lambda message_ids: got.extend(("acked", each, "") for each in message_ids)) if takes_bursts else None,
            polls_bursts=takes_bursts,
        )

    def bind_bolt(self, bolt: BoltSide, *, takes_bursts: bool) -> None:
        """Bind a new instance, which holds its inputs."""
        raise NotImplementedError

    def delivery(self, bolt: BoltSide, tup: Tuple) -> Delivery:
        """Return the model's delivery of a tuple."""
        return self.deliveries[tup["label"], bolt.core.task_id]

    def send(self, task: int, deliveries: list[Delivery], label: int) -> None:
        """Model: put deliveries of a task into mailboxes."""
        for each in deliveries:
            self.deliveries[label, each.task] = each
            self.bolts[each.task].waiting.append(each)
            self.sent.append((task, label, each))

    def tell(self, messages: list[Message]) -> None:
        """Model: put messages into the inboxes of their ackers (ACK-7)."""
        for message in messages:
            self.ackers[message.root % len(self.ackers)].inbox.append(message)

    def rows(self, count: int, bits: int) -> list[Row]:
        """Return new rows, each with its tasks."""
        self.labels += count
        return [(tasks_of(bits >> number), self.labels - number) for number in range(count)]

    # Steps: emits of spouts

    def emit(self, first: int, second: int) -> None:
        """A spout emits to some tasks or to none, tracked or not."""
        self.emit_from(self.spouts[pick(SPOUTS, first)], self.rows(1, second), is_tracked=first < 240)

    def emit_many(self, first: int, second: int) -> None:
        """A spout emits several rows, in two slices."""
        self.emit_from(self.spouts[pick(SPOUTS, first)], self.rows(second // 4 % 8, second), is_tracked=first < 240, many=True)

    def emit_later(self, first: int, second: int) -> None:
        """A spout emits rows in its next polls, each with as many as the poll allows."""
        self.spouts[pick(SPOUTS, first)].planned.extend(self.rows(second // 4 % 8, second))

    def emit_planned(self, spout: SpoutSide, limit: int) -> None:
        """Poll: emit up to `limit` rows."""
        rows = [spout.planned.popleft() for _ in range(min(limit, len(spout.planned)))]
        self.emit_from(spout, rows, is_tracked=True, many=spout.takes_bursts)

    def emit_from(self, spout: SpoutSide, rows: list[Row], *, is_tracked: bool, many: bool = False) -> None:
        """Emit rows in one call or in several, and plant their trees in the model."""
        ids: list[Any] = [None] * len(rows)
        if is_tracked:
            self.message_ids += len(rows)
            ids = list(range(self.message_ids - len(rows) + 1, self.message_ids + 1))
            self.tracked |= {*ids}
        before = {*spout.core.open_trees.roots()}
        if many:
            half = len(rows) // 2
            spout.emitter.emit_many(rows[:half], ids[:half] if is_tracked else None)
            spout.emitter.emit_many(rows[half:], ids[half:] if is_tracked else None)
            assert spout.emitter.rows_emitted == len(rows) - half
        else:
            for row, message_id in zip(rows, ids, strict=True):
                spout.emitter.emit(row, message_id)
        opened = {spout.core.message_of(root): root for root in {*spout.core.open_trees.roots()} - before}
        for (tasks, label), message_id in zip(rows, ids, strict=True):
            root = opened.pop(message_id, None)
            deliveries = self.forest.plant(root, tasks)
            self.send(spout.core.task_id, deliveries, label)
            assert (root is None) == (message_id is None or not tasks)
            if root is not None:
                spout.open[root] = message_id
                self.tell([self.forest.init_of(root, deliveries, spout.core.task_id)])
            elif message_id is not None:
                spout.acked_now.append(message_id)
        assert not opened

    # Steps: emits of bolts

    def branch(self, first: int, second: int) -> None:
        """A bolt emits to some tasks, with 0 to 4 anchors of the tuples that it holds. An anchor may occur twice."""
        bolt, anchors = self.bolt_and_anchors(first, second)
        [row] = self.rows(1, second)
        bolt.emitter.emit(row, _given(anchors))
        self.branch_model(bolt, anchors, [row])

    def branch_many(self, first: int, second: int) -> None:
        """A bolt emits several rows in one call, with the same anchors."""
        bolt, anchors = self.bolt_and_anchors(first, second)
        rows = self.rows(second // 4 % 8, second)
        bolt.emitter.emit_many(rows, _given(anchors))
        self.branch_model(bolt, anchors, rows)

    def branch_each(self, first: int, second: int) -> None:
        """A bolt emits one tuple for each of several values, to a stream with one subscriber."""
        bolt, anchors = self.bolt_and_anchors(first, second)
        rows = self.rows(second // 4 % 8, second)
        bolt.emitter.emit_each([label for _, label in rows], _given(anchors), "each")
        self.branch_model(bolt, anchors, [(BOLTS[:1], label) for _, label in rows])

    def branch_numbered(self, first: int, second: int) -> None:
        """A bolt in a process emits rows, whose anchors are numbers of inputs."""
        bolt, anchors = self.bolt_and_anchors(first, second)
        rows = self.rows(second // 4 % 8, second)
        taken = dict(enumerate(bolt.held, 1))
        numbers = tuple(1 + bolt.held.index(each) for each in anchors)
        number = numbers[0] if len(numbers) == 1 else numbers or 0
        assert not emit_rows(bolt.core, "default", list(rows), [number] * len(rows), taken, None)
        self.branch_model(bolt, anchors, rows)

    def bolt_and_anchors(self, first: int, second: int) -> tuple[BoltSide, list[Tuple]]:
        """Pick a bolt, and some of the tuples that it holds."""
        bolt = self.bolts[pick(BOLTS, first)]
        count = 1 + first // 8 % 4 if bolt.held and first < 248 else 0
        return bolt, [pick(bolt.held, second * (number + 3) + number) for number in range(count)]

    def branch_model(self, bolt: BoltSide, anchors: list[Tuple], rows: Sequence[Row]) -> None:
        """Model: emit rows with these anchors."""
        for tasks, label in rows:
            deliveries = self.forest.branch([self.delivery(bolt, anchor) for anchor in anchors], tasks)
            self.send(bolt.core.task_id, deliveries, label)


def _given(anchors: list[Tuple]) -> Any:
    return anchors[0] if len(anchors) == 1 else anchors
