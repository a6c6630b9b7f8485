"""A call that raises runs again before its input fails, and a failed try leaves nothing behind (SV-13)."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest

import engine
from engine import BasicBolt, Bolt, Config, FailTuple, FatalError, Run, TopologyBuilder, Tuple
from engine.testing import Capture, Feeder, KillTask, run_topology
from tests.runtime.retried import AT_ONCE, FIELDS, FORMS, IN_ORDER, Plan, Trial
from tests.runtime.stage import loop, play
from tests.tiers import cases

pytestmark = pytest.mark.guarantee("SV-13")


def both(*numbers: int) -> list[Any]:
    return [(number, part) for number in numbers for part in ("begin", "end")]


@pytest.mark.parametrize("form", FORMS)
def test_after_a_failed_first_try_the_second_one_counts_alone(form: str) -> None:
    trial = Trial(form, {1: 2, 3: 2}, retries=3)  # a burst uses one of both as a burst
    assert trial.failed == []
    assert sorted(trial.acked) == [0, 1, 2, 3, 4]
    assert sorted(trial.out.values) == both(0, 1, 2, 3, 4)
    assert (trial.work.failed, trial.work.acked, trial.work.executed) == (0, 5, 5)
    assert trial.work.retries == 4 or ("burst" in form and trial.work.retries in (2, 3))
    assert trial.work.emitted == 10
    if form in IN_ORDER:
        assert trial.out.values == both(0, 1, 2, 3, 4)


@pytest.mark.parametrize("form", FORMS)
def test_when_all_tries_fail_only_this_input_fails(form: str) -> None:
    trial = Trial(form, {2: 100}, retries=3)
    assert trial.failed == [2]
    assert sorted(trial.acked) == [0, 1, 3, 4]
    assert sorted(trial.out.values) == both(0, 1, 3, 4)
    assert trial.work.retries == 3
    assert trial.plan.calls.count(2) - ("burst" in form) in (3, 4)  # a burst of one is a try itself
    assert trial.feeder.failed[0][1].error == "ValueError: 2"
    assert (trial.work.failed, trial.work.acked) == (1, 4)


@pytest.mark.parametrize("form", AT_ONCE)
def test_other_inputs_go_on_meanwhile(form: str) -> None:
    trial = Trial(form, {0: 3}, retries=3)
    assert trial.out.values[-2:] == both(0)
    assert trial.acked == [1, 2, 3, 4, 0]


def test_the_pauses_double_from_a_tenth_of_a_second_to_ten_seconds() -> None:
    at: list[float] = []

    class Fails(BasicBolt):
        retries = 9

        def execute(self, tup: Tuple) -> None:
            at.append(self.context.clock.now())
            raise ValueError

    feeder, builder = Feeder("number"), TopologyBuilder("pauses")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("fails", Fails).shuffle_grouping("numbers")
    feeder.feed((1,))
    feeder.close()
    run_topology(builder.build(), Config(message_timeout_secs=4))
    assert [round(later - earlier, 3) for earlier, later in pairwise(at)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]
    assert [failure.reason for _, failure in feeder.failed] == ["error"]  # in spite of the short timeout (ACK-8)


@pytest.mark.guarantee("ACK-8")
@pytest.mark.parametrize("form", ["concurrency", "threads", "async explicit", "stateful", "burst"])
def test_an_input_that_waits_for_its_next_try_does_not_time_out(form: str) -> None:
    trial = Trial(form, {0: 8, 1: 8}, count=2, retries=9, config=Config(message_timeout_secs=3))
    assert trial.failed == []
    assert sorted(trial.out.values) == both(0, 1)


@pytest.mark.parametrize("form", ["generator", "burst", "concurrency", "threads"])
def test_a_fail_tuple_is_not_retried(form: str) -> None:
    trial = Trial(form, {2: 100}, retries=3, error=FailTuple)
    assert trial.failed == [2]
    assert (trial.work.retries, trial.work.failures) == (0, {"failed": 1})


@pytest.mark.parametrize("form", ["generator", "burst", "concurrency", "stateful"])
def test_a_fatal_error_is_not_retried(form: str) -> None:
    with pytest.raises(engine.ComponentError) as raised:
        Trial(form, {2: 100}, retries=3, error=lambda number: FatalError(f"no licence for {number}"))
    assert "no licence for 2" in str(raised.value)


@pytest.mark.parametrize("form", ["generator", "burst", "concurrency"])
def test_the_instance_is_replaced_only_after_the_last_try(form: str) -> None:
    trial = Trial(form, {2: 100}, retries=2, on_error="restart")
    assert 2 in trial.failed
    assert (trial.work.retries, trial.work.restarts) == (2, 1)


def test_each_retry_is_in_the_log_under_the_usual_limit() -> None:
    trial = Trial("generator", {2: 3}, retries=3)
    [report] = trial.finished.errors
    assert report.next_step == "the call runs again, at most 3 times"
    assert report.tuple_text == "<Tuple (2,) from numbers[1] on default>"
    assert trial.work.errors == 3


def test_acks_of_a_call_that_raises_are_taken_back() -> None:
    tries: list[int] = []

    class Pairs(Bolt):
        output_fields = "numbers"
        retries = 1

        def prepare(self) -> None:
            self.waiting: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            pair = [*self.waiting, tup]
            if len(pair) < 2:
                self.waiting.append(tup)
                return
            self.collector.emit(([each[0] for each in pair],), anchors=pair)
            for each in pair:
                self.collector.ack(each)
            tries.append(tup[0])
            if len(tries) == 1:
                raise ValueError
            self.waiting = []

    feeder, pairs, builder = Feeder("number"), Capture(), TopologyBuilder("pairs")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("pairs", Pairs).shuffle_grouping("numbers")
    builder.set_bolt("seen", pairs).shuffle_grouping("pairs")
    feeder.feed_all([(1,), (2,)])
    feeder.close()
    finished = run_topology(builder.build(), Config(message_timeout_secs=5))
    assert pairs.values == [([1, 2],)]
    assert (feeder.acked, feeder.failed, tries) == ([1, 2], [], [2, 2])
    assert finished.snapshot.components["pairs"].settled_twice == 0


def test_wrong_use_raises_where_the_call_emits() -> None:
    caught: list[str] = []

    class Wrong(Bolt):
        output_fields = FIELDS
        retries = 1

        def execute(self, tup: Tuple) -> None:
            self.collector.ack(tup)
            self.collector.ack(tup)
            for emit in (
                lambda: self.collector.emit((1,), tup),
                lambda: self.collector.emit((1, 2), tup),
                lambda: self.collector.emit((1, 2), stream="late"),
                lambda: self.collector.emit_direct(1, (1, 2)),
                lambda: self.collector.emit((1, 2), "no anchor"),  # type: ignore[arg-type]
                lambda: self.collector.ack(3),  # type: ignore[arg-type]
            ):
                try:
                    emit()
                except engine.UsageError as error:
                    caught.append(error.message)

    feeder, builder = Feeder("number"), TopologyBuilder("wrong")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("wrong", Wrong).shuffle_grouping("numbers")
    feeder.feed((7,))
    feeder.close()
    finished = run_topology(builder.build())
    place = "bolt 'wrong' "
    assert [text.removeprefix(place)[:54] for text in caught] == [
        "emitted anchored to <Tuple (7,) from numbers[1] on def",
        "emitted anchored to <Tuple (7,) from numbers[1] on def",
        "emitted to stream 'late', which it does not declare",
        "used emit_direct() on stream 'default', which is not d",
        "emitted with anchors='no anchor', which is not one of ",
        "called ack(3), which is not one of its input tuples",
    ]
    assert all("settled already" in text for text in caught[:2])
    assert finished.snapshot.components["wrong"].settled_twice == 1
    assert feeder.acked == [1]


def test_a_key_that_the_grouping_refuses_sends_nothing_of_the_call() -> None:
    class Keys(BasicBolt):
        output_fields = "key"
        retries = 1

        def execute(self, tup: Tuple) -> Iterator[Any]:
            yield (1,)
            yield ({},)

    feeder, seen, builder = Feeder("number"), Capture(), TopologyBuilder("keys")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("keys", Keys).shuffle_grouping("numbers")
    builder.set_bolt("seen", seen, parallelism=2).fields_grouping("keys", "key")
    feeder.feed((7,))
    feeder.close()
    run_topology(builder.build())
    assert seen.values == []
    assert [failure.reason for _, failure in feeder.failed] == ["error"]


def test_work_that_a_failed_call_left_behind_emits_nothing() -> None:
    errors: list[str] = []

    class Leaves(BasicBolt):
        output_fields = "number"
        retries = 1
        calls = 0

        async def execute(self, tup: Tuple) -> Any:
            async def later() -> None:
                await asyncio.sleep(0.01)
                try:
                    self.collector.emit((0,))
                except engine.UsageError as error:
                    errors.append(error.message)

            self.calls += 1
            if self.calls == 1:
                self.later = asyncio.get_running_loop().create_task(later())
                raise ValueError
            return (tup[0],)

    feeder, seen, builder = Feeder("number"), Capture(), TopologyBuilder("left")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("leaves", Leaves).shuffle_grouping("numbers")
    builder.set_bolt("seen", seen).shuffle_grouping("leaves")
    feeder.feed((7,))
    feeder.close()
    run_topology(builder.build())
    assert seen.values == [(7,)]
    [text] = errors
    assert "after this call had raised" in text


# The life of a task while a try waits


def waiting_run(form: str, act: Any, *, fails: int = 100, retries: int = 100, **config: Any) -> tuple[Any, Any]:
    """Run one input whose tries fail, call `act(run)` in the pause before the last tries, and return the feeder and the capture."""
    make, own = FORMS[form]
    plan, feeder, out = Plan({0: fails}), Feeder("number"), Capture()
    builder = TopologyBuilder("waiting")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("work", make(plan), retries=retries, **own).shuffle_grouping("numbers")
    builder.set_bolt("out", out).shuffle_grouping("work")
    feeder.feed((0,))
    feeder.close()

    async def main() -> None:
        async with engine.run(builder.build(), Config(seed=1, **config)) as run:
            await asyncio.sleep(1.6)  # in the pause behind the fifth try
            assert len(plan.calls) == 5
            await act(run)

    play(main)
    return feeder, out


PAUSED = ["generator", "async explicit", "burst", "stateful", "concurrency", "threads"]


@pytest.mark.parametrize("form", PAUSED)
def test_a_stop_does_not_wait_for_a_try(form: str) -> None:
    async def stop(run: Run) -> None:
        began = loop().time()
        await run.stop()
        assert loop().time() - began < 0.1

    waiting_run(form, stop)


@pytest.mark.parametrize("form", PAUSED)
def test_a_drain_waits_for_tries_until_its_timeout(form: str) -> None:
    async def drain(run: Run) -> None:
        began = loop().time()
        await run.drain()
        assert loop().time() - began < 21

    waiting_run(form, drain, drain_timeout_secs=20)
    feeder, out = waiting_run(form, lambda run: run.drain(), fails=6, drain_timeout_secs=60)
    assert feeder.acked == [1]
    assert out.values == both(0)


@pytest.mark.parametrize("form", [form for form in PAUSED if form != "stateful"])
@pytest.mark.parametrize("how", ["restart_task", "kill_task"])
def test_the_next_instance_takes_the_input_that_waits(form: str, how: str) -> None:
    async def replace(run: Run) -> None:
        [task] = run.snapshot().components["work"].tasks
        getattr(run, how)(task.task_id)
        await run.completed()

    feeder, out = waiting_run(form, replace, fails=7)
    assert (feeder.acked, feeder.failed) == ([1], [])
    assert out.values == both(0)


@pytest.mark.parametrize("form", ["generator", "burst", "concurrency"])
def test_a_replacement_does_not_begin_to_count_anew(form: str) -> None:
    async def replace(run: Run) -> None:
        [task] = run.snapshot().components["work"].tasks
        run.restart_task(task.task_id)
        await run.completed()
        assert run.snapshot().components["work"].retries == 6

    feeder, _ = waiting_run(form, replace, retries=6)
    assert len(feeder.failed) == 1


@pytest.mark.guarantee("SV-1")
@pytest.mark.parametrize("form", ["generator", "concurrency", "burst"])
def test_a_broken_connection_is_renewed_after_many_failed_tries(form: str) -> None:
    trial = Trial(form, dict.fromkeys(range(5), 4), retries=5, config=Config(renew_after_failures=3))
    assert trial.failed == []
    assert sorted(trial.out.values) == both(0, 1, 2, 3, 4)
    assert trial.work.restarts >= 1


def test_killed_while_it_runs_an_input_fails_as_ever() -> None:
    class Hangs(BasicBolt):
        retries = 5

        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(3)

    feeder, builder = Feeder("number"), TopologyBuilder("hangs")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("work", Hangs).shuffle_grouping("numbers")
    feeder.feed((1,))
    feeder.close()
    run_topology(builder.build(), faults=[KillTask("work", at_secs=1)])
    assert [failure.reason for _, failure in feeder.failed] == ["task_died"]


@pytest.mark.guarantee("CP-4")
@pytest.mark.parametrize("form", ["stateful", "stateful async", "stateful burst", "concurrency"])
def test_a_checkpoint_waits_for_the_tries(form: str) -> None:
    trial = Trial(form, {1: 4, 3: 4}, retries=5, config=Config(state_checkpoint_interval_ms=100))
    assert trial.failed == []
    assert sorted(trial.out.values) == both(0, 1, 2, 3, 4)


# Against a plain model


def modelled(fails: dict[int, int], count: int, retries: int) -> tuple[list[Any], list[int], int]:
    """Return the output in order, the failed numbers, and the number of retries, of a bolt that takes one input at a time."""
    out: list[Any] = []
    failed, made = [], 0
    for number in range(count):
        tries = min(fails.get(number, 0), retries + 1)
        made += min(tries, retries)
        if tries == retries + 1:
            failed.append(number)
        else:
            out += both(number)
    return out, failed, made


@pytest.mark.parametrize("seed", range(cases(40)))
def test_any_plan_of_failures_gives_what_a_plain_model_gives(seed: int) -> None:
    random = Random(seed)
    form = random.choice([each for each in FORMS if "burst" not in each])
    count, retries = random.randint(1, 12), random.randint(0, 4)
    fails = {number: random.randint(1, 6) for number in range(count) if random.random() < 0.4}
    out, failed, made = modelled(fails, count, retries)
    on_error = random.choice(["fail", "divert"]) if retries else "divert"
    trial = Trial(form, dict(fails), count=count, retries=retries, on_error=on_error)
    assert (trial.out.values if form in IN_ORDER else sorted(trial.out.values)) == out, (form, fails)
    assert trial.work.retries == made
    if on_error == "divert":
        rows = [("work", 2, f"ValueError: {number}", retries + 1, {"number": number}) for number in failed]
        assert sorted(trial.diverted.values, key=lambda row: row[-1]["number"]) == rows
    else:
        assert sorted(trial.failed) == failed
    assert len(trial.acked) + len(trial.failed) == count
