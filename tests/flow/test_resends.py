"""Resends, and the failures that count as a try of a record (FC-3, FC-6)."""

import asyncio
import math
from typing import Any

import pytest

from engine import Config, FailTuple, FlowSettings
from engine.errors import FAILED, TIMEOUT, Failure, FailureReason
from engine.flow.controller import FlowController
from engine.runtime.run import Run
from engine.testing import ACKER
from tests.flow.flow_topologies import Numbers, Work, records, run_flow


@pytest.mark.guarantee("FC-3", "FC-6")
def test_a_pack_that_was_called_back_and_then_fails_elsewhere_is_tried_again() -> None:
    """The first tuple waits for ever at the task that hangs, and the controller must not wait for it."""

    class Hangs(Work):
        async def process(self, record: int) -> None:
            if self.context.task_index == 0:
                await asyncio.Event().wait()
            if asyncio.get_running_loop().time() > 4.9 and record not in failed:
                failed.add(record)
                raise FailTuple
            await super().process(record)

    done: list[tuple[int, int]] = []
    failed: set[int] = set()
    finished = run_flow(lambda: Numbers(2000), lambda: Hangs(done), tasks=2, config=Config(message_timeout_secs=5), until=60.0)
    assert failed
    assert set(records(done)) == set(range(1, 2001))
    assert finished.snapshot.flow[0].position == "2000"


def _sent(controller: FlowController, count: int, now: float) -> Any:
    """Send a pack of `count` records, and return its delivery."""
    for number in range(controller.sent_records + 1, controller.sent_records + 1 + count):
        controller.offer_record(f"p{number}", number, now)
    delivery = controller.next_delivery(now)
    assert delivery is not None
    assert len(delivery.pack.entries) == count
    return delivery


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("done_before", [0, 1, 3])
def test_a_split_pack_is_done_when_the_task_that_it_was_called_back_from_acks_it(done_before: int) -> None:
    controller = FlowController(FlowSettings(initial_window=1, max_window=1), [1, 2], stall_secs=10)
    for _ in range(2):
        first = _sent(controller, 1, 0.0)
        controller.note_tree_ack(first, 0.001)
    behind = controller.sent_records
    called_back = _sent(controller, 3, 1.0)
    assert controller.records_wanted(20.0) == 0, "the stall must be noticed"
    again = controller.next_delivery(20.0)
    assert again is not None
    assert again.pack is called_back.pack
    controller.note_tree_failure(again, Failure(FAILED, "work", again.window.task_id), 20.1)
    for now in range(30, 30 + done_before):
        single = controller.next_delivery(float(now))
        assert single is not None
        assert len(single.pack.entries) == 1
        controller.note_tree_ack(single, now + 0.001)
    assert controller.prefix.done == behind + done_before
    assert controller.note_tree_ack(called_back, 40.0) == (done_before < 3)
    assert (controller.prefix.done, controller.prefix.position) == (behind + 3, f"p{behind + 3}")
    assert controller.prefix.ranges_ahead == 0
    assert controller.next_delivery(50.0) is None, "the waiting resend is done already"
    assert not controller.has_work


@pytest.mark.guarantee("FC-6")
def test_records_in_a_pack_with_a_deadly_one_are_not_given_up() -> None:
    class Poisoned(Work):
        on_error = "restart"

        async def process(self, record: int) -> None:
            await asyncio.sleep(0.003)
            if record % 10 == 0:
                raise ValueError("bad record")
            await super().process(record)

    made: list[Numbers] = []
    done: list[tuple[int, int]] = []

    def producer() -> Numbers:
        made.append(Numbers(300))
        return made[-1]

    config = Config(max_task_restarts=100_000)
    finished = run_flow(producer, lambda: Poisoned(done), settings=FlowSettings(max_retries=1), config=config, concurrency=8)
    assert finished.state == "complete"
    given_up = {record for _, record, _ in made[0].given_up}
    assert given_up == set(range(10, 301, 10))
    assert set(records(done)) == set(range(1, 301)) - given_up


@pytest.mark.guarantee("FC-3")
def test_the_death_of_an_acker_does_not_make_a_task_busy() -> None:
    states: set[str] = set()

    async def kills(run: Run) -> None:
        await asyncio.sleep(0.2)
        run.kill_task(run.task_ids(ACKER)[0])
        while run.state == "running":
            states.update(task.state for task in run.snapshot().flow[0].tasks)
            await asyncio.sleep(0.001)

    done: list[tuple[int, int]] = []
    finished = run_flow(lambda: Numbers(1000), lambda: Work(done), during=kills)
    assert set(records(done)) == set(range(1, 1001))
    assert len(done) > 1000, "open records must be repeated"
    assert "BUSY" not in states
    assert finished.state == "complete"


def _failed(controller: FlowController, delivery: Any, reason: FailureReason, now: float, task_id: int | None = None) -> None:
    """Fail a delivery at its own task, or at `task_id`."""
    controller.note_tree_failure(delivery, Failure(reason, "work", delivery.window.task_id if task_id is None else task_id), now)


@pytest.mark.guarantee("FC-3")
def test_a_failed_record_is_resent_to_another_task() -> None:
    """A resend goes elsewhere even if its task is well, and the failure came from downstream."""
    controller = FlowController(FlowSettings(initial_window=1, max_window=1), [1, 2])
    tasks = []
    for now in range(20):
        delivery = _sent(controller, 1, now)
        controller.note_task_ack(delivery, now + 0.001 * delivery.window.task_id)  # the first task is faster, and would be chosen
        _failed(controller, delivery, FAILED, now + 0.1, task_id=99)
        again = controller.next_delivery(now + 0.2)
        assert again is not None
        tasks.append((delivery.window.task_id, again.window.task_id))
        controller.note_tree_ack(again, now + 0.2 + 0.001 * again.window.task_id)
    assert set(tasks) <= {(1, 2), (2, 1)}


@pytest.mark.guarantee("FC-3")
def test_a_record_that_always_fails_is_tried_after_pauses_that_double_up_to_5_s() -> None:
    controller = FlowController(FlowSettings(), [1])
    delivery, now, pauses = _sent(controller, 1, 0.0), 0.0, []
    for _ in range(12):
        _failed(controller, delivery, FAILED, now, task_id=99)
        due = controller.resend_queue[0][0]
        assert controller.next_delivery(due - 1e-6) is None or due == now
        pauses.append(round(due - now, 6))
        delivery, now = controller.next_delivery(due), due
        assert delivery is not None
    assert pauses == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5, 5, 5]


@pytest.mark.guarantee("FC-6")
def test_a_pack_that_always_times_out_is_split_before_its_records_are_given_up() -> None:
    controller = FlowController(FlowSettings(initial_window=1, max_window=1, max_retries=1), [1])
    controller.note_tree_ack(_sent(controller, 1, 0.0), 0.001)
    delivery: Any = _sent(controller, 3, 1.0)
    sizes, given_up = [], []
    for now in range(10, 200, 10):
        sizes.append(len(delivery.pack.entries))
        given_up += [entry[1] for entry in controller.note_tree_failure(delivery, Failure(TIMEOUT, "work", 1), now)]
        delivery = controller.next_delivery(now + 9.0)
        if delivery is None:
            break
    assert sizes == [3, 3, 1, 1, 1], "a pack is tried twice, then each record alone"
    assert sorted(given_up) == [2, 3, 4]
    assert controller.prefix.done == 4


@pytest.mark.guarantee("FC-3")
def test_a_stall_is_noticed_as_soon_as_possible() -> None:
    """A check shortly before the limit makes the next check due after it. The alarm is set for that check."""
    controller = FlowController(FlowSettings(), [1], stall_secs=8)
    _sent(controller, 1, 0.0)
    controller.records_wanted(7.9)
    controller.source_ended = True
    at = controller.next_wake(8.1)
    assert at == pytest.approx(8.9)
    controller.records_wanted(8.9)
    assert controller.has_work, "the pack must be called back even without other work"
    assert FlowController(FlowSettings(), [1]).next_wake(0.0) is None
    without = FlowController(FlowSettings(), [1])
    _sent(without, 1, 0.0)
    assert without.next_wake(1.0) is None, "without timeouts no task can stall"


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_record_that_hangs_every_task_is_given_up_after_its_retries(concurrency: int) -> None:
    """The timeout of its tuple counts as a try, so the check for stalls must not come before it."""

    class Hangs(Work):
        call_timeout_secs = math.inf

        async def process(self, record: int) -> None:
            if record == 5:
                hung.append(self.context.task_index)
                await asyncio.Event().wait()
            await super().process(record)

    made: list[Numbers] = []
    hung: list[int] = []
    done: list[tuple[int, int]] = []

    def producer() -> Numbers:
        made.append(Numbers(300))
        return made[-1]

    config, settings = Config(message_timeout_secs=2), FlowSettings(max_retries=1, pack_records=1)
    finished = run_flow(producer, lambda: Hangs(done), config=config, settings=settings, concurrency=concurrency, until=30.0)
    assert [(record, failure.reason) for _, record, failure in made[0].given_up] == [(5, "timeout")]
    assert len(hung) == 2, "the record must hang only two tasks"
    assert set(records(done)) == set(range(1, 301)) - {5}
    assert finished.snapshot.flow[0].position == "300"


@pytest.mark.guarantee("FC-3")
def test_without_timeouts_a_slow_task_is_waited_for() -> None:
    done: list[tuple[int, int]] = []
    config = Config(enable_message_timeouts=False, message_timeout_secs=5)
    finished = run_flow(lambda: Numbers(100), lambda: Work(done, lambda task, record: 60 if record == 1 else 0.001), config=config)
    assert records(done) == list(range(1, 101)), "each record must be done once"
    assert finished.secs >= 60
    assert sum(task.resends for task in finished.snapshot.flow[0].tasks) == 0
