"""The controller alone: the times at which it wakes without an ack or a failure (FC-3, FC-4)."""

import pytest

from engine.errors import FAILED, ROLLBACK, TASK_DIED, Failure, FailureReason
from engine.flow.controller import FlowController
from engine.flow.settings import FlowSettings

TASK = 1


def controller(*, stall_secs: float = float("inf")) -> FlowController:
    """Return a controller of one idle task that takes a millisecond per record."""
    flow = FlowController(FlowSettings(), [TASK], stall_secs=stall_secs)
    flow.offer_record("p1", "first", 0.0)
    first = flow.next_delivery(0.0)
    assert first is not None
    flow.note_tree_ack(first, 0.001)
    return flow


def test_without_records_the_controller_does_not_wake() -> None:
    assert controller().next_wake(1.0) is None


def test_an_incomplete_pack_is_sent_when_its_oldest_record_is_old_enough() -> None:
    flow = controller()
    flow.offer_record("p2", "at once, to an idle task", 1.0)
    assert flow.next_delivery(1.0) is not None
    flow.offer_record("p3", "waits for more", 1.002)
    assert flow.next_delivery(1.002) is None
    assert flow.next_wake(1.002) == pytest.approx(1.012)
    assert flow.next_delivery(1.0119) is None
    assert flow.next_delivery(1.0121) is not None


@pytest.mark.guarantee("FC-4")
def test_the_controller_wakes_when_the_pause_of_a_busy_task_ends() -> None:
    flow = controller()
    flow.offer_record("p2", "it dies of something", 1.0)
    for _ in range(2):
        delivery = flow.next_delivery(1.0)
        assert delivery is not None
        flow.note_tree_failure(delivery, Failure(TASK_DIED, "work", TASK), 1.0)
    assert flow.next_delivery(1.0) is None, "a record is due, but the task pauses"
    assert flow.next_wake(1.0) == pytest.approx(1.01)
    assert flow.next_delivery(1.011) is not None


@pytest.mark.guarantee("FC-4")
def test_the_source_is_read_again_when_the_pause_of_all_tasks_ends() -> None:
    flow = FlowController(FlowSettings(max_retries=0), [TASK])
    for number in range(3):
        flow.offer_record(number, number, 1.0)
        delivery = flow.next_delivery(1.0 + number)
        assert delivery is not None
        assert flow.note_tree_failure(delivery, Failure(FAILED, "work", TASK), 1.0 + number), "the record must be given up"
    assert not flow.has_work
    assert flow.records_wanted(3.0) == 0
    assert flow.next_wake(3.0) == pytest.approx(3.02)
    assert flow.records_wanted(3.03) == 1
    flow.source_ended = True
    assert flow.next_wake(3.0) is None, "there is nothing left to read"


@pytest.mark.guarantee("FC-3")
def test_the_controller_wakes_when_the_pause_of_a_twice_failed_record_ends() -> None:
    flow = controller()
    flow.offer_record("p2", "poison", 1.0)
    now = 1.0
    for _ in range(2):
        now += 0.5
        delivery = flow.next_delivery(now)
        assert delivery is not None
        flow.note_tree_failure(delivery, Failure(FAILED, "work", TASK), now)
    assert flow.next_delivery(now + 0.09) is None
    assert flow.next_wake(now + 0.09) == pytest.approx(now + 0.1)
    assert flow.next_delivery(now + 0.11) is not None


@pytest.mark.guarantee("FC-3")
def test_the_pause_before_a_retry_doubles_up_to_five_seconds() -> None:
    flow, now, pauses = controller(), 1.0, []
    flow.offer_record("p2", "poison", now)
    for _ in range(9):
        delivery = flow.next_delivery(now)
        assert delivery is not None
        flow.note_tree_failure(delivery, Failure(FAILED, "work", TASK), now)
        [(due, *_)] = flow.resend_queue
        pauses.append(round(due - now, 6))
        now = due + 60  # the task does not pause that long
    assert pauses == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


@pytest.mark.guarantee("FC-3")
def test_the_controller_wakes_when_a_task_counts_as_stalled() -> None:
    flow = controller(stall_secs=8.0)
    flow.records_wanted(1.0)
    flow.offer_record("p2", "hangs", 1.0)
    assert flow.next_delivery(1.0) is not None
    assert flow.next_wake(1.0) == pytest.approx(9.0)
    flow.records_wanted(9.0)
    assert flow.has_work, "the pack must be called back"


@pytest.mark.guarantee("FC-3")
@pytest.mark.parametrize("reason", [TASK_DIED, ROLLBACK])
def test_a_failure_that_no_record_can_cause_is_no_try(reason: FailureReason) -> None:
    flow = FlowController(FlowSettings(max_retries=0), [TASK])
    flow.offer_record("p1", "first", 0.0)
    delivery = flow.next_delivery(0.0)
    assert delivery is not None
    assert flow.note_tree_failure(delivery, Failure(reason, "count", 9), 1.0) == []
    assert flow.has_work
