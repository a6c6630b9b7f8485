"""Number and pauses of restarts."""

from spark_bridge.pipeline.restarts import Restarts, next_to_start


def test_backoff_grows_to_a_maximum() -> None:
    restarts = Restarts(most=8)
    assert [restarts.pause_after("passing") for _ in range(9)] == [1, 2, 4, 8, 16, 30, 30, 30, None]


def test_an_error_of_user_code_is_retried_once() -> None:
    restarts = Restarts(most=5)
    assert restarts.pause_after("code") == 1.0
    assert restarts.pause_after("code") is None


def test_a_finished_batch_resets_the_count() -> None:
    restarts = Restarts(most=1)
    for _ in range(3):
        assert restarts.pause_after("code") == 1.0
        restarts.note_batch()


def test_a_permanent_error_ends_at_once() -> None:
    assert Restarts(most=5).pause_after("final") is None


def test_queries_start_one_at_a_time_when_due() -> None:
    due = {"late": 9.0, "first": 1.0, "second": 1.5}
    assert next_to_start(due, 0.9, are_starting=False) is None
    assert next_to_start(due, 2.0, are_starting=False) == "first"
    assert next_to_start(due, 2.0, are_starting=True) is None
    assert next_to_start({}, 2.0, are_starting=False) is None
