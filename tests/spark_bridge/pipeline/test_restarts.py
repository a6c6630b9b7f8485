"""Number and pauses of restarts."""

from spark_bridge.pipeline.restarts import Restarts, next_to_start


def test_pauses_grow_up_to_a_bound() -> None:
    restarts = Restarts(most=8)
    assert [restarts.pause_after("passing") for _ in range(9)] == [1, 2, 4, 8, 16, 30, 30, 30, None]


def test_an_error_of_the_users_code_is_tried_once_more() -> None:
    restarts = Restarts(most=5)
    assert restarts.pause_after("code") == 1.0
    assert restarts.pause_after("code") is None


def test_a_batch_in_between_forgives() -> None:
    restarts = Restarts(most=1)
    for _ in range(3):
        assert restarts.pause_after("code") == 1.0
        restarts.note_batch()


def test_what_nothing_helps_ends_at_once() -> None:
    assert Restarts(most=5).pause_after("final") is None


def test_queries_start_one_after_the_other_when_their_time_has_come() -> None:
    due = {"late": 9.0, "first": 1.0, "second": 1.5}
    assert next_to_start(due, 0.9, are_starting=False) is None
    assert next_to_start(due, 2.0, are_starting=False) == "first"
    assert next_to_start(due, 2.0, are_starting=True) is None
    assert next_to_start({}, 2.0, are_starting=False) is None
