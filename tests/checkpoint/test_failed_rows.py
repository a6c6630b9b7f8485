"""Rows of exact sources that fail: once, always, in an outage, and those that a bolt retries or diverts (EO-1, EO-6)."""

import asyncio
import random
from collections import Counter
from functools import partial
from typing import Any

import pytest

from engine import BasicBolt, Bolt, SpoutExhausted, TopologyBuilder, Tuple
from engine.runtime.task_ports import ExecutorSpoutPort
from engine.testing import Capture, Finished, KillTask, run_topology
from tests.checkpoint.scenarios.kit import FAST, Numbers, PassOn, Tally, Told, counted, once


class Fails(PassOn):
    """Fails rows, each as often as the class says. None: always. All instances share the class."""

    often: dict[Any, int | None]
    calls: Counter[Any]

    def execute(self, tup: Tuple) -> Any:
        row = tup["n"]
        self.calls[row] += 1
        if row in self.often:
            often = self.often[row]
            if often is None or self.calls[row] <= often:
                raise ValueError("bad")
        return super().execute(tup)


def fails(often: dict[Any, int | None]) -> Any:
    return type("FailsThese", (Fails,), {"often": often, "calls": Counter()})


def run_with(spout: Any, bolt: Any, *, beside: bool = False, **settings: Any) -> tuple[Counter[Any], Finished]:
    """Run `numbers` > `p` > `count`. beside: `numbers` > `p` and `numbers` > `count`, so that a row that fails has had an effect."""
    told, builder = Told(), TopologyBuilder("failed")
    builder.set_spout("numbers", spout)
    builder.set_bolt("p", bolt).shuffle_grouping("numbers")
    builder.set_bolt("count", told.create).shuffle_grouping("numbers" if beside else "p")
    finished = run_topology(builder.build(), FAST.replace(**settings))
    return told.counts(), finished


def given_up(finished: Finished) -> list[str]:
    return [error.text for error in finished.errors if error.text.startswith("GaveUp")]


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize(("max_retries", "passes"), [(1, "1 pass"), (2, "2 passes"), (3, "3 passes")])
def test_rows_that_always_fail_are_given_up_after_max_retries_passes(max_retries: int, passes: str, ids: bool) -> None:
    bad = fails({3: None, 7: None})
    counts, finished = run_with(partial(Numbers, 20, ids=ids), bad, beside=True, max_retries=max_retries)
    assert counts == once(20) - Counter([3, 7])
    assert bad.calls[3] == bad.calls[7] == max_retries
    assert bad.calls[0] == max_retries + 1
    assert [text.partition(",) ")[0] for text in given_up(finished)] == [f"GaveUp: spout 'numbers': the row ({row}" for row in (3, 7)]
    assert all(f"failed in {passes}, and was given up" in text for text in given_up(finished))


class Order:
    """A value that MessagePack cannot write, and whose repr is its address."""

    def __init__(self, number: int) -> None:
        self.number = number


@pytest.mark.guarantee("EO-6")
def test_a_row_of_objects_is_known_again_although_they_are_others_in_each_pass() -> None:
    calls: Counter[int] = Counter()

    class Orders(Numbers):
        def next_tuple(self) -> None:
            if self.next >= self.rows:
                raise SpoutExhausted
            self.collector.emit((Order(self.next),))
            self.next += 1

    class Takes(Tally):
        def execute(self, tup: Tuple) -> None:
            number = tup["n"].number
            calls[number] += 1
            if number == 7:
                raise ValueError("bad")
            self.state.put(number, self.state.get(number, 0) + 1)

    assert counted(partial(Orders, 20), count=Takes) == once(20) - Counter([7])
    assert calls[7] == 3


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize(("max_retries", "times"), [(1, "1 time"), (2, "2 times"), (3, "3 times"), (7, "7 times")])
def test_without_an_effect_a_row_that_always_fails_is_given_up_alone(max_retries: int, times: str, ids: bool) -> None:
    bad = fails({3: None, 7: None})
    counts, finished = run_with(partial(Numbers, 20, pace_secs=0.1, ids=ids), bad, max_retries=max_retries)
    assert counts == once(20) - Counter([3, 7])
    assert all(bad.calls[row] == 1 for row in range(20) if row not in (3, 7))  # nothing is repeated
    assert all(max_retries <= bad.calls[row] <= max_retries + 2 for row in (3, 7))  # a try at once may be too early to count
    assert sorted(text.partition(",) ")[0] for text in given_up(finished)) == [f"GaveUp: spout 'numbers': the row ({row}" for row in (3, 7)]
    assert all(f"failed {times}, and was given up" in text for text in given_up(finished))
    assert finished.snapshot.undone is not None
    assert finished.snapshot.undone.failed == 2


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("seed", range(5))
def test_a_bad_row_whose_failure_kills_its_task_does_not_hit_other_rows_for_ever(seed: int) -> None:
    """Tried alone anew in each pass, it would kill the task with its neighbours each time, so that no pass succeeds."""

    class Looks(PassOn):
        concurrency = 6

        async def execute(self, tup: Tuple) -> Any:  # type: ignore[override]
            await asyncio.sleep(self.context.random.random() * 0.2)
            if tup["n"] % 50 == 7:
                raise ValueError("bad")
            yield (tup["n"],)

    config = FAST.replace(state_checkpoint_interval_ms=200, on_error="restart", max_task_restarts=1000, seed=seed)
    assert counted(partial(Numbers, 150, burst=7), Looks, config=config, limit_secs=600) == once(150) - Counter([7, 57, 107])


@pytest.mark.guarantee("EO-6")
def test_a_row_that_kills_a_stateful_task_is_given_up_although_its_tree_has_slow_branches() -> None:
    """The death begins the recovery before the tree is settled. Never told, the failure would count in no pass, and the run would end."""

    class Slow(BasicBolt):
        concurrency = 100

        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(0.3)

    class Bad(Tally):
        def execute(self, tup: Tuple) -> None:
            super().execute(tup)
            if tup["n"] == 7:
                raise ValueError("bad")

    told, builder = Told(), TopologyBuilder("failed")
    builder.set_spout("numbers", partial(Numbers, 20))
    builder.set_bolt("slow", Slow).shuffle_grouping("numbers")
    builder.set_bolt("count", partial(Bad, told)).shuffle_grouping("numbers")
    finished = run_topology(builder.build(), FAST.replace(on_error="restart"), limit_secs=600)
    assert told.counts() == once(20) - Counter([7])
    assert len(given_up(finished)) == 1


@pytest.mark.guarantee("EO-6")
def test_the_last_row_is_given_up_too_although_nothing_comes_behind_it() -> None:
    counts, finished = run_with(partial(Numbers, 20), fails({19: None}))
    assert counts == once(19)
    assert len(given_up(finished)) == 1


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("beside", [False, True])
def test_a_row_that_fails_once_is_counted_once_and_none_gives_nothing_up(beside: bool) -> None:
    assert run_with(partial(Numbers, 20), fails({3: 1, 7: 2}), beside=beside)[0] == once(20)
    counts, finished = run_with(partial(Numbers, 20), fails({3: 11}), beside=beside, max_retries=None)
    assert counts == once(20)
    assert not given_up(finished)


class Equal(Numbers):
    """All rows have the same values."""

    def next_tuple(self) -> None:
        if self.next == self.rows:
            raise SpoutExhausted
        self.next += 1
        self.collector.emit(("same",))


@pytest.mark.guarantee("EO-1", "EO-6")
def test_of_equal_rows_only_as_many_are_given_up_as_have_failed() -> None:
    class FailsTwoOfFifty(PassOn):
        left = 0

        def prepare(self) -> None:
            self.calls = 0

        def execute(self, tup: Tuple) -> Any:
            self.calls += 1
            if self.calls in (7, 30) and FailsTwoOfFifty.left < 6:
                FailsTwoOfFifty.left += 1
                raise ValueError("bad")
            return super().execute(tup)

    counts, finished = run_with(partial(Equal, 50), FailsTwoOfFifty, beside=True)
    assert counts == {"same": 48}
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries == 3


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("stateful", [False, True])
def test_an_outage_gives_nothing_up(stateful: bool) -> None:
    began: list[float] = []

    class Away:
        def execute(self, tup: Tuple) -> Any:
            if not began:
                began.append(self.context.clock.now())  # type: ignore[attr-defined]
            if 2 < self.context.clock.now() - began[0] < 62:  # type: ignore[attr-defined]
                raise OSError("away")
            return super().execute(tup)  # type: ignore[misc]

    told, builder = Told(), TopologyBuilder("outage")
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.1))
    away = partial(type("Away", (Away, Tally), {}), told) if stateful else type("Away", (Away, PassOn), {})
    builder.set_bolt("away", away).shuffle_grouping("numbers")
    builder.set_bolt("count", told.create).shuffle_grouping("numbers" if stateful else "away")
    finished = run_topology(builder.build(), FAST)
    assert told.counts("away" if stateful else "count") == once(40)
    assert not given_up(finished)
    assert 62 < finished.secs < 80
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries < 15  # the pauses grow


class Keeps(Bolt):
    """Never settles the row 5."""

    output_fields = "n"

    def prepare(self) -> None:
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        if tup["n"] == 5:
            self.kept.append(tup)
            return
        self.collector.emit((tup["n"],), tup)
        self.collector.ack(tup)


@pytest.mark.guarantee("EO-3", "EO-6")
def test_an_input_that_is_never_settled_costs_one_message_timeout_for_each_pass() -> None:
    counts, finished = run_with(partial(Numbers, 40, pace_secs=0.1), Keeps)
    assert counts == once(40) - Counter([5])
    assert finished.secs < 4 * 40  # and not three times checkpoint_timeout_secs


class FailsAfterItsChange(Tally):
    """Changes its state and fails, the row 3 once and the row 5 always."""

    calls: Counter[Any]

    def execute(self, tup: Tuple) -> None:
        super().execute(tup)
        self.calls[tup["n"]] += 1
        if tup["n"] == 5 or (tup["n"] == 3 and self.calls[3] == 1):
            raise ValueError("bad")


@pytest.mark.guarantee("EO-1", "EO-6")
@pytest.mark.parametrize(("retries", "lost"), [(0, [3, 5]), (1, [5])])
def test_a_stateful_bolt_with_retries_that_diverts_is_exact(retries: int, lost: list[int]) -> None:
    told, builder, bad = Told(), TopologyBuilder("diverts"), Capture()
    bolt = type("Diverts", (FailsAfterItsChange,), {"calls": Counter()})
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.05))
    builder.set_bolt("count", partial(bolt, told), retries=retries, on_error="divert").shuffle_grouping("numbers")
    builder.set_bolt("bad", bad).shuffle_grouping("count", stream="failed")
    finished = run_topology(builder.build(), FAST.replace(state_checkpoint_interval_ms=300), faults=[KillTask("count", at_secs=1.5)])
    assert told.counts() == once(40) - Counter(lost)
    assert [values[4]["n"] for values in bad.values] == lost
    assert not given_up(finished)


class BeginsSlowly(Numbers):
    """Emits nothing for the first second of each instance, as a source that has to connect."""

    def open(self) -> None:
        self.due = self.context.clock.now() + 1.0


@pytest.mark.guarantee("EO-6")
def test_passes_count_although_commits_come_before_a_slow_source_repeats_its_rows() -> None:
    """Given a source that begins after several checkpoints, when a row always fails, then it is given up after three passes."""
    bad = fails({3: None})
    counts, finished = run_with(partial(BeginsSlowly, 20, ids=True), bad, beside=True)
    assert counts == once(20) - Counter([3])
    assert bad.calls[3] == 3
    assert len(given_up(finished)) == 1


class FailsByChance(PassOn):
    """Fails one of a hundred calls, whatever their row."""

    draws = random.Random(3)

    def execute(self, tup: Tuple) -> Any:
        if FailsByChance.draws.random() < 0.01:
            raise ConnectionError("by chance")
        return super().execute(tup)


@pytest.mark.guarantee("EO-6")
def test_an_interval_that_fails_again_and_again_becomes_shorter_until_it_is_committed() -> None:
    """Given 1,000 rows in an interval, of which ten fail in each pass, other ones each time."""
    counts, finished = run_with(partial(Numbers, 3000, pace_secs=0.001), FailsByChance, beside=True, max_retries=None)
    assert counts == once(3000)
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries > finished.snapshot.checkpoint.committed


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("burst", [1, 7])
def test_a_repeated_interval_ends_where_the_failed_pass_has_ended(burst: int) -> None:
    """Given that every tenth row fails at its first call, a pass that went on to new rows would fail, too."""
    first_calls_fail = fails(dict.fromkeys(range(0, 600, 10), 1))
    counts, finished = run_with(partial(Numbers, 600, pace_secs=0.01, burst=burst), first_calls_fail, beside=True)
    assert counts == once(600)
    assert finished.snapshot.checkpoint is not None
    assert 0 < finished.snapshot.checkpoint.recoveries <= finished.snapshot.checkpoint.committed
    assert max(first_calls_fail.calls.values()) == 2


@pytest.mark.guarantee("EO-3", "EO-6")
def test_what_fails_behind_the_barrier_repeats_the_next_interval_only() -> None:
    """Given that the first rows keep the first checkpoint for a second, the row 40 of meanwhile does not refuse it."""
    told, builder, fails_once = Told(), TopologyBuilder("failed"), fails({40: 1})
    builder.set_spout("numbers", partial(Numbers, 100, pace_secs=0.01))
    builder.set_bolt("slow", SlowBegin, concurrency=100).shuffle_grouping("numbers")
    builder.set_bolt("p", fails_once).shuffle_grouping("numbers")
    builder.set_bolt("count", told.create).shuffle_grouping("p")
    builder.set_bolt("beside", told.create).shuffle_grouping("numbers")
    finished = run_topology(builder.build(), FAST)
    assert told.counts() == told.counts("beside") == once(100)
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries == 1
    assert fails_once.calls[0] == 1
    assert fails_once.calls[40] == 2


class SlowBegin(BasicBolt):
    """Waits for a second with each of the first rows."""

    async def execute(self, tup: Tuple) -> None:
        if tup["n"] < 5:
            await asyncio.sleep(1.0)


@pytest.mark.guarantee("EO-6")
def test_after_failures_by_chance_the_sources_have_no_limit_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def limit_emits(self: ExecutorSpoutPort, more: int | None) -> None:
        limits.append(more)
        unchanged(self, more)

    limits, unchanged = list[int | None](), ExecutorSpoutPort.limit_emits
    monkeypatch.setattr(ExecutorSpoutPort, "limit_emits", limit_emits)
    FailsAtFirst.draws = random.Random(5)
    assert run_with(partial(Numbers, 4000, pace_secs=0.01), FailsAtFirst, beside=True, max_retries=None)[0] == once(4000)
    assert any(limits)
    assert not any(limits[-5:])


class FailsAtFirst(FailsByChance):
    """Fails 2 % of the calls by chance, for the first 1,000 rows."""

    def execute(self, tup: Tuple) -> Any:
        if tup["n"] < 1000 and FailsAtFirst.draws.random() < 0.02:
            raise ConnectionError("by chance")
        return PassOn.execute(self, tup)
