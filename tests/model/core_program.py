"""Random programs of emits and settles on the compiled cores, without an event loop, compared with the model.

Components with single tuples and with bursts mix. The model records the order of all messages, so each verdict and its reason are compared
when the verdict comes.
"""

from collections import Counter
from collections.abc import Callable
from typing import ClassVar

from engine.kernel import Signal, Tuple, ack_rows
from tests.model.core_bursts import BurstCalls
from tests.model.core_sides import Event, SpoutSide
from tests.model.core_tasks import BOLTS, SPOUTS
from tests.model.ledger_program import pick
from tests.model.tree_model import LIFETIME, AckerModel, Verdict


class CoreProgram(BurstCalls):
    """Cores of a small topology that run a program, and their model."""

    STEPS: ClassVar[tuple[str, ...]] = (
        *("emit", "emit", "emit_many", "emit_later", *("take", "branch") * 6),
        *("branch_many", "branch_each", "branch_numbered", "end_call", "end_call", "ack_kept", "renew"),
        *("ack", "ack", "ack", "ack_many", "ack_rows", "fail", "forget", "settle_again", "reset", "lose"),
        *("acker_turn", "acker_turn", "spout_turn", "spout_turn", "rotate", "refresh"),
        *("bolt_dies", "spout_dies", "acker_dies"),
    )

    def run(self, program: bytes) -> None:
        """Run all steps, then drain everything; nothing may be left.

        Tuples that are still held are acked, or they are never settled and time out.
        """
        self.program = iter([(program[at], program[at + 1], program[at + 2]) for at in range(0, len(program) - 2, 3)])
        for step, first, second in self.program:
            getattr(self, pick(self.STEPS, step))(first, second)
        for number in range(len(BOLTS)):
            self.end_call(number, 1)
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

    # Steps: settles

    def take(self, first: int, second: int) -> None:
        """A bolt takes tuples out of its mailbox."""
        bolt = self.bolts[pick(BOLTS, first)]
        if bolt.takes_bursts:
            self.take_bursts(bolt, 1 + second * 16)
            return
        taken = len(bolt.held)
        bolt.core.run_burst(1 + second * 16)
        expected = [bolt.waiting.popleft() for _ in range(min(1 + second * 16, len(bolt.waiting)))]
        assert [self.delivery(bolt, tup) for tup in bolt.held[taken:]] == expected

    def ack(self, first: int, second: int) -> None:
        """A bolt acks one tuple."""
        bolt = self.bolts[pick(BOLTS, first)]
        if bolt.held:
            tup = bolt.held.pop(second % len(bolt.held))
            (bolt.open_burst or bolt.emitter).ack(tup)
            bolt.has_acked = True
            bolt.settled.append(tup)
            self.tell(self.forest.ack(self.delivery(bolt, tup)))

    def ack_many(self, first: int, second: int) -> None:
        """A bolt acks up to seven tuples."""
        for number in range(second % 8):
            self.ack(first, second + number)

    def ack_rows(self, first: int, second: int) -> None:
        """A bolt in a process acks up to seven tuples by their numbers, and one that is unknown."""
        bolt = self.bolts[pick(BOLTS, first)]
        if bolt.open_burst is None and bolt.takes_bursts:
            return
        taken, numbers = dict(enumerate(bolt.held)), list(range(min(second % 8, len(bolt.held))))
        ack_rows(bolt.core, [*numbers, 1000], taken)
        assert list(taken.values()) == bolt.held[len(numbers) :]
        for tup in bolt.held[: len(numbers)]:
            self.tell(self.forest.ack(self.delivery(bolt, tup)))
        bolt.settled += bolt.held[: len(numbers)]
        del bolt.held[: len(numbers)]

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
            (bolt.open_burst or bolt.emitter).fail(tup)
            bolt.settled.append(tup)
            self.tell(self.forest.fail(self.delivery(bolt, tup), "failed"))

    def forget(self, first: int, second: int) -> None:
        """A bolt forgets one tuple (ACK-15)."""
        bolt = self.bolts[pick(BOLTS, first)]
        if bolt.held and first % 4 == 0 and bolt.open_burst is None:
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
            bolt.core.refresh_held()
            for delivery in (*bolt.waiting, *(self.delivery(bolt, tup) for tup in bolt.again)):
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
        while spout.core.has_acks_to_flush or len(spout.core.verdicts) or spout.planned:
            spout.core.run_burst(1 + second)
        self.hear(spout)
        spout.expected += [("acked", message_id, "") for message_id in spout.acked_now]
        spout.acked_now.clear()
        assert Counter(spout.got[heard:]) == Counter(spout.expected)
        self.history += spout.expected
        spout.expected.clear()

    def emit_planned(self, spout: SpoutSide, limit: int) -> None:
        self.hear(spout)  # a spout is polled when it has all verdicts
        super().emit_planned(spout, limit)

    def hear(self, spout: SpoutSide) -> None:
        """Model: a spout gets its verdicts."""
        while spout.verdicts:
            spout.expected += self.heard_of(spout, spout.verdicts.popleft())

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
        taken = [*bolt.held, *bolt.again]
        assert bolt.core.fail_taken("task_died") == len(taken)
        for tup in taken:
            self.tell(self.forest.fail(self.delivery(bolt, tup), "task_died"))
        bolt.ghosts += taken
        bolt.held.clear()
        bolt.again.clear()
        bolt.open_burst = None
        bolt.core.forget_current()
        bolt.emitter.retire()
        self.bind_bolt(bolt, takes_bursts=second % 16 == 0)

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
        spout.planned.clear()
        self.bind_spout(spout, takes_bursts=second % 16 == 0)

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
