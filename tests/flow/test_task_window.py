"""The window of one task, case by case (FC-2 to FC-5). Random schedules are in test_model."""

from typing import Any

import pytest

from engine.kernel import PackDelivery, TaskChooser, TaskWindow


def task_window(task_id: int = 1, **how: Any) -> TaskWindow:
    given: dict[str, Any] = {"initial_size": 2, "max_size": 64, "threshold_secs": 0.1, "pack_secs": 0.005, **how}
    return TaskWindow(task_id, **given)


def ack(task: TaskWindow, delivery: PackDelivery, secs: float) -> None:
    assert task.note_ack(delivery, delivery.sent_at + secs)


@pytest.mark.guarantee("FC-2", "FC-3")
def test_a_window_of_acks_within_the_threshold_adds_one_slot() -> None:
    task = task_window()
    sizes = []
    for turn in range(9):
        first, second = task.open_delivery("pack", 1, turn), task.open_delivery("pack", 1, turn)
        ack(task, first, 0.01)
        ack(task, second, 0.02)
        sizes.append(task.size)
    assert sizes[0] == 2, "only the second filled the window"
    assert sizes[1] == 3
    assert sizes[-1] == 3, "two packs at a time do not fill three slots, so the window must not grow"
    assert task.state == "NORMAL"


@pytest.mark.guarantee("FC-3")
def test_above_the_threshold_the_task_is_slow_and_loses_slots_down_to_one() -> None:
    task = task_window(initial_size=3)
    for size in (2, 1, 1):
        ack(task, task.open_delivery("pack", 1, 0), 0.2)
        assert (task.state, task.size) == ("SLOW", size)
    ack(task, task.open_delivery("pack", 1, 10), 0.05)
    assert task.state == "NORMAL"
    assert task.size == 2


@pytest.mark.guarantee("FC-3")
def test_a_failure_makes_the_task_busy_and_further_ones_pause_it_longer_each_time() -> None:
    task = task_window(initial_size=3)
    pauses = []
    for turn in range(10):
        now = 100.0 * turn
        assert task.note_failure(task.open_delivery("pack", 1, now), now)
        assert task.state == "BUSY"
        assert task.has_room(now) is (turn == 0), "a single failure may be due to the record"
        pauses.append(round(task.paused_until - now, 6))
    assert pauses[:5] == [0, 0.01, 0.02, 0.04, 0.08]
    assert pauses[-1] == 1.0
    assert task.size == 1
    ack(task, task.open_delivery("pack", 1, 2000), 0.05)
    assert task.state == "NORMAL"
    task.note_failure(task.open_delivery("pack", 1, 3000), 3000)
    assert task.has_room(3000), "an ack ends the streak"


@pytest.mark.guarantee("FC-3")
def test_the_window_stays_within_its_bounds() -> None:
    task = task_window(initial_size=1, max_size=3)
    for turn in range(100):
        deliveries = [task.open_delivery("pack", 1, turn) for _ in range(task.size)]
        for delivery in deliveries:
            ack(task, delivery, 0.001)
    assert task.size == 3


@pytest.mark.guarantee("FC-3")
def test_the_default_threshold_is_the_time_of_two_packs() -> None:
    task = task_window(threshold_secs=0)
    assert task.threshold_secs == pytest.approx(0.010), "twice the target time of a pack, if that is more"
    ack(task, task.open_delivery("pack", 1, 0), 1.0)
    assert task.threshold_secs == pytest.approx(2.0)
    assert task_window(threshold_secs=0, concurrency=8).threshold_secs == pytest.approx(0.045), (
        "the time of one pack more than the task processes at once"
    )


@pytest.mark.guarantee("FC-3", "FC-5")
def test_the_service_time_excludes_the_queue() -> None:
    task = task_window()
    first, second = task.open_delivery("a", 10, 0.0), task.open_delivery("b", 10, 0.0)
    assert task.expected_wait(0.0) == 0, "the service time is unknown yet"
    task.note_ack(first, 0.1)
    task.note_ack(second, 0.2)
    assert task.service_secs == pytest.approx(0.01), "each record took 10 ms, though the second pack came after 200"
    third = task.open_delivery("c", 5, 1.0)
    assert task.expected_wait(1.0) == pytest.approx(0.05)
    assert task.expected_wait(1.5) == pytest.approx(0.05 + 0.45), "an overdue pack is expected to take longer still"
    assert task.note_ack(third, 1.6)
    assert not task.note_ack(third, 1.7), "a second ack must be ignored"


@pytest.mark.guarantee("FC-5")
def test_packs_that_a_concurrent_task_processes_are_not_its_queue() -> None:
    task = task_window(concurrency=2)
    ack(task, task.open_delivery("a", 1, 0), 0.1)
    task.open_delivery("b", 1, 1)
    assert task.expected_wait(1) == 0
    task.open_delivery("c", 1, 1)
    assert task.expected_wait(1) == pytest.approx(0.2)


@pytest.mark.guarantee("FC-5")
def test_the_shortest_wait_is_chosen_then_the_faster_task_then_the_next_in_turn() -> None:
    slow, fast, other = (task_window(task_id) for task_id in (1, 2, 3))
    chooser = TaskChooser([slow, fast, other])
    ack(slow, slow.open_delivery("a", 1, 0), 0.09)
    ack(fast, fast.open_delivery("a", 1, 0), 0.01)
    assert chooser.choose(1) is other, "an untried task comes first"
    ack(other, other.open_delivery("a", 1, 0), 0.01)
    assert chooser.choose(1) is fast
    fast.open_delivery("b", 1, 1)
    chooser.note_sent(fast)
    assert chooser.choose(1) is other, "equal tasks take turns"
    other.open_delivery("b", 1, 1)
    assert chooser.choose(1) is slow, "no queue is better than a short one"
    slow.open_delivery("b", 1, 1)
    assert chooser.choose(1) in (fast, other)
    assert chooser.choose(1, fast) is other, "the excluded task must not be chosen"


@pytest.mark.guarantee("FC-4", "FC-5")
def test_a_busy_task_gets_a_pack_only_if_no_other_has_room() -> None:
    busy, full = task_window(1), task_window(2)
    chooser = TaskChooser([busy, full])
    for _ in range(2):
        busy.note_failure(busy.open_delivery("a", 1, 0), 0)
    for _ in range(2):
        assert chooser.choose(1) is full
        full.open_delivery("b", 1, 1)
    assert chooser.choose(1) is busy
    assert chooser.choose(0.005) is None, "a busy task may be chosen only after its pause"
    assert chooser.next_probe(0.0) == pytest.approx(0.01)


@pytest.mark.guarantee("FC-5")
def test_round_robin_chooses_among_tasks_with_room() -> None:
    windows = [task_window(task_id) for task_id in (1, 2, 3)]
    chooser = TaskChooser(windows, by_turns=True)
    chosen = []
    while (task := chooser.choose(0)) is not None:
        chosen.append(task.task_id)
        task.open_delivery("a", 1, 0)
        chooser.note_sent(task)
    assert chosen == [1, 2, 3, 1, 2, 3]


@pytest.mark.guarantee("FC-3")
def test_a_pack_that_was_called_back_no_longer_counts_at_its_task() -> None:
    task = task_window(initial_size=3)
    first, second = task.open_delivery("a", 1, 0), task.open_delivery("b", 1, 0)
    assert task.call_back(first, 5)
    assert task.release(second, 5)
    assert (task.in_flight, task.size, task.resends) == (0, 2, 1), "a failure of another task must not cost a slot"
    assert not task.note_failure(first, 6)
    assert not task.call_back(first, 6)
    assert not task.release(second, 6)


def test_a_pack_has_as_many_records_as_the_task_processes_in_the_time() -> None:
    task = task_window()
    assert task.records_in(0.005) == 1, "a task of unknown speed gets one record"
    ack(task, task.open_delivery("a", 100, 0), 0.01)
    assert task.records_in(0.005) == 50
    task.note_failure(task.open_delivery("a", 1, 1), 1)
    assert task.records_in(0.005) == 1, "a probe has one record"


def test_a_clock_that_does_not_move_causes_no_division_by_zero() -> None:
    task = task_window()
    ack(task, task.open_delivery("a", 1, 0), 0.0)
    assert task.records_in(0.005) > 1000
    assert task.expected_wait(0) == 0
