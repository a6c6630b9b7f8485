"""Mailboxes against a deque with stopped senders; rings of signals against a deque."""

import gc
import weakref
from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from _native.queues import Backpressure, Mailbox, SignalRing
from _native.tuples import Tuple, make_tuple
from engine.kernel.codes import Signal
from tests.native.stage import source
from tests.tiers import cases

ORIGIN = source("number")


def numbered(number: int) -> Tuple:
    return make_tuple((number,), ORIGIN)


class MailboxAgainstADeque(RuleBasedStateMachine):
    """Three senders. One (None) is never stopped, the others go on within a user call although they are stopped."""

    @initialize(capacity=st.sampled_from([2, 3, 5, 64, 65, 200]))
    def begin(self, capacity: int) -> None:
        self.rung: list[str] = []
        self.box = Mailbox(capacity, lambda: self.rung.append("wake"))
        self.emitters = [Backpressure(lambda: self.rung.append("resume")) for _ in range(2)]
        self.model: deque[Tuple] = deque()
        self.stopped: set[int] = set()
        self.parked = False
        self.count = 0

    @rule(sender=st.sampled_from([None, 0, 1]), count=st.sampled_from([1, 2, 30, 70, 150]))
    def post(self, sender: int | None, count: int) -> None:
        self.rung.clear()
        woken = self.parked
        for _ in range(count):
            self.count += 1
            tup = numbered(self.count)
            self.box.post(tup, None if sender is None else self.emitters[sender])
            self.model.append(tup)
            if sender is not None and len(self.model) >= self.box.capacity:
                self.stopped.add(sender)
        self.parked = False
        assert self.rung == ["wake"] * woken

    @rule(count=st.sampled_from([1, 2, 40, 120]))
    def take(self, count: int) -> None:
        self.rung.clear()
        resumed = 0
        for _ in range(count):
            expected = self.model.popleft() if self.model else None
            assert self.box.take() is expected
            if expected is not None and 2 * len(self.model) <= self.box.capacity:
                resumed += len(self.stopped)
                self.stopped.clear()
        assert self.rung == ["resume"] * resumed

    @rule()
    def park(self) -> None:
        assert self.box.park() == (not self.model)
        self.parked = not self.model

    @rule()
    def unpark(self) -> None:
        self.box.unpark()
        self.parked = False

    @invariant()
    def they_hold_the_same(self) -> None:
        assert len(self.box) == len(self.model)
        assert self.box.waiting() == list(self.model)
        assert self.box.parked == self.parked
        assert self.box.full == (len(self.model) >= self.box.capacity)
        assert [emitter.stopped_by for emitter in self.emitters] == [number in self.stopped for number in range(2)]


MailboxAgainstADeque.TestCase.settings = settings(stateful_step_count=30, max_examples=cases(60))
TestMailboxAgainstADeque = pytest.mark.guarantee("BP-1", "BP-2")(MailboxAgainstADeque.TestCase)


@pytest.mark.guarantee("BP-1")
@pytest.mark.parametrize("capacity", [1, 0, -5])
def test_a_mailbox_for_fewer_than_two_tuples_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match=f"capacity is {capacity}, but must be at least 2"):
        Mailbox(capacity)


@pytest.mark.guarantee("BP-2")
def test_a_sender_of_two_full_mailboxes_continues_when_both_have_drained_to_half() -> None:
    resumed: list[int] = []
    emitter = Backpressure(lambda: resumed.append(1))
    boxes = [Mailbox(4), Mailbox(4)]
    for box in boxes:
        for number in range(4):
            box.post(numbered(number), emitter)
    assert emitter.stopped_by == 2
    for box in boxes:
        assert resumed == []
        for _ in range(2):
            box.take()
    assert (resumed, emitter.stopped_by) == ([1], 0)


def test_a_freed_mailbox_releases_its_tuples() -> None:
    class Payload:
        pass

    payload = Payload()
    watched = weakref.ref(payload)
    box = Mailbox(8)
    box.post(make_tuple((payload,), ORIGIN))
    del payload
    gc.collect()
    assert watched() is not None
    del box
    assert watched() is None


def test_the_memory_of_a_mailbox_depends_on_its_tuples_and_not_on_its_bound() -> None:
    box = Mailbox(2**20)
    assert box.nbytes <= 1024
    for number in range(1000):
        box.post(numbered(number))
    assert box.nbytes == 1024 * 8


class RingAgainstADeque(RuleBasedStateMachine):
    """Signals go in. clear() empties the ring, as its consumer does in C."""

    @initialize()
    def begin(self) -> None:
        self.woken = 0
        self.ring = SignalRing(self.wake)
        self.model: list[tuple[int, int, int, int]] = []
        self.objects: list[object] = []
        self.parked = False

    def wake(self) -> None:
        self.woken += 1

    @rule(
        kind=st.sampled_from(list(Signal)),
        root=st.integers(0, 2**64 - 1),
        value=st.integers(0, 2**64 - 1),
        task=st.integers(-1, 2**31 - 1),
        times=st.sampled_from([1, 3, 70]),
    )
    def signal(self, kind: Signal, root: int, value: int, task: int, times: int) -> None:
        self.woken = 0
        for number in range(times):
            self.ring.signal(kind, root, value, task, carried=number)
            self.model.append((kind, root, value, task))
            if kind in (Signal.FAIL, Signal.FAILED, Signal.OWN_CLOCK, Signal.REPLY):
                self.objects.append(number)
        assert self.woken == self.parked
        self.parked = False

    @rule()
    def clear(self) -> None:
        self.ring.clear()
        self.model, self.objects = [], []

    @rule()
    def park(self) -> None:
        assert self.ring.park() == (not self.model)
        self.parked = not self.model

    @rule()
    def unpark(self) -> None:
        self.ring.unpark()
        self.parked = False

    @invariant()
    def they_hold_the_same(self) -> None:
        assert self.ring.waiting() == self.model
        assert len(self.ring) == len(self.model)
        assert list(self.ring.objects) == self.objects
        assert self.ring.parked == self.parked


RingAgainstADeque.TestCase.settings = settings(stateful_step_count=30, max_examples=cases(40))
TestRingAgainstADeque = pytest.mark.guarantee("BP-5")(RingAgainstADeque.TestCase)


@pytest.mark.guarantee("BP-5")
def test_a_ring_of_signals_never_refuses_and_frees_its_memory() -> None:
    ring = SignalRing()
    least = ring.nbytes
    for root in range(200_000):
        ring.signal(Signal.ACK, root)
    assert len(ring) == 200_000
    most = ring.nbytes
    assert most >= 200_000 * 24
    ring.clear()
    assert (len(ring), ring.nbytes) == (0, most)  # the next checkpoint may defer as many acks
    ring.signal(Signal.ACK, 1)
    ring.clear()
    assert (len(ring), ring.nbytes) == (0, least)


@pytest.mark.guarantee("BP-5")
def test_a_ring_that_freed_its_memory_grows_again_without_a_loss() -> None:
    ring = SignalRing()
    for root in range(70_000):
        ring.signal(Signal.ACK, root)
    ring.clear()
    ring.clear()
    for root in range(100):
        ring.signal(Signal.ACK, root)
    assert [root for _, root, _, _ in ring.waiting()] == list(range(100))
