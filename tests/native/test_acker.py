"""An acker: signals in, one verdict for each tree out."""

import itertools
import weakref
from typing import Any

import pytest

from _native.acker import AckerCore
from _native.aging import LIFETIME
from _native.queues import SignalRing
from engine.kernel.codes import Signal

SPOUT = 3


class Acker:
    """An acker with two spout tasks, 3 and 5, and a clock."""

    def __init__(self, **rules: Any) -> None:
        self.secs = 0.0
        self.inbox = SignalRing()
        self.spouts = {3: SignalRing(), 5: SignalRing()}
        self.core = AckerCore(9, self.inbox, self.spouts, lambda: self.secs, **rules)

    def tell(self, kind: Signal, root: int, value: int = 0, task: int = SPOUT, carried: object = None) -> None:
        self.inbox.signal(kind, root, value, task, carried)

    def verdicts(self, task: int = SPOUT) -> list[tuple[int, int, object]]:
        """Return the verdicts of a spout since the last call: kind, root, and the failure."""
        assert not self.core.run_burst()
        ring = self.spouts[task]
        found = [(kind, root, ring.objects.popleft() if kind == Signal.FAILED else None) for kind, root, _, _ in ring.waiting()]
        ring.clear()
        return found

    def rotate(self) -> list[tuple[int, int]]:
        self.tell(Signal.ROTATE, 0)
        assert not self.core.run_burst()
        over = []
        while self.core.ledger.sweeping:
            over += self.core.sweep()
        return over


@pytest.mark.guarantee("ACK-3")
@pytest.mark.parametrize("order", list(itertools.permutations([("init", 6), ("ack", 2), ("ack", 4)])))
def test_a_tree_with_all_edges_acked_gets_a_verdict_at_its_spout_only(order: tuple[tuple[str, int], ...]) -> None:
    acker = Acker()
    for kind, value in order:
        assert acker.verdicts() == []
        acker.tell(Signal.INIT if kind == "init" else Signal.ACK, 7, value)
    assert acker.verdicts(5) == []
    assert acker.verdicts() == [(Signal.ACKED, 7, None)]
    assert (acker.core.acked, acker.core.failed, acker.core.executed, len(acker.core.ledger)) == (1, 0, 3, 0)


@pytest.mark.guarantee("ACK-4")
@pytest.mark.parametrize("order", list(itertools.permutations(["init", "ack", "fail", "fail again"])))
def test_a_fail_wins_in_any_order_with_the_reason_of_the_first_one(order: tuple[str, ...]) -> None:
    acker = Acker()
    for what in order:
        if what == "init":
            acker.tell(Signal.INIT, 7, 2)
        elif what == "ack":
            acker.tell(Signal.ACK, 7, 3)  # never the last edge
        else:
            acker.tell(Signal.FAIL, 7, carried=what)
    first = min(("fail", "fail again"), key=order.index)
    assert acker.verdicts() == [(Signal.FAILED, 7, first)]
    for _ in range(LIFETIME):
        assert acker.rotate() == []
    assert len(acker.core.ledger) == 0


@pytest.mark.guarantee("ACK-4")
def test_a_fail_that_waits_wins_over_a_zero() -> None:
    acker = Acker()
    acker.tell(Signal.FAIL, 7, carried="why")
    acker.tell(Signal.ACK, 7, 2)
    acker.tell(Signal.INIT, 7, 2)
    assert acker.verdicts() == [(Signal.FAILED, 7, "why")]


@pytest.mark.guarantee("ACK-8")
def test_an_expired_tree_is_reported_to_the_executor_and_fails_once() -> None:
    acker = Acker()
    acker.tell(Signal.INIT, 7, 2)
    acker.tell(Signal.ACK, 8, 2)  # what no init ever came for has nobody to tell
    acker.tell(Signal.FAIL, 9, carried="why")
    over = [acker.rotate() for _ in range(LIFETIME)]
    assert over == [[]] * (LIFETIME - 1) + [[(7, SPOUT)]]
    acker.core.fail_tree(7, SPOUT, "timeout")
    acker.core.fail_tree(7, 4, "a task that is no spout")
    acker.core.fail_tree(7, -1, "a task that is no spout")
    assert acker.verdicts() == [(Signal.FAILED, 7, "timeout")]
    assert (len(acker.core.ledger), acker.core.rotations) == (0, LIFETIME)


@pytest.mark.guarantee("ACK-8")
def test_a_reset_restarts_the_clock_of_an_open_tree_and_opens_none() -> None:
    acker = Acker(timeout_from="emit")
    acker.tell(Signal.INIT, 7, 2)
    for _ in range(3 * LIFETIME):
        acker.tell(Signal.RESET, 7)
        acker.tell(Signal.RESET, 8)
        assert acker.rotate() == []
    assert len(acker.core.ledger) == 1


@pytest.mark.guarantee("ACK-13")
def test_the_trees_of_a_dead_spout_get_no_verdict() -> None:
    acker = Acker()
    acker.tell(Signal.INIT, 7, 2)
    acker.tell(Signal.INIT, 8, 2, task=5)
    acker.tell(Signal.DROP, 0)
    acker.tell(Signal.ACK, 7, 2)
    acker.tell(Signal.ACK, 8, 2)
    assert acker.verdicts() == []
    assert acker.verdicts(5) == [(Signal.ACKED, 8, None)]


@pytest.mark.guarantee("ACK-13")
def test_a_restarted_acker_has_no_trees() -> None:
    acker = Acker(timeout_from="emit")
    acker.tell(Signal.INIT, 7, 2)
    acker.verdicts()
    acker.tell(Signal.FAIL, 7, carried="why")
    acker.core.begin()
    acker.tell(Signal.ACK, 7, 2)
    assert acker.verdicts() == []
    assert acker.core.ledger.from_progress


# Trees with a clock of their own: barriers and batches


def test_a_tree_with_its_own_clock_is_overdue_after_its_own_time() -> None:
    acker = Acker(timeouts=False)
    acker.tell(Signal.OWN_CLOCK, 7, carried=60.0)
    acker.tell(Signal.INIT, 7, 2)
    assert acker.verdicts() == []
    assert acker.core.next_deadline == 60
    for _ in range(2 * LIFETIME):
        assert acker.rotate() == []
    acker.secs = 59.0
    assert acker.core.overdue() == []
    acker.tell(Signal.RESET, 7)
    acker.verdicts()
    acker.secs = 118.0
    acker.tell(Signal.ACK, 7, 1)  # progress
    acker.verdicts()
    assert acker.core.next_deadline == 178
    acker.secs = 178.0
    assert acker.core.overdue() == [(7, SPOUT)]
    assert acker.core.overdue() == []
    assert len(acker.core.ledger) == 0


def test_a_tree_with_its_own_clock_is_acked_and_failed_like_others() -> None:
    acker = Acker()
    for root in (7, 8):
        acker.tell(Signal.OWN_CLOCK, root, carried=60.0)
        acker.tell(Signal.INIT, root, 2)
    acker.tell(Signal.ACK, 7, 2)
    acker.tell(Signal.FAIL, 8, carried="why")
    assert acker.verdicts() == [(Signal.ACKED, 7, None), (Signal.FAILED, 8, "why")]
    assert acker.core.next_deadline is None


@pytest.mark.guarantee("ACK-13")
def test_the_own_clock_of_a_dropped_tree_is_removed() -> None:
    acker = Acker()
    for task in (3, 5):
        acker.tell(Signal.OWN_CLOCK, task, task=task, carried=10.0)
        acker.tell(Signal.INIT, task, 3, task=task)
    acker.tell(Signal.DROP, 0, task=3)
    assert not acker.verdicts()

    acker.secs = 11.0
    assert acker.core.overdue() == [(5, 5)]
    assert len(acker.core.ledger) == 0


class Reason:
    """Reason of a failed tree, an object with weak references."""


def test_a_failure_without_an_init_is_forgotten_in_time() -> None:
    acker, reason = Acker(), Reason()
    watch = weakref.ref(reason)
    acker.tell(Signal.FAIL, 7, carried=reason)
    del reason
    assert not acker.verdicts()
    assert watch() is not None
    for _ in range(LIFETIME + 1):
        acker.tell(Signal.ROTATE, 0)
        assert not acker.verdicts()
        acker.core.sweep()
    assert watch() is None


# Turns


@pytest.mark.guarantee("BP-4")
def test_a_turn_takes_all_waiting_signals_unless_it_lasts_5_ms() -> None:
    acker = Acker()
    for root in range(1, 100_001):
        acker.tell(Signal.INIT, root, 2)
    assert not acker.core.run_burst()
    assert len(acker.core.ledger) == 100_000

    slow = Acker()
    slow.core = AckerCore(9, slow.inbox, slow.spouts, itertools.count(0, 0.003).__next__)
    slow.inbox.clear()
    for root in range(1, 100_001):
        slow.tell(Signal.INIT, root, 2)
    assert slow.core.run_burst()
    assert 0 < len(slow.core.ledger) < 10_000
    assert slow.core.busy_secs > 0
    while slow.core.run_burst():
        pass
    assert len(slow.core.ledger) == 100_000
