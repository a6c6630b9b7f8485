"""Bolts of a core program that take bursts, with the model of their calls.

A call acts as the next steps of the program say. Then it returns, or raises, or leaves its burst open, as a call that is awaited.
"""

from collections.abc import Iterator
from typing import ClassVar

from engine.kernel import BoltCollector, Burst, Tuple
from tests.model.core_sides import BoltSide
from tests.model.core_tasks import BOLTS, CoreTasks
from tests.model.ledger_program import pick


class PlannedError(Exception):
    """Raised by a call as planned."""


class BurstCalls(CoreTasks):
    """Cores whose bolts take single tuples or bursts."""

    WITHIN: ClassVar[tuple[str, ...]] = (
        *("branch", "branch_many", "branch_each", "branch_numbered") * 2,
        *("ack", "fail", "reset", "settle_again", "emit", "emit_many"),
    )
    """Steps within a call. Those of the other tasks stand for code that lets these run."""

    program: Iterator[tuple[int, int, int]] = iter(())
    """Steps that are left, each with its two arguments."""

    def bind_bolt(self, bolt: BoltSide, *, takes_bursts: bool) -> None:
        bolt.emitter, bolt.takes_bursts = BoltCollector(bolt.core), takes_bursts
        if takes_bursts:
            bolt.core.bind(lambda burst: self.execute_many(bolt, burst), basic=False, burst_rows=5, settler=bolt.emitter)
        else:
            bolt.core.bind(bolt.held.append, basic=False)

    def take_bursts(self, bolt: BoltSide, limit: int) -> None:
        """A bolt takes bursts out of its mailbox, until a call raises or stays open."""
        if bolt.open_burst is not None:
            return
        try:
            bolt.core.run_burst(limit)
        except PlannedError:
            self.retry(bolt, bolt.core.burst, awaited=False)
        if bolt.open_burst is None:
            bolt.core.forget_current()

    def execute_many(self, bolt: BoltSide, burst: Burst) -> Burst | None:
        """Compare the tuples with the model, and act."""
        for tup in burst:
            expected = self.delivery(bolt, bolt.again.popleft()) if bolt.again else bolt.waiting.popleft()
            assert self.delivery(bolt, tup) is expected
        assert not bolt.held
        bolt.held += burst
        self.sent.clear()
        bolt.has_acked = False
        end, count, _ = next(self.program, (2, 0, 0))
        for _ in range(count % 8):
            step, first, second = next(self.program, (0, 0, 0))
            getattr(self, pick(self.WITHIN, step))(first, second)
        if end % 4 == 0:
            raise PlannedError
        if end % 4 == 1:
            bolt.open_burst = burst
            return burst
        self.ack_held(bolt)
        return None

    def ack_held(self, bolt: BoltSide) -> None:
        """Model: a call has returned, so its tuples are acked."""
        for tup in bolt.held:
            self.tell(self.forest.ack(self.delivery(bolt, tup)))
        bolt.settled += bolt.held
        bolt.held.clear()

    def retry(self, bolt: BoltSide, burst: Burst | None, *, awaited: bool) -> None:
        """A call has raised: a single tuple fails, and several run again one by one. Maybe the emits are taken back (BU-1)."""
        assert burst is not None
        if len(burst) == 1:
            for tup in bolt.held:
                bolt.emitter.fail(tup)
                self.tell(self.forest.fail(self.delivery(bolt, tup), "failed"))
            bolt.settled += bolt.held
        else:
            assert bolt.core.retry_singly(burst, "error", awaited=awaited) == len(bolt.held)
            if not awaited and not bolt.has_acked and all(task == bolt.core.task_id for task, _, _ in self.sent):
                self.take_back(bolt, list(burst))
            bolt.again.extend(bolt.held)
        bolt.held.clear()

    def take_back(self, bolt: BoltSide, tuples: list[Tuple]) -> None:
        """Model: undo the emits of a call."""
        for _, label, delivery in self.sent:
            self.bolts[delivery.task].waiting.remove(delivery)
            del self.deliveries[label, delivery.task]
        for tup in tuples:
            self.delivery(bolt, tup).children.clear()

    # Steps

    def end_call(self, first: int, second: int) -> None:
        """An awaited call returns, or raises."""
        bolt = self.bolts[pick(BOLTS, first)]
        burst, bolt.open_burst = bolt.open_burst, None
        if burst is None:
            return
        if second % 4:
            bolt.core.end_call(0.0, burst)
            self.ack_held(bolt)
        else:
            self.retry(bolt, burst, awaited=True)
        bolt.core.forget_current()

    def ack_kept(self, first: int, second: int) -> None:
        """A bolt that has kept its burst acks a tuple that waits to run again."""
        bolt = self.bolts[pick(BOLTS, first)]
        if bolt.again:
            tup = pick(bolt.again, second)
            bolt.again.remove(tup)
            bolt.emitter.ack(tup)
            bolt.settled.append(tup)
            self.tell(self.forest.ack(self.delivery(bolt, tup)))

    def renew(self, first: int, second: int) -> None:
        """A bolt gets a fresh instance, which takes the tuples that have to run again."""
        bolt = self.bolts[pick(BOLTS, first)]
        if bolt.held or bolt.open_burst is not None:
            return
        bolt.core.requeue_singly()
        bolt.waiting.extendleft(self.delivery(bolt, tup) for tup in reversed(bolt.again))
        bolt.again.clear()
        bolt.emitter.retire()
        self.bind_bolt(bolt, takes_bursts=second % 2 == 0)
