"""Tuples of held sources that a task holds back."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from _native.bolt import BoltCore
from engine.kernel.codes import Signal
from tests.native.stage import SpoutLog, Stage, signals_to_acker, take_next, to, wire
from tests.tiers import cases


def two_sources() -> tuple[Stage, SpoutLog, SpoutLog, BoltCore]:
    """Two spouts, tasks 1 and 2, that feed one bolt."""
    stage = Stage(spouts=2)
    first, second, bolt = stage.spout(), stage.spout(), stage.bolt()
    for spout in (first, second):
        wire(spout.core, to(bolt))
    bolt.connect({1: first.core, 2: second.core}, {})
    return stage, first, second, bolt


class HoldsAgainstAModel(RuleBasedStateMachine):
    """Two sources send. The model has lists of the held and of the released tuples of each."""

    @initialize()
    def begin(self) -> None:
        self.stage, first, second, self.bolt = two_sources()
        self.spouts = {1: first, 2: second}
        self.sent = 0
        self.mailbox: deque[tuple[int, int]] = deque()
        self.aside: dict[int, list[tuple[int, int]]] = {}
        self.released: deque[tuple[int, int]] = deque()

    @rule(task=st.sampled_from([1, 2]))
    def send(self, task: int) -> None:
        self.sent += 1
        self.spouts[task].emit(((task, self.sent),), self.sent)
        self.mailbox.append((task, self.sent))

    @rule(task=st.sampled_from([1, 2]))
    def hold(self, task: int) -> None:
        self.bolt.hold(task)
        self.aside.setdefault(task, [])

    @rule(task=st.sampled_from([1, 2]))
    def release(self, task: int) -> None:
        self.bolt.release(task)
        self.released.extend(self.aside.pop(task, []))

    @rule()
    def take(self) -> None:
        expected = self.next_in_line()
        tup = self.bolt.take_next()
        assert (None if tup is None else tup[0]) == expected
        if tup is not None:
            self.bolt.ack(tup)

    def next_in_line(self) -> tuple[int, int] | None:
        while self.released or self.mailbox:
            task, number = (self.released or self.mailbox).popleft()
            if task not in self.aside:
                return task, number
            self.aside[task].append((task, number))
        return None

    @invariant()
    def the_held_are_stopped_and_counted(self) -> None:
        assert [self.spouts[task].core.backpressure.stopped_by for task in (1, 2)] == [task in self.aside for task in (1, 2)]
        kept = [*(row for aside in self.aside.values() for row in aside), *self.released]
        assert [tup[0] for tup in self.bolt.held_tuples.tuples()] == kept
        assert len(self.bolt.held_tuples) == len(kept)


HoldsAgainstAModel.TestCase.settings = settings(stateful_step_count=40, max_examples=cases(60))
TestHoldsAgainstAModel = pytest.mark.guarantee("GRP-4")(HoldsAgainstAModel.TestCase)


@pytest.mark.guarantee("ACK-8")
def test_held_tuples_are_refreshed() -> None:
    stage, first, second, bolt = two_sources()
    bolt.hold(1)
    first.emit(("held",), 1)
    second.emit(("flows",), 2)
    [held, flows] = [root for _, root, _, _ in stage.rings[0].waiting()]
    tup = take_next(bolt)
    assert (tup[0], tup.roots) == ("flows", (flows,))
    bolt.refresh_held()
    bolt.release(1)
    bolt.refresh_held()
    assert signals_to_acker(stage) == [(Signal.RESET, held)] * 2


def test_held_tuples_do_not_count_for_the_bound_of_the_mailbox() -> None:
    stage = Stage()
    spout, bolt = stage.spout(), stage.bolt(capacity=4)
    wire(spout.core, to(bolt))
    bolt.connect({1: spout.core}, {})
    bolt.hold(1)
    for number in range(20):
        spout.emit((number,), number)
    assert bolt.take_next() is None
    assert (len(bolt.mailbox), len(bolt.held_tuples), spout.core.backpressure.stopped_by) == (0, 20, 1)
    bolt.release(1)
    assert spout.core.backpressure.stopped_by == 0
    assert [take_next(bolt)[0] for _ in range(20)] == list(range(20))
