"""Bad records among good ones: the good ones flow on, and no task is penalized for bad records (FC-3, FC-4)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from engine import BasicBolt, Config, FailTuple, FlowControlBolt, FlowSettings, Tuple
from engine.errors import ERROR, FAILED, TIMEOUT, Failure, FailureReason
from engine.flow.controller import FlowController
from engine.flow.records import Records
from engine.kernel import PackDelivery
from tests.flow.flow_topologies import Numbers, Work, records, run_flow
from tests.flow.test_task_window import ack, task_window


def is_bad(record: int, percent: int) -> bool:
    """Tell whether a record is one of the bad `percent`, which are spread evenly."""
    return record * 2654435761 % 2**32 < percent * 2**32 // 100


class Some(Work):
    """Raises for the bad records."""

    percent = 10

    async def process(self, record: int) -> None:
        if is_bad(record, self.percent):
            await asyncio.sleep(self.secs(self.context.task_index, record))
            raise ValueError(f"bad record {record}")
        await super().process(record)


# In a run


@pytest.mark.guarantee("FC-3", "FC-4")
@pytest.mark.parametrize(("percent", "tasks", "share"), [(1, 12, 0.85), (10, 12, 0.75), (30, 12, 0.55), (10, 1, 0.6), (30, 1, 0.35)])
def test_many_bad_records_do_not_delay_the_good_ones(percent: int, tasks: int, share: float) -> None:
    class Of(Some):
        pass

    Of.percent = percent
    made: list[Numbers] = []
    done: list[tuple[int, int]] = []
    count = 600 * tasks

    def producer() -> Numbers:
        made.append(Numbers(count))
        return made[-1]

    finished = run_flow(producer, lambda: Of(done, lambda task, record: 0.002), tasks=tasks, settings=FlowSettings(max_retries=1))
    bad = {record for record in range(1, count + 1) if is_bad(record, percent)}
    assert {record for _, record, _ in made[0].given_up} == bad
    assert set(records(done)) == set(range(1, count + 1)) - bad
    ideal_secs = 0.002 * (count + len(bad)) / tasks
    print(f"{ideal_secs / finished.secs:.2f} of the ideal")
    assert ideal_secs / finished.secs > share, "in virtual time"


@pytest.mark.guarantee("FC-4")
@pytest.mark.parametrize("tasks", [1, pytest.param(3, marks=pytest.mark.deep)])
def test_bad_records_with_unlimited_tries_do_not_block_the_others(tasks: int) -> None:
    done: list[tuple[int, int]] = []

    class Many(Some):
        percent = 40

    run_flow(lambda: Numbers(2000), lambda: Many(done), tasks=tasks, until=60.0)
    assert set(records(done)) == {record for record in range(1, 2001) if not is_bad(record, 40)}


def test_a_bad_record_does_not_end_its_task() -> None:
    prepared: list[int] = []

    class Prepared(Some):
        def prepare(self) -> None:
            prepared.append(self.context.task_id)

    finished = run_flow(lambda: Numbers(300), lambda: Prepared([]), settings=FlowSettings(max_retries=0))
    assert finished.state == "complete"
    assert len(prepared) == 3
    assert finished.errors[0].text == "ValueError: bad record 5"


class InTwo(FlowControlBolt):
    """Emits one value; each test adds a kind of `process`."""

    output_fields = "number"


def _plain(self: Any, record: int) -> None:
    _fails(self, record)


def _generator(self: Any, record: int) -> Any:
    yield (record,)
    _fails(self, record)


async def _coroutine(self: Any, record: int) -> None:
    await asyncio.sleep(0.001)
    _fails(self, record)


async def _async_generator(self: Any, record: int) -> Any:
    yield (record,)
    await asyncio.sleep(0.001)
    _fails(self, record)


def _fails(self: Any, record: int) -> None:
    self.seen.append(record)
    if record == 37:
        raise FailTuple


@pytest.mark.guarantee("FC-1", "FC-3")
@pytest.mark.parametrize("process", [_plain, _generator, _coroutine, _async_generator], ids=lambda each: each.__name__)
def test_neighbours_of_a_bad_record_are_repeated_at_most_once(process: Any) -> None:
    seen: list[int] = []
    kind: Any = type("Fails", (InTwo,), {"process": process, "seen": seen})

    class Takes(BasicBolt):
        def execute(self, tup: Tuple) -> None:
            return None

    finished = run_flow(lambda: Numbers(200), kind, tasks=2, settings=FlowSettings(max_retries=3))
    assert finished.state == "complete"
    times = {record: seen.count(record) for record in set(seen)}
    assert sorted(times) == list(range(1, 201))
    assert times.pop(37) == 4
    assert max(times.values()) <= 2, "a neighbour runs once with the bad record and once without"
    sizes = finished.snapshot.flow[0]
    assert sum(task.settled for task in sizes.tasks) < 100, "they must be sent in packs again"


def _cancelled(self: Any, record: int) -> tuple[int, ...]:
    if record == 37:
        raise asyncio.CancelledError  # another asyncio task was cancelled, and process() awaited it
    return (record,)


def _misfit(self: Any, record: int) -> tuple[int, ...]:
    return (record,) if record != 37 else (record, record)


def _yields_misfit(self: Any, record: int) -> Iterator[tuple[int, ...]]:
    yield _misfit(self, record)


@pytest.mark.guarantee("FC-3")
@pytest.mark.parametrize("process", [_cancelled, _misfit, _yields_misfit], ids=lambda each: each.__name__)
def test_a_cancellation_or_a_bad_emit_is_assigned_to_its_record(process: Any) -> None:
    kind: Any = type("Fails", (InTwo,), {"process": process})
    settings = FlowSettings(max_retries=1, pack_records=100)
    finished = run_flow(lambda: Numbers(2000), kind, tasks=2, settings=settings)
    assert finished.state == "complete"
    assert sum(task.settled for task in finished.snapshot.flow[0].tasks) < 50, "no records may be sent one by one"


@pytest.mark.guarantee("FC-3")
def test_if_the_failed_record_of_a_pack_is_unknown_its_records_are_sent_one_by_one() -> None:
    class Own(BasicBolt):
        packs: list[tuple[int, ...]] = []

        def execute(self, tup: Tuple) -> None:
            self.packs.append(tuple(tup["records"]))
            if 37 in tup["records"]:
                raise FailTuple

    run_flow(lambda: Numbers(200), Own, tasks=1, settings=FlowSettings(max_retries=1), config=Config(on_error="fail"))
    of_it, *_ = [pack for pack in Own.packs if 37 in pack]
    assert len(of_it) > 1
    assert {(record,) for record in of_it} <= set(Own.packs)


# The controller


def _flow(tasks: int, **settings: Any) -> FlowController:
    """Return a controller of idle tasks that take 0.1 ms per record."""
    flow = FlowController(FlowSettings(**settings), list(range(1, tasks + 1)))
    for task in range(tasks):
        flow.offer_record(f"warm {task}", task, 0.0)
    deliveries = [flow.next_delivery(0.0) for _ in range(tasks)]
    for delivery in deliveries:
        assert delivery is not None
        flow.note_tree_ack(delivery, 0.0001)
    return flow


def _sent(flow: FlowController, count: int, now: float) -> PackDelivery:
    for number in range(count):
        flow.offer_record(f"p{number}", number, now)
    delivery = flow.next_delivery(now)
    assert delivery is not None
    assert len(delivery.pack.entries) == count
    return delivery


def _fails_at(flow: FlowController, delivery: PackDelivery, place: int | None, now: float, reason: FailureReason = FAILED) -> list[Any]:
    """Fail a delivery at its record `place`; None: the bolt does not say which one failed."""
    if place is not None:
        delivery.payload = Records(range(len(delivery.pack.entries)))
        delivery.payload.failed_index = place
    return flow.note_tree_failure(delivery, Failure(reason, "work", delivery.window.task_id), now)


@pytest.mark.guarantee("FC-3")
@pytest.mark.parametrize(
    ("place", "sizes"), [(0, [1, 9]), (4, [4, 1, 5]), (9, [9, 1]), (None, [1] * 10)], ids=["first", "middle", "last", "not said"]
)
def test_a_pack_is_split_around_the_record_that_failed(place: int | None, sizes: list[int]) -> None:
    flow = _flow(1, initial_window=20)
    done = flow.prefix.done
    delivery = _sent(flow, 10, 1.0)
    _fails_at(flow, delivery, place, 1.01)
    again = []
    for now in (1.01 + index * 0.001 for index in range(len(sizes))):
        each = flow.next_delivery(now)
        assert each is not None, "all packs must be sent together"
        again.append(len(each.pack.entries))
        assert each.pack.tries == (1 if place is None or len(each.pack.entries) == 1 else 0)
        flow.note_tree_ack(each, now + 0.0001)
    assert sorted(again) == sorted(sizes)
    assert flow.prefix.done == done + 10
    assert not flow.has_work


@pytest.mark.guarantee("FC-6")
def test_a_record_without_retries_is_given_up_and_the_rest_of_its_pack_is_sent_again() -> None:
    flow = _flow(1, max_retries=0)
    delivery = _sent(flow, 5, 1.0)
    assert [entry[1] for entry in _fails_at(flow, delivery, 2, 1.01)] == [2]
    assert flow.prefix.done == 1, "earlier records must be done first"
    for now in (2.0, 3.0):
        each = flow.next_delivery(now)
        assert each is not None
        flow.note_tree_ack(each, now + 0.0001)
    assert flow.prefix.done == 6


@pytest.mark.guarantee("FC-3")
@pytest.mark.parametrize("reason", [FAILED, ERROR])
def test_a_record_that_fails_at_a_second_task_revokes_the_failure_of_the_first(reason: FailureReason) -> None:
    flow = _flow(2, initial_window=3)
    delivery = _sent(flow, 1, 1.0)
    first = delivery.window
    _fails_at(flow, delivery, 0, 1.001, reason)
    assert (first.state, first.size) == ("BUSY", 2)
    again = flow.next_delivery(1.001)
    assert again is not None
    second = again.window
    assert second is not first
    _fails_at(flow, again, 0, 1.002, reason)
    assert (first.state, first.size) == ("NORMAL", 3), "the record is bad, not the task"
    assert (second.state, second.size) == ("NORMAL", 3)
    third = flow.next_delivery(2.0)
    assert third is not None
    _fails_at(flow, third, 0, 2.001, reason)
    assert [each.size for each in flow.chooser.windows] == [3, 3], "a failure is revoked only once"


@pytest.mark.guarantee("FC-4")
def test_a_failed_record_goes_to_no_busy_task_while_its_own_task_is_not_busy() -> None:
    flow = _flow(2, initial_window=3)
    _fails_at(flow, _sent(flow, 1, 1.0), 0, 1.001)
    again = flow.next_delivery(1.001)
    assert again is not None
    first, second = again.window, next(each for each in flow.chooser.windows if each is not again.window)
    flow.note_tree_failure(again, Failure(FAILED, "sink", 9), 1.002)  # downstream
    assert (first.state, second.state) == ("NORMAL", "BUSY")
    third = flow.next_delivery(2.0)
    assert third is not None
    assert third.window is first


@pytest.mark.guarantee("FC-3")
def test_a_second_failure_at_a_busy_task_revokes_nothing() -> None:
    flow = _flow(2, initial_window=3)
    deliveries = [_sent(flow, 1, 1.0), _sent(flow, 1, 1.0)]
    assert {each.window.task_id for each in deliveries} == {1, 2}
    for each in deliveries:
        _fails_at(flow, each, 0, 1.001)
    again = [flow.next_delivery(1.001), flow.next_delivery(1.001)]
    for resent in again:
        assert resent is not None
        _fails_at(flow, resent, 0, 1.002)
    assert [each.state for each in flow.chooser.windows] == ["BUSY", "BUSY"], "both tasks may fail for the same reason"


@pytest.mark.guarantee("FC-3")
def test_a_second_timeout_of_a_record_is_no_second_penalty() -> None:
    flow = _flow(2, initial_window=3)
    delivery = _sent(flow, 1, 1.0)
    first = delivery.window
    flow.note_tree_failure(delivery, Failure(TIMEOUT, "work", first.task_id), 31.0)
    assert first.state == "BUSY"
    again = flow.next_delivery(31.0)
    assert again is not None
    _fails_at(flow, again, 0, 31.1)
    assert again.window.state == "NORMAL"
    assert first.state == "NORMAL", "the record timed out before, so the task is not to blame"


@pytest.mark.guarantee("FC-4")
def test_a_busy_task_is_probed_alternately_with_failed_and_new_records() -> None:
    flow = _flow(1)
    now, bad = 1.0, []
    for _ in range(3):  # three that fail, each after a pause
        now += 2
        delivery = flow.next_delivery(now) if flow.has_work else _sent(flow, 1, now)
        assert delivery is not None
        bad.append(delivery.pack)
        _fails_at(flow, delivery, 0, now)
        now += 2
    assert flow.chooser.windows[0].state == "BUSY"
    was_new = []
    for turn in range(8):
        now += 10
        for _ in range(flow.records_wanted(now)):
            flow.offer_record(f"new {turn}", turn, now)
        delivery = flow.next_delivery(now)
        assert delivery is not None
        was_new.append(delivery.pack.tries == 0)
        _fails_at(flow, delivery, 0, now)
    assert was_new == [True, False] * 4 or was_new == [False, True] * 4


# The window


@pytest.mark.guarantee("FC-3")
def test_only_a_failure_since_the_last_ack_is_revoked() -> None:
    task = task_window(initial_size=4)
    task.note_failure(task.open_delivery("a", 1, 0), 0)
    streak = task.streak
    task.note_failure(task.open_delivery("b", 1, 1), 1)
    task.revoke_failure(streak, 1)
    assert (task.state, task.size) == ("BUSY", 3), "another failure still counts against it"
    ack(task, task.open_delivery("c", 1, 2), 0.01)
    task.note_failure(task.open_delivery("d", 1, 3), 3)
    task.revoke_failure(streak, 1)
    assert (task.state, task.size) == ("BUSY", 3), "the failure was before the ack, but the slot is restored"
    task.revoke_failure(task.streak, 1)
    assert (task.state, task.size) == ("NORMAL", 4)
    for _ in range(100):
        task.revoke_failure(task.streak, 1)
    assert task.size == task.max_size == 64


@pytest.mark.guarantee("FC-3")
def test_a_stall_is_not_revoked_by_a_bad_record() -> None:
    task = task_window(initial_size=4)
    task.note_failure(task.open_delivery("a", 1, 0), 0)
    streak = task.streak
    task.note_stall(1)
    task.revoke_failure(streak, 1)
    assert task.state == "BUSY"


@pytest.mark.guarantee("FC-3", "FC-4")
def test_a_repeated_failure_of_a_record_does_not_extend_the_pause() -> None:
    task = task_window(initial_size=4)
    task.note_repeated_failure(task.open_delivery("a", 1, 0), 0)
    assert (task.state, task.size, task.in_flight) == ("NORMAL", 4, 0)
    for now in (1, 2, 3):
        task.note_failure(task.open_delivery("a", 1, now), now)
    assert task.paused_until == pytest.approx(3.02)
    for now in (4, 5, 6):
        task.note_repeated_failure(task.open_delivery("a", 1, now), now)
    assert task.paused_until == pytest.approx(6.02)
    assert task.resends == 7
    delivery = task.open_delivery("a", 1, 7)
    task.note_stall(7)
    task.note_repeated_failure(delivery, 7.1)
    assert task.paused_until == 8, "the pause must not become shorter either"
    delivery = task.open_delivery("b", 1, 10)
    ack(task, delivery, 0.001)
    assert not task.note_repeated_failure(delivery, 11)
