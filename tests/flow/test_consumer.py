"""One task's window, case by case (FC-2 to FC-5); the model's random schedules are in test_model."""

from typing import Any

import pytest

from engine.kernel import AdaptiveFlowConsumer, FlowTasks, Sending


def consumer(task_id: int = 1, **how: Any) -> AdaptiveFlowConsumer:
    given: dict[str, Any] = {"initial_window": 2, "max_window": 64, "threshold_secs": 0.1, "pack_secs": 0.005, **how}
    return AdaptiveFlowConsumer(task_id, **given)


def ack(task: AdaptiveFlowConsumer, sending: Sending, secs: float) -> None:
    assert task.settled(sending, sending.sent_at + secs)


@pytest.mark.guarantee("FC-2", "FC-3")
def test_a_window_of_acks_within_the_threshold_adds_one_place() -> None:
    task = consumer()
    sizes = []
    for turn in range(9):
        first, second = task.send("pack", 1, turn), task.send("pack", 1, turn)
        ack(task, first, 0.01)
        ack(task, second, 0.02)
        sizes.append(task.window)
    assert sizes[0] == 2, "only the second filled the window"
    assert sizes[1] == 3
    assert sizes[-1] == 3, "two at a time do not fill three places: a window that nobody uses says nothing"
    assert task.state == "NORMAL"


@pytest.mark.guarantee("FC-3")
def test_over_the_threshold_it_is_slow_and_loses_a_place_down_to_one() -> None:
    task = consumer(initial_window=3)
    for size in (2, 1, 1):
        ack(task, task.send("pack", 1, 0), 0.2)
        assert (task.state, task.window) == ("SLOW", size)
    ack(task, task.send("pack", 1, 10), 0.05)
    assert task.state == "NORMAL"
    assert task.window == 2


@pytest.mark.guarantee("FC-3")
def test_a_fail_makes_it_busy_at_once_and_the_second_pauses_it_longer_each_time() -> None:
    task = consumer(initial_window=3)
    pauses = []
    for turn in range(10):
        now = 100.0 * turn
        assert task.failed(task.send("pack", 1, now), now)
        assert task.state == "BUSY"
        assert task.has_room_at(now) is (turn == 0), "one alone may be the record's doing"
        pauses.append(round(task.paused_until - now, 6))
    assert pauses[:5] == [0, 0.01, 0.02, 0.04, 0.08]
    assert pauses[-1] == 1.0
    assert task.window == 1
    ack(task, task.send("pack", 1, 2000), 0.05)
    assert task.state == "NORMAL"
    task.failed(task.send("pack", 1, 3000), 3000)
    assert task.has_room_at(3000), "an ack begins anew"


@pytest.mark.guarantee("FC-3")
def test_the_window_stays_within_its_bounds() -> None:
    task = consumer(initial_window=1, max_window=3)
    for turn in range(100):
        sendings = [task.send("pack", 1, turn) for _ in range(task.window)]
        for sending in sendings:
            ack(task, sending, 0.001)
    assert task.window == 3


@pytest.mark.guarantee("FC-3")
def test_without_a_threshold_of_its_own_it_is_the_time_of_two_packs() -> None:
    task = consumer(threshold_secs=0)
    assert task.threshold_secs == pytest.approx(0.010), "twice what a pack aims at, while that is more"
    ack(task, task.send("pack", 1, 0), 1.0)
    assert task.threshold_secs == pytest.approx(2.0)
    assert consumer(threshold_secs=0, width=8).threshold_secs == pytest.approx(0.045), "and one more than it works on at once"


@pytest.mark.guarantee("FC-3", "FC-5")
def test_service_time_is_without_the_queue() -> None:
    task = consumer()
    first, second = task.send("a", 10, 0.0), task.send("b", 10, 0.0)
    assert task.expected_wait(0.0) == 0, "nothing is known yet"
    task.settled(first, 0.1)
    task.settled(second, 0.2)
    assert task.service_secs == pytest.approx(0.01), "each record took 10 ms, though the second pack came after 200"
    third = task.send("c", 5, 1.0)
    assert task.expected_wait(1.0) == pytest.approx(0.05)
    assert task.expected_wait(1.5) == pytest.approx(0.05 + 0.45), "what has lasted long will last"
    assert task.settled(third, 1.6)
    assert not task.settled(third, 1.7), "once"


@pytest.mark.guarantee("FC-5")
def test_what_it_works_on_at_once_is_no_queue() -> None:
    task = consumer(width=2)
    ack(task, task.send("a", 1, 0), 0.1)
    task.send("b", 1, 1)
    assert task.expected_wait(1) == 0
    task.send("c", 1, 1)
    assert task.expected_wait(1) == pytest.approx(0.2)


@pytest.mark.guarantee("FC-5")
def test_the_least_wait_is_chosen_then_the_faster_then_the_next_in_turn() -> None:
    slow, fast, other = (consumer(task_id) for task_id in (1, 2, 3))
    tasks = FlowTasks([slow, fast, other])
    ack(slow, slow.send("a", 1, 0), 0.09)
    ack(fast, fast.send("a", 1, 0), 0.01)
    assert tasks.choose(1) is other, "nobody has tried it"
    ack(other, other.send("a", 1, 0), 0.01)
    assert tasks.choose(1) is fast
    fast.send("b", 1, 1)
    tasks.sent_to(fast)
    assert tasks.choose(1) is other, "in turn"
    other.send("b", 1, 1)
    assert tasks.choose(1) is slow, "no queue is better than a short one"
    slow.send("b", 1, 1)
    assert tasks.choose(1) in (fast, other)
    assert tasks.choose(1, fast) is other, "another than that one"


@pytest.mark.guarantee("FC-4", "FC-5")
def test_a_busy_task_gets_something_only_where_no_other_has_room() -> None:
    busy, full = consumer(1), consumer(2)
    tasks = FlowTasks([busy, full])
    for _ in range(2):
        busy.failed(busy.send("a", 1, 0), 0)
    for _ in range(2):
        assert tasks.choose(1) is full
        full.send("b", 1, 1)
    assert tasks.choose(1) is busy
    assert tasks.choose(0.005) is None, "and when its pause is over"
    assert tasks.next_probe() == pytest.approx(0.01)


@pytest.mark.guarantee("FC-5")
def test_round_robin_goes_over_the_tasks_with_room() -> None:
    consumers = [consumer(task_id) for task_id in (1, 2, 3)]
    tasks = FlowTasks(consumers, by_turns=True)
    chosen = []
    while (task := tasks.choose(0)) is not None:
        chosen.append(task.task_id)
        task.send("a", 1, 0)
        tasks.sent_to(task)
    assert chosen == [1, 2, 3, 1, 2, 3]


@pytest.mark.guarantee("FC-3")
def test_what_is_called_back_is_no_longer_there() -> None:
    task = consumer(initial_window=3)
    first, second = task.send("a", 1, 0), task.send("b", 1, 0)
    assert task.called_back(first, 5)
    assert task.released(second, 5)
    assert (task.in_flight, task.window, task.resends) == (0, 2, 1), "what another task failed costs it no place"
    assert not task.failed(first, 6)
    assert not task.called_back(first, 6)
    assert not task.released(second, 6)


def test_a_pack_has_as_many_records_as_the_task_does_in_the_time() -> None:
    task = consumer()
    assert task.records_for(0.005) == 1, "before anything is known"
    ack(task, task.send("a", 100, 0), 0.01)
    assert task.records_for(0.005) == 50
    task.failed(task.send("a", 1, 1), 1)
    assert task.records_for(0.005) == 1, "a probe"


def test_a_clock_that_stands_still_divides_by_nothing() -> None:
    task = consumer()
    ack(task, task.send("a", 1, 0), 0.0)
    assert task.records_for(0.005) > 1000
    assert task.expected_wait(0) == 0
