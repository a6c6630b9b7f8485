"""Faults kill tasks, raise in calls, and drop or delay tuples, the same in each run of a seed."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, Run, Topology, TopologyBuilder, Tuple, UsageError, bolt
from engine.api import BoltFactory
from engine.testing import (
    ACKER,
    Capture,
    DelayTuple,
    DropTuple,
    Fault,
    FaultInjector,
    Feeder,
    Finished,
    InjectedError,
    KillTask,
    RaiseError,
    run_topology,
)


class Relay(Bolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> None:
        self.collector.emit(tup.values, tup)
        self.collector.ack(tup)


class AsyncRelay(Bolt):
    output_fields = "number"

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0.01)
        self.collector.emit(tup.values, tup)
        self.collector.ack(tup)


@bolt("number")
def generator(tup: Tuple) -> Iterator[tuple[int]]:
    yield (tup[0],)


@bolt("number")
def returning(tup: Tuple) -> tuple[int]:
    return (tup[0],)


@bolt("number")
async def coroutine(tup: Tuple) -> tuple[int]:
    await asyncio.sleep(0.01)
    return (tup[0],)


@bolt("number")
async def async_generator(tup: Tuple) -> AsyncIterator[tuple[int]]:
    await asyncio.sleep(0.01)
    yield (tup[0],)


RELAYS: dict[str, BoltFactory] = {
    "def": Relay,
    "async def": AsyncRelay,
    "basic generator": generator,
    "basic def": returning,
    "basic async def": coroutine,
    "basic async generator": async_generator,
}
relays = pytest.mark.parametrize("relay", RELAYS.values(), ids=RELAYS.keys())


def numbers(count: int, max_retries: int = 0) -> Feeder:
    feeder = Feeder("number", max_retries=max_retries)
    feeder.feed_all([(number,) for number in range(1, count + 1)])
    feeder.close()
    return feeder


def topology(feeder: Feeder, relay: BoltFactory = Relay, sink: Capture | None = None, **settings: Any) -> Topology:
    builder = TopologyBuilder("faulty")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("relay", relay, **settings).shuffle_grouping("numbers")
    builder.set_bolt("sink", sink or Capture()).shuffle_grouping("relay")
    return builder.build()


def run(feeder: Feeder, *faults: Fault, relay: BoltFactory = Relay, sink: Capture | None = None, **settings: Any) -> Finished:
    return run_topology(topology(feeder, relay, sink, **settings), Config(message_timeout_secs=30), faults=faults)


def reasons(feeder: Feeder) -> list[tuple[object, str]]:
    return [(message_id, failure.reason) for message_id, failure in feeder.failed]


# Raise


@relays
def test_the_nth_call_raises(relay: BoltFactory) -> None:
    feeder = numbers(5)
    finished = run(feeder, RaiseError("relay", at_call=3), relay=relay)
    assert reasons(feeder) == [(3, "error")]
    assert sorted(feeder.acked, key=str) == [1, 2, 4, 5]
    assert finished.strikes[0].task_id == 2
    assert "InjectedError: call 3 of relay.execute()" in finished.errors[0].text


def test_a_fault_may_have_its_own_error_and_several_calls() -> None:
    feeder = numbers(10)
    finished = run(feeder, RaiseError("relay", at_call={2, 7}, error=KeyError("word")))
    assert [message_id for message_id, _ in feeder.failed] == [2, 7]
    assert finished.errors[0].text == "KeyError: 'word'"


def test_calls_are_counted_across_instances() -> None:
    feeder = numbers(10)
    run(feeder, RaiseError("relay", at_call=range(3, 10, 3)))
    assert [message_id for message_id, _ in feeder.failed] == [3, 6, 9]


def test_lifecycle_methods_raise_too() -> None:
    feeder = numbers(2)
    finished = run(feeder, RaiseError("relay", at_call={1, 2}, method="prepare"), RaiseError("numbers", at_call=1, method="open"))
    assert feeder.acked == [1, 2]
    assert [report.component_id for report in finished.errors] == ["relay", "numbers"], "equal errors are reported once"
    components = finished.snapshot.components
    assert [(components[name].errors, components[name].restarts) for name in ("relay", "numbers")] == [(2, 2), (1, 1)]


@pytest.mark.parametrize(("on_error", "restarts"), [("fail", 0), ("restart", 1)])
def test_calls_of_a_spout_raise(on_error: Any, restarts: int) -> None:
    feeder = numbers(5, max_retries=1)
    config = Config(message_timeout_secs=30, on_error=on_error)
    finished = run_topology(topology(feeder), config, faults=[RaiseError("numbers", at_call=3)])
    assert finished.snapshot.components["numbers"].restarts == restarts
    assert finished.snapshot.components["numbers"].errors == 1
    assert set(feeder.acked) == {1, 2, 3, 4, 5}


# Kill


@pytest.mark.guarantee("ACK-12")
def test_a_bolt_task_dies_at_its_time() -> None:
    feeder = numbers(3)
    finished = run(feeder, KillTask("sink", at_secs=7.5), sink=Capture(settles=False))
    assert [strike.secs for strike in finished.strikes] == [pytest.approx(7.5, abs=0.001)]
    assert reasons(feeder) == [(1, "task_died"), (2, "task_died"), (3, "task_died")]
    assert feeder.verdicts[0].secs == pytest.approx(7.5, abs=0.01)


@pytest.mark.guarantee("ACK-13")
def test_a_spout_dies_at_its_time_and_its_trees_are_dropped() -> None:
    feeder, sink = numbers(3, max_retries=1), Capture(settles=False)

    async def script(run: Run) -> None:
        await sink.arrived(6)
        for tup in sink.tuples:
            sink.ack(tup)

    run_topology(topology(feeder, sink=sink), faults=[KillTask("numbers", at_secs=5)], during=script)
    assert feeder.lost == [1, 2, 3]
    assert feeder.acked == [1, 2, 3]


@pytest.mark.guarantee("ACK-13")
def test_an_acker_dies_and_its_open_trees_fail_at_once() -> None:
    feeder = numbers(3)
    run(feeder, KillTask(ACKER, at_secs=5), sink=Capture(settles=False))
    assert sorted(reasons(feeder), key=str) == [(1, "task_died"), (2, "task_died"), (3, "task_died")]
    assert feeder.verdicts[-1].secs == pytest.approx(5, abs=0.01)


@pytest.mark.parametrize("victim", [ACKER, "sink", "relay", "numbers"])
def test_a_task_dies_at_a_call_of_another_component(victim: str) -> None:
    feeder = numbers(5, max_retries=3)
    finished = run(feeder, KillTask(victim, at_call=3, of="relay"), relay=AsyncRelay)
    assert len(finished.strikes) == 1
    assert set(feeder.acked) == {1, 2, 3, 4, 5}


def test_a_task_dies_at_its_own_call() -> None:
    feeder = numbers(5)
    finished = run(feeder, KillTask("relay", at_call=3), relay=AsyncRelay)
    assert reasons(feeder) == [(3, "task_died")]
    assert finished.snapshot.components["relay"].restarts == 1


def test_a_call_in_a_thread_may_kill_a_task() -> None:
    class Threaded(BasicBolt):
        output_fields = "number"
        threads = 2

        def execute(self, tup: Tuple) -> tuple[int]:
            return (tup[0],)

    feeder = numbers(5, max_retries=1)
    finished = run(feeder, KillTask("sink", at_call=3, of="relay"), RaiseError("relay", at_call=5), relay=Threaded)
    assert {type(strike.fault) for strike in finished.strikes} == {KillTask, RaiseError}
    assert set(feeder.acked) == {1, 2, 3, 4, 5}


# Drop and delay


@pytest.mark.guarantee("ACK-8")
@relays
def test_a_dropped_tuple_is_never_seen_and_its_tree_times_out(relay: BoltFactory) -> None:
    feeder, sink = numbers(5), Capture()
    run(feeder, DropTuple("numbers", "relay", number=2), relay=relay, sink=sink)
    assert [values[0] for values in sink.values] == [1, 3, 4, 5]
    assert reasons(feeder) == [(2, "timeout")]
    assert "no task holds a tuple of this tree" in str(feeder.failed[0][1].error)
    assert 30 <= feeder.verdicts[-1].secs <= 37.6


@relays
def test_a_delayed_tuple_also_delays_the_tuples_behind_it(relay: BoltFactory) -> None:
    feeder, sink = numbers(5), Capture()
    run(feeder, DelayTuple("numbers", "relay", number=3, secs=12), relay=relay, sink=sink)
    assert [values[0] for values in sink.values] == [1, 2, 3, 4, 5]
    assert [arrival.secs > 12 for arrival in sink.arrivals] == [False, False, True, True, True]
    assert feeder.acked == [1, 2, 3, 4, 5]


def test_with_concurrency_others_overtake_a_delayed_tuple() -> None:
    feeder, sink = numbers(5), Capture()
    run(feeder, DelayTuple("numbers", "relay", number=3, secs=12), relay=AsyncRelay, sink=sink, concurrency=3)
    assert [values[0] for values in sink.values] == [1, 2, 4, 5, 3]


def test_tuples_are_counted_per_source() -> None:
    left, right, sink = numbers(3), numbers(3), Capture()
    builder = TopologyBuilder("two")
    builder.set_spout("left", left)
    builder.set_spout("right", right)
    builder.set_bolt("sink", sink).shuffle_grouping("left").shuffle_grouping("right")
    run_topology(builder.build(), faults=[DropTuple("right", "sink", number=2)])
    assert left.acked == [1, 2, 3]
    assert right.acked == [1, 3]


def test_a_delayed_tuple_of_a_task_that_dies_fails_with_it() -> None:
    feeder = numbers(1)
    run(feeder, DelayTuple("numbers", "relay", number=1, secs=12), KillTask("relay", at_secs=3))
    assert reasons(feeder) == [(1, "task_died")]
    assert feeder.verdicts[0].secs == pytest.approx(3, abs=0.01)


# All of it, replayed


def test_a_seed_replays_a_run_with_its_faults() -> None:
    def trace(seed: int) -> list[object]:
        feeder, sink = numbers(40, max_retries=5), Capture()
        builder = TopologyBuilder("replay")
        builder.set_spout("numbers", feeder, parallelism=2)
        builder.set_bolt("relay", AsyncRelay, parallelism=3, concurrency=2).shuffle_grouping("numbers")
        builder.set_bolt("sink", sink, parallelism=2).partial_key_grouping("relay", "number")
        faults: list[Fault] = [
            KillTask("relay", 1, at_call=9),
            KillTask(ACKER, 1, at_secs=0.04),
            KillTask("numbers", at_secs=0.05),
            RaiseError("relay", at_call=12),
            DropTuple("relay", "sink", number=20),
            DelayTuple("relay", "sink", number=25, secs=3),
        ]
        finished = run_topology(builder.build(), Config(acker_executors=2), faults=faults, seed=seed, shuffle=True)
        assert {strike.fault for strike in finished.strikes} == set(faults)
        arrivals = [(each.tup.values, each.tup.roots, each.task_id, each.secs) for each in sink.arrivals]
        return [arrivals, feeder.verdicts, feeder.lost, finished.strikes, finished.errors, finished.secs]

    assert trace(3) == trace(3)
    assert trace(3) != trace(4)


# Faults that cannot happen


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (KillTask("relai", at_secs=1), "no component 'relai'"),
        (KillTask("relay", 3, at_secs=1), "no such task"),
        (KillTask("relay"), "either at_secs or at_call"),
        (KillTask("relay", at_secs=1, at_call=1), "either at_secs or at_call"),
        (KillTask(ACKER, at_call=1), "no calls to count"),
        (RaiseError("wrong", at_call=1), "no component 'wrong'"),
        (DropTuple("numbers", "sink", number=1), "does not subscribe to 'numbers'"),
        (DelayTuple("relay", "numbers", number=1, secs=1), "does not subscribe"),
    ],
)
def test_an_impossible_fault_is_refused(fault: Fault, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        FaultInjector(topology(numbers(1)), [fault])


@pytest.mark.parametrize("fault", [KillTask(ACKER, 1, at_secs=1), KillTask(ACKER, -1, at_call=1, of="relay")])
def test_a_fault_of_an_acker_that_the_run_does_not_have_is_refused(fault: Fault) -> None:
    with pytest.raises(UsageError, match="the run has no such acker") as raised:
        run(numbers(1), fault)
    assert raised.value.hint == "Its acker_executors is 1."


def test_a_tuple_of_a_threaded_bolt_cannot_be_delayed() -> None:
    class Threaded(BasicBolt):
        output_fields = "number"
        threads = 1

        def execute(self, tup: Tuple) -> None:
            """Drop it."""

    with pytest.raises(UsageError, match="threads"):
        FaultInjector(topology(numbers(1), Threaded), [DropTuple("numbers", "relay", number=1)])


def test_an_injected_error_has_its_own_class() -> None:
    assert issubclass(InjectedError, Exception)
