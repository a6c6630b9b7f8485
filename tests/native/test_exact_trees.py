"""Trees of exact spouts: a failed one gets its verdict when all its tuples are settled, and says whether it has had an effect (EO-6)."""

import itertools
import random
from typing import Any

import pytest

from _native.acker import AckerCore
from _native.aging import LIFETIME
from _native.queues import SignalRing
from _native.task import OutStream
from engine.kernel.codes import Signal
from tests.native.stage import Stage, source

EXACT, OTHER, PLAIN, STATEFUL = 1, 2, 3, 4
"""Task ids: an exact spout, another spout, a stateless bolt, a bolt with effects."""


class Acker:
    """An acker with both spouts and both bolts."""

    def __init__(self) -> None:
        self.inbox, self.effects = SignalRing(), bytearray(5)
        self.effects[STATEFUL] = 1
        self.spouts = {EXACT: SignalRing(), OTHER: SignalRing()}
        self.core = AckerCore(9, self.inbox, self.spouts, lambda: 0.0)
        self.core.set_exact(frozenset({EXACT}), self.effects)

    def tell(self, kind: Signal, value: int, task: int, carried: object = None, root: int = 7) -> None:
        self.inbox.signal(kind, root, value, task, carried)

    def verdicts(self, task: int = EXACT) -> list[tuple[Any, ...]]:
        """Return the verdicts of a spout since the last call: kind, root, and of a failure its reason, and whether there was no effect."""
        self.core.run_burst()
        ring = self.spouts[task]
        found: list[tuple[Any, ...]] = []
        for kind, root, value, _ in ring.waiting():
            found.append((kind, root, ring.objects.popleft(), bool(value)) if kind == Signal.FAILED else (kind, root))
        ring.clear()
        return found


@pytest.mark.guarantee("ACK-4", "EO-6")
@pytest.mark.parametrize("by", [PLAIN, STATEFUL])
@pytest.mark.parametrize("order", list(itertools.permutations(["init", "ack", "fail", "second fail"])))
def test_the_verdict_comes_with_the_last_signal_and_has_the_first_reason(order: tuple[str, ...], by: int) -> None:
    acker = Acker()
    for step in order:
        assert acker.verdicts() == []
        match step:
            case "init":
                acker.tell(Signal.INIT, 1 ^ 2 ^ 4, EXACT)
            case "ack":
                acker.tell(Signal.ACK, 1, by)
            case _:
                acker.tell(Signal.FAIL, 2 if step == "fail" else 4, PLAIN, step)
    first = next(step for step in order if "fail" in step)
    assert acker.verdicts() == [(Signal.FAILED, 7, first, by == PLAIN)]
    assert len(acker.core.ledger) == 0


@pytest.mark.guarantee("ACK-4")
def test_a_tree_of_another_spout_fails_at_once() -> None:
    acker = Acker()
    acker.tell(Signal.INIT, 1 ^ 2, OTHER)
    acker.tell(Signal.FAIL, 2, PLAIN, "why")
    assert acker.verdicts(OTHER) == [(Signal.FAILED, 7, "why", False)]


@pytest.mark.guarantee("ACK-4", "EO-6")
def test_without_its_value_a_fail_settles_the_tree_at_once_and_nothing_is_known() -> None:
    acker = Acker()
    acker.tell(Signal.INIT, 1 ^ 2, EXACT)
    acker.tell(Signal.FAIL, 0, EXACT, "rollback")
    assert acker.verdicts() == [(Signal.FAILED, 7, "rollback", False)]


@pytest.mark.guarantee("EO-6")
def test_a_task_that_emits_without_an_anchor_has_effects_from_then_on_in_all_open_trees() -> None:
    acker = Acker()
    for root in (7, 8):
        acker.tell(Signal.INIT, 1, EXACT, root=root)
    acker.core.run_burst()
    acker.effects[PLAIN] = 1
    acker.core.note_effects()
    acker.tell(Signal.FAIL, 1, OTHER, "open before", root=7)
    acker.tell(Signal.INIT, 1 ^ 2, EXACT, root=9)
    acker.tell(Signal.ACK, 2, PLAIN, root=9)
    acker.tell(Signal.FAIL, 1, OTHER, "acked by it", root=9)
    acker.tell(Signal.INIT, 1, EXACT, root=10)
    acker.tell(Signal.FAIL, 1, OTHER, "not reached", root=10)
    assert [(reason, clean) for _, _, reason, clean in acker.verdicts()] == [
        ("open before", False),
        ("acked by it", False),
        ("not reached", True),
    ]


@pytest.mark.guarantee("ACK-8")
def test_a_failed_tree_with_a_lost_edge_times_out_and_leaves_nothing() -> None:
    acker = Acker()
    acker.tell(Signal.INIT, 1 ^ 2, EXACT)
    acker.tell(Signal.FAIL, 2, PLAIN, "why")
    over: list[tuple[int, int]] = []
    for _ in range(LIFETIME):
        acker.tell(Signal.ROTATE, 0, -1)
        acker.core.run_burst()
        while acker.core.ledger.sweeping:
            over += acker.core.sweep()
    assert over == [(7, EXACT)]
    assert len(acker.core.ledger) == 0


@pytest.mark.guarantee("ACK-13")
def test_the_failures_of_a_dropped_spout_task_are_forgotten() -> None:
    acker = Acker()
    acker.tell(Signal.INIT, 1 ^ 2, EXACT)
    acker.tell(Signal.FAIL, 2, PLAIN, "old")
    acker.tell(Signal.DROP, 0, EXACT)
    acker.tell(Signal.INIT, 1, EXACT)  # by chance with the same id
    acker.tell(Signal.FAIL, 1, PLAIN, "new")
    assert acker.verdicts() == [(Signal.FAILED, 7, "new", True)]


@pytest.mark.guarantee("ACK-4", "EO-6")
@pytest.mark.parametrize("seed", range(40))
def test_random_trees_agree_with_a_plain_count_of_their_tuples(seed: int) -> None:
    draws, acker = random.Random(seed), Acker()
    signals, expected = [], {}
    for root in range(1, 40):
        task = draws.choice([EXACT, EXACT, OTHER])
        tuples = [(draws.getrandbits(60) + 1, draws.choice([PLAIN, STATEFUL]), draws.random() < 0.2) for _ in range(draws.randint(1, 6))]
        init = 0
        for edge, _, _ in tuples:
            init ^= edge
        own = [(Signal.FAIL if fails else Signal.ACK, root, edge, by, f"by {by}") for edge, by, fails in tuples]
        signals.append([(Signal.INIT, root, init, task, None), *own])
        has_failed = any(fails for _, _, fails in tuples)
        if task == EXACT and has_failed:
            expected[root] = (Signal.FAILED, all(by == PLAIN for _, by, _ in tuples))
        else:
            expected[root] = (Signal.FAILED if has_failed else Signal.ACKED, None)
    found = {}
    while signals:  # each tree in order, the trees mixed
        [kind, root, value, task, carried], *rest = signals.pop(draws.randrange(len(signals)))
        acker.tell(kind, value, task, carried, root)
        if rest:
            signals.append(rest)
        for spout in (EXACT, OTHER):
            for verdict in acker.verdicts(spout):
                assert verdict[1] not in found
                found[verdict[1]] = (verdict[0], verdict[3] if spout == EXACT and verdict[0] == Signal.FAILED else None)
    assert found == expected


def test_a_bolt_tells_of_its_first_emit_without_an_anchor_only() -> None:
    bolt = Stage().bolt()
    bolt.wire({"default": OutStream(source("word"), [])})
    told: list[int] = []
    bolt.on_unanchored = told.append
    bolt.emit(("a",), None, "default")
    bolt.emit(("b",), None, "default")
    assert told == [bolt.task_id]
