"""Acks that a spout is told of when the effects of their trees are committed: held, cut by a PREPARE, released by its COMMIT (EO-4)."""

import random

import pytest

from _native.bolt import BoltCore
from _native.tuples import Tuple
from engine.kernel.codes import Signal
from tests.native.stage import SpoutLog, Stage, take_next, to, wire

pytestmark = pytest.mark.guarantee("EO-4")


class Holding:
    """A spout whose acks are held, and a bolt."""

    def __init__(self, *, ackers: int = 1, lists: bool = False) -> None:
        self.stage = Stage(ackers=ackers)
        self.spout: SpoutLog = self.stage.spout()
        self.bolt: BoltCore = self.stage.bolt(capacity=100_000)
        wire(self.spout.core, to(self.bolt))
        self.core = self.spout.core
        if lists:
            failed = self.spout.failed
            self.core.bind(lambda: None, None, lambda *one: failed.append(one), on_acks=self.spout.acked.extend)
        self.core.hold_acks(True)

    def emit(self, *words: str) -> list[Tuple]:
        """Emit words, and return the tuples that the bolt has taken."""
        for word in words:
            self.spout.emit((word,), word)
        return [take_next(self.bolt) for _ in words]

    def ack(self, *words: str) -> None:
        """Emit and ack words. The spout has their verdicts."""
        for tup in self.emit(*words):
            self.bolt.ack(tup)
        self.hear()

    def hear(self) -> list[str]:
        """Hand out what may be told. Return all acked words."""
        self.stage.settle()
        self.spout.hear()
        return sorted(self.spout.acked)

    def commit(self) -> list[str]:
        """Cut and release. Return all acked words."""
        self.core.cut_acks()
        self.core.release_acks()
        return self.hear()


@pytest.mark.parametrize("lists", [False, True], ids=["ack", "ack_many"])
def test_an_ack_is_told_when_it_is_released(lists: bool) -> None:
    holding = Holding(lists=lists)
    holding.ack("a", "b")
    assert (holding.hear(), holding.core.held, holding.core.pending, holding.core.acked) == ([], 2, 2, 0)
    holding.core.cut_acks()
    assert (holding.hear(), holding.core.held) == ([], 2)
    holding.core.release_acks()
    assert (holding.hear(), holding.core.held, holding.core.pending, holding.core.acked) == (["a", "b"], 0, 0, 2)


@pytest.mark.parametrize("lists", [False, True], ids=["ack", "ack_many"])
def test_acks_behind_the_cut_wait_for_the_next_commit(lists: bool) -> None:
    holding = Holding(lists=lists)
    holding.ack("a")
    holding.core.cut_acks()
    holding.ack("b")
    holding.core.release_acks()
    assert holding.hear() == ["a"]
    assert holding.commit() == ["a", "b"]


def test_the_cut_has_the_verdicts_that_the_spout_has_not_looked_at() -> None:
    holding = Holding()
    for tup in holding.emit("a", "b"):
        holding.bolt.ack(tup)
    holding.bolt.fail(holding.emit("bad")[0])
    holding.bolt.ack(holding.emit("c")[0])
    holding.stage.settle()
    holding.core.cut_acks()
    assert holding.core.held == 3
    holding.core.release_acks()
    assert (holding.hear(), holding.spout.failed) == (["a", "b", "c"], [("bad", "failed")])


def test_a_release_without_a_cut_tells_nothing() -> None:
    holding = Holding()
    holding.ack("a")
    holding.core.release_acks()
    assert (holding.hear(), holding.core.held) == ([], 1)


def test_fails_are_told_at_once() -> None:
    holding = Holding()
    holding.ack("a")
    holding.bolt.fail(holding.emit("b")[0])
    holding.hear()
    assert (holding.spout.acked, holding.spout.failed, holding.core.held) == ([], [("b", "failed")], 1)


def test_a_held_tree_counts_against_the_bound_of_open_trees() -> None:
    holding = Holding()
    holding.core.polling, holding.core.max_pending = True, 2
    holding.ack("a", "b")
    assert holding.core.run_burst(10) == 0, "the spout is not polled"
    holding.commit()
    assert holding.core.pending == 0


def test_a_held_tree_does_not_time_out() -> None:
    holding = Holding()
    holding.ack("a")
    for _ in range(30):
        holding.stage.rings[0].signal(Signal.ROTATE)
        holding.stage.settle()
        assert holding.stage.ackers[0].sweep() == []
    assert holding.commit() == ["a"]


@pytest.mark.guarantee("EO-5")
def test_a_rollback_fails_all_trees_but_those_that_are_released() -> None:
    holding = Holding()
    holding.ack("committed")
    holding.core.cut_acks()
    holding.ack("held")
    [open_one, on_its_way, under_way] = holding.emit("open", "on its way", "under way")
    holding.bolt.ack(on_its_way)
    holding.stage.settle()
    holding.bolt.ack(under_way)
    holding.core.release_acks()
    holding.core.fail_open_trees("rolled back")
    assert holding.hear() == ["committed"]
    assert sorted(holding.spout.failed) == [(word, "rolled back") for word in ("held", "on its way", "open", "under way")]
    assert (holding.core.held, holding.core.pending) == (0, 0)
    holding.bolt.ack(open_one)
    assert holding.commit() == ["committed"]


@pytest.mark.guarantee("ACK-13")
def test_the_death_of_an_acker_fails_only_trees_that_are_not_acked() -> None:
    holding = Holding(ackers=2)
    words = [f"word {number}" for number in range(20)]
    holding.ack(*words)
    open_words = [f"open {number}" for number in range(20)]
    holding.emit(*open_words)
    for index in (0, 1):
        holding.core.verdicts.signal(Signal.ACKER_DIED, 0, index)
    holding.hear()
    assert sorted(word for word, _ in holding.spout.failed) == sorted(open_words)
    assert holding.commit() == sorted(words)


@pytest.mark.guarantee("ACK-13")
def test_held_acks_end_with_the_instance() -> None:
    holding = Holding()
    holding.ack("a")
    holding.core.cut_acks()
    holding.ack("b")
    assert holding.core.drop_instance() == 2
    holding.core.release_acks()
    assert holding.core.held == 0
    assert len(holding.core.verdicts) == 0


def test_the_listener_hears_of_acks_that_begin_to_wait() -> None:
    holding, heard = Holding(), list[str]()
    holding.core.on_held = heard.append
    holding.ack("a")
    holding.ack("b")
    assert (heard, holding.commit(), heard) == (["a", "b"], ["a", "b"], ["a", "b"])


def test_a_spout_that_holds_nothing_is_told_at_once() -> None:
    holding = Holding()
    holding.core.hold_acks(False)
    holding.ack("a")
    assert (holding.spout.acked, holding.core.held) == (["a"], 0)


@pytest.mark.parametrize("lists", [False, True], ids=["ack", "ack_many"])
@pytest.mark.parametrize("seed", range(20))
def test_random_checkpoints_agree_with_a_model_of_sets(seed: int, lists: bool) -> None:
    """The model has sets of words: open, arrived, cut and told. PREPAREs that fail are followed by a rollback."""
    chance, holding = random.Random(seed), Holding(ackers=1 + seed % 2, lists=lists)
    taken: list[Tuple] = []
    arrived, cut, told, failed = set[str](), set[str](), set[str](), set[str]()
    is_cut = False
    for number in range(400):
        match chance.choice(["emit", "emit", "ack", "ack", "hear", "prepare", "commit", "roll back"]):
            case "emit":
                taken += holding.emit(f"{number}")
            case "ack" if taken:
                tup = taken.pop(chance.randrange(len(taken)))
                arrived.add(tup[0])
                holding.bolt.ack(tup)
                holding.stage.settle()
            case "hear":
                holding.hear()
            case "prepare" if not is_cut:
                holding.core.cut_acks()
                cut, is_cut = set(arrived), True
            case "commit" if is_cut:
                holding.core.release_acks()
                told, arrived, is_cut = told | cut, arrived - cut, False
                assert set(holding.hear()) == told
            case "roll back" if chance.random() < 0.3:
                holding.core.fail_open_trees("rolled back")
                failed |= arrived | {tup[0] for tup in taken}
                holding.bolt.drop_inputs("rolled back")
                taken, arrived, is_cut = [], set(), False
                holding.hear()
        assert set(holding.spout.acked) <= told
        assert {word for word, _ in holding.spout.failed} == failed
        assert holding.core.pending == len(taken) + len(arrived)
