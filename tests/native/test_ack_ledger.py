"""The ack ledger against open trees with sets of edges, its sweep, and its memory."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from _native.acker import AckLedger
from _native.aging import LIFETIME
from tests.model.ack_ledger_model import AckLedgerModel
from tests.tiers import cases

FIBONACCI = 0x9E3779B97F4A7C15
"""Factor of a root. The top bits of the product are its home."""
UNDO = pow(FIBONACCI, -1, 2**64)
LEAST_SLOTS = 64
"""Slots of the smallest table here, few enough for tests to fill them."""


def root_at(home: int, number: int) -> int:
    """Return a root whose home is this slot of a table of 64."""
    return ((home % LEAST_SLOTS << 58) + number + 1) * UNDO % 2**64


def bits(edges: set[int]) -> int:
    """Return the XOR of numbered edges, which differs for any two sets."""
    return sum(1 << edge for edge in edges)


# Homes around the end of the table, so that clusters wrap and removals move entries across it.
ROOTS = st.builds(root_at, st.integers(-6, 6), st.integers(0, 2))
EDGES = st.sets(st.integers(0, 3), max_size=3)
TASKS = st.integers(1, 3)


class AgainstTheModel(RuleBasedStateMachine):
    """Both get the same signals, also during a sweep."""

    @initialize(timeout_from=st.sampled_from(["progress", "emit"]), timeouts=st.booleans())
    def begin(self, timeout_from: str, timeouts: bool) -> None:
        assert timeout_from in ("progress", "emit")
        self.ledger = AckLedger(timeout_from="emit" if timeout_from == "emit" else "progress", timeouts=timeouts, least_slots=LEAST_SLOTS)
        self.model = AckLedgerModel(LIFETIME, timeout_from == "progress", timeouts)

    @rule(root=ROOTS, edges=EDGES, task=TASKS)
    def init(self, root: int, edges: set[int], task: int) -> None:
        tree = self.model.trees.get(root)
        assume(tree is None or not tree.opened)  # a root is opened once
        expected = self.model.init(root, edges, task)
        assert self.ledger.on_init(root, bits(edges), task) == expected
        assert expected == "open" or self.ledger.last_task == task

    @rule(root=ROOTS, edges=EDGES)
    def ack(self, root: int, edges: set[int]) -> None:
        tree = self.model.trees.get(root)
        task = None if tree is None else tree.task
        expected = self.model.ack(root, edges)
        assert self.ledger.on_ack(root, bits(edges)) == expected
        assert expected == "open" or self.ledger.last_task == task

    @rule(root=ROOTS)
    def fail(self, root: int) -> None:
        tree = self.model.trees.get(root)
        task = None if tree is None else tree.task
        expected = self.model.fail(root)
        assert self.ledger.on_fail(root) == expected
        assert expected == "open" or self.ledger.last_task == task

    @rule(root=ROOTS)
    def reset(self, root: int) -> None:
        self.ledger.on_reset(root)
        self.model.reset(root)

    @rule(root=ROOTS)
    def own_clock(self, root: int) -> None:
        assume(root not in self.model.trees)  # it comes before its init
        self.ledger.set_own_clock(root)
        self.model.set_own_clock(root)

    @rule(task=TASKS)
    def drop(self, task: int) -> None:
        assert self.ledger.on_drop_task(task) == self.model.drop_task(task)

    @rule(times=st.integers(1, LIFETIME), slots=st.sampled_from([1, 7, 65536]))
    def rotate(self, times: int, slots: int) -> None:
        for _ in range(times):
            self.model.grow_older()
            over = dict(self.ledger.rotate(slots))
            assert over == self.model.over()
            self._forget(over)

    @rule()
    def begin_rotation(self) -> None:
        self.model.grow_older()
        self.ledger.begin_rotation()

    @precondition(lambda self: self.ledger.sweeping)
    @rule(slots=st.integers(1, 40))
    def sweep(self, slots: int) -> None:
        over = dict(self.ledger.sweep(slots))
        assert over.items() <= self.model.over().items()
        self._forget(over)
        if not self.ledger.sweeping:
            assert not self.model.over()

    def _forget(self, roots: dict[int, int]) -> None:
        for root in roots:
            del self.model.trees[root]

    @invariant()
    def they_hold_the_same(self) -> None:
        assert len(self.ledger) == len(self.model.trees)
        assert all(root in self.ledger for root in self.model.trees)


AgainstTheModel.TestCase.settings = settings(stateful_step_count=60, max_examples=cases(100))
TestAgainstTheModel = pytest.mark.guarantee("ACK-3", "ACK-4", "ACK-8")(AgainstTheModel.TestCase)


@pytest.mark.guarantee("ACK-3")
@given(edges=st.lists(st.integers(1, 2**64 - 1), min_size=1, max_size=6, unique=True), order=st.randoms(use_true_random=False))
def test_a_tree_is_acked_when_every_edge_is_acked_in_any_order_and_its_init_has_come(edges: list[int], order: random.Random) -> None:
    ledger, value = AckLedger(), 0
    for edge in edges:
        value ^= edge
    assume(value != 0)
    signals = [("init", value), *(("ack", edge) for edge in edges)]
    order.shuffle(signals)
    verdicts = [ledger.on_init(7, value, 3) if kind == "init" else ledger.on_ack(7, value) for kind, value in signals]
    assert verdicts[-1] == "acked"
    assert ledger.last_task == 3
    assert 7 not in ledger


@pytest.mark.guarantee("ACK-4")
@pytest.mark.parametrize("acked_first", [False, True])
def test_a_fail_that_waits_for_its_init_wins_over_a_zero(acked_first: bool) -> None:
    ledger = AckLedger()
    if acked_first:
        ledger.on_ack(7, 5)
    assert ledger.on_fail(7) == "open"
    if not acked_first:
        ledger.on_ack(7, 5)
    assert ledger.on_init(7, 5, 1) == "failed"
    assert len(ledger) == 0


@pytest.mark.guarantee("ACK-4", "ACK-8")
def test_late_signals_are_forgotten_in_time() -> None:
    ledger = AckLedger(timeouts=False)
    ledger.on_init(7, 5, 1)
    assert ledger.on_fail(7) == "failed"
    assert [ledger.on_ack(7, 5), ledger.on_fail(7)] == ["open", "open"]
    assert [ledger.rotate() for _ in range(LIFETIME)] == [[]] * (LIFETIME - 1) + [[(7, -1)]]
    assert len(ledger) == 0


@pytest.mark.guarantee("ACK-8")
@pytest.mark.parametrize("slots", [1, 7, 65536])
def test_a_sweep_finds_an_old_tree_that_a_deletion_moved_over_the_end_of_the_table(slots: int) -> None:
    ledger = AckLedger()
    first, alive, last = (root_at(-2, number) for number in range(3))  # in the last two slots, and over the end in the first
    for root in (first, alive, last):
        ledger.on_init(root, 1, 1)
    for _ in range(LIFETIME - 1):
        assert not ledger.rotate(slots)
    ledger.on_reset(alive)

    assert set(ledger.rotate(slots)) == {(first, 1), (last, 1)}


@pytest.mark.guarantee("ACK-8")
def test_a_sweep_finds_an_old_tree_that_moved_over_the_end_of_the_table_and_then_down() -> None:
    ledger = AckLedger()
    first, second, third, fourth, old = (root_at(-4, number) for number in range(5))  # the last four slots, and the first one
    for root in (first, second, third, fourth, old):
        ledger.on_init(root, 1, 1)
    for _ in range(LIFETIME - 1):
        assert not ledger.rotate()
    for root in (first, second, third, fourth):
        ledger.on_reset(root)
    ledger.begin_rotation()
    assert ledger.sweep(4) == []
    ledger.on_ack(fourth, 1)  # the old tree moves to the last slot
    ledger.on_ack(first, 1)  # and then one slot down
    assert ledger.sweep(1000) == [(old, 1)]


@pytest.mark.guarantee("ACK-8")
@pytest.mark.parametrize("rotations", [0, 1, 250, 255, 256, 300, 511])
def test_a_tree_dies_on_exactly_the_last_rotation_of_its_life(rotations: int) -> None:
    ledger = AckLedger()
    ledger.on_init(7, 5, 4)
    for _ in range(rotations):
        ledger.on_reset(7)
        assert ledger.rotate() == []
    ledger.on_reset(7)
    assert [ledger.rotate() for _ in range(LIFETIME)] == [[]] * (LIFETIME - 1) + [[(7, 4)]]


@pytest.mark.guarantee("ACK-8")
def test_an_ack_is_progress_unless_the_time_counts_from_the_emit() -> None:
    deaths = {}
    for rule_name, ledger in (("progress", AckLedger()), ("emit", AckLedger(timeout_from="emit"))):
        ledger.on_init(7, 5, 1)
        ledger.rotate()
        ledger.on_ack(7, 2)
        deaths[rule_name] = next(turn for turn in range(1, 99) if ledger.rotate())
    assert deaths == {"progress": LIFETIME, "emit": LIFETIME - 1}


@pytest.mark.guarantee("ACK-8")
def test_a_tree_does_not_expire_without_timeouts_or_with_its_own_clock() -> None:
    ledger, own = AckLedger(timeouts=False), AckLedger()
    ledger.on_init(7, 5, 1)
    own.set_own_clock(7)
    own.on_init(7, 5, 1)
    for _ in range(600):
        assert ledger.rotate() == own.rotate() == []
    assert ledger.on_ack(7, 5) == own.on_ack(7, 5) == "acked"


@pytest.mark.guarantee("ACK-8")
@pytest.mark.parametrize("seed", range(4))
def test_a_sweep_in_slices_finds_every_old_tree_while_the_table_grows_and_shrinks(seed: int) -> None:
    chance = random.Random(seed)
    ledger, found = AckLedger(least_slots=LEAST_SLOTS), set[int]()
    old = {chance.getrandbits(64) | 1 for _ in range(3000)}
    for root in old:
        ledger.on_init(root, 5, 1)
    for _ in range(LIFETIME - 1):
        assert ledger.rotate() == []
    ledger.begin_rotation()
    young: list[int] = []
    while ledger.sweeping:
        found.update(root for root, _ in ledger.sweep(chance.randrange(1, 200)))
        for _ in range(chance.randrange(300) if len(young) < 20_000 else 0):
            young.append(chance.getrandbits(64) | 1)
            ledger.on_init(young[-1], 5, 2)
        for _ in range(chance.randrange(100)):
            if young:
                assert ledger.on_ack(young.pop(chance.randrange(len(young))), 5) == "acked"
    assert found == old
    assert len(ledger) == len(young)


@pytest.mark.guarantee("ACK-13")
@given(owners=st.dictionaries(ROOTS, TASKS, max_size=30))
def test_the_trees_of_a_dead_spout_are_dropped_and_no_others(owners: dict[int, int]) -> None:
    ledger = AckLedger(least_slots=LEAST_SLOTS)
    for root, task in owners.items():
        ledger.on_init(root, 5, task)
    assert ledger.on_drop_task(2) == list(owners.values()).count(2)
    assert {root for root in owners if root in ledger} == {root for root, task in owners.items() if task != 2}


# Memory


def sizes(ledger: AckLedger, up_to: int) -> Iterator[float]:
    """Grow the ledger, then shrink it. Yield the bytes per tree, in tables above the smallest size."""
    chance = random.Random(1)
    roots = [chance.getrandbits(64) | 1 for _ in range(up_to)]
    for count, root in enumerate(roots, start=1):
        ledger.on_init(root, 5, 1)
        if count > LEAST_SLOTS and count % 97 == 0:
            yield ledger.nbytes / len(ledger)
    while len(roots) > LEAST_SLOTS:
        for root in roots[len(roots) * 2 // 3 :]:
            ledger.on_ack(root, 5)
        del roots[len(roots) * 2 // 3 :]
        ledger.rotate()
        if len(roots) > LEAST_SLOTS:
            yield ledger.nbytes / len(ledger)


@pytest.mark.guarantee("ACK-14")
def test_a_tree_costs_at_most_64_bytes_at_any_size_growing_and_after_each_rotation() -> None:
    assert max(sizes(AckLedger(timeouts=False, least_slots=LEAST_SLOTS), 300_000)) <= 64


@pytest.mark.guarantee("ACK-14")
def test_an_empty_ledger_frees_its_memory_at_the_next_rotation() -> None:
    ledger = AckLedger()
    least = ledger.nbytes
    for root in range(1, 100_001):
        ledger.on_init(root, 5, 1)
    for root in range(1, 100_001):
        ledger.on_ack(root, 5)
    ledger.rotate()
    assert ledger.nbytes == least


@pytest.mark.guarantee("ACK-14")
def test_a_ledger_shrinks_only_after_a_whole_sweep() -> None:
    ledger = AckLedger()
    for root in range(1, 100_001):
        ledger.on_init(root, 5, 1)
    for _ in range(LIFETIME - 1):
        assert ledger.rotate() == []
    full = ledger.nbytes
    ledger.begin_rotation()
    while len(ledger) > 30_000:
        ledger.sweep(1000)
    ledger.begin_rotation()  # the rest is in a part of the table, and half of the slots would be too narrow for it
    assert ledger.nbytes == full

    left = len(ledger)
    assert len(ledger.rotate()) == left
    ledger.rotate()
    assert ledger.nbytes == AckLedger().nbytes
