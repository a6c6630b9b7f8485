"""Snapshots from the events of Spark's process, and their text."""

import json

import pytest

from spark_bridge.cli.pipeline_views import plain_line, summary_line
from spark_bridge.pipeline.driver import parse_batch
from spark_bridge.pipeline.progress import BatchDone, NewestSeen, ProgressTracker, QueriesKnown, StatusChanged, row_rate


class Hand:
    """Clock that the test sets."""

    def __init__(self) -> None:
        self.secs = 100.0

    def __call__(self) -> float:
        return self.secs


@pytest.fixture
def hand() -> Hand:
    """Return a clock for a tracker."""
    return Hand()


def tracker_of(hand: Hand) -> ProgressTracker:
    """Return a tracker of two queries, of which one has finished two batches."""
    tracker = ProgressTracker("flow.py", hand)
    tracker.apply_event(QueriesKnown({"raw": 0, "per-minute": 3}))
    tracker.apply_event(NewestSeen(8))
    tracker.apply_event(BatchDone("raw", 0, 2, 20, 125.0, None))
    tracker.apply_event(BatchDone("raw", 1, 5, 30, 80.0, None))
    return tracker


def test_rows_and_batches_are_summed_and_the_lag_counts_to_the_newest_txid(hand: Hand) -> None:
    now = tracker_of(hand).snapshot()
    raw, per_minute = now.queries["raw"], now.queries["per-minute"]
    assert (raw.txid, raw.lag, raw.rows, raw.batches, raw.batch_ms, raw.status) == (5, 3, 50, 2, 80.0, "running")
    assert (per_minute.txid, per_minute.lag, per_minute.status) == (3, 5, "starting")
    assert (now.newest_txid, now.lag) == (8, 5)


def test_a_batch_without_rows_keeps_the_last_duration(hand: Hand) -> None:
    tracker = tracker_of(hand)
    tracker.apply_event(BatchDone("raw", 2, 5, 0, 3.0, 7))
    raw = tracker.snapshot().queries["raw"]
    assert (raw.batch_ms, raw.state_rows, raw.batches) == (80.0, 7, 3)


def test_progress_is_kept_when_a_child_is_replaced(hand: Hand) -> None:
    tracker = tracker_of(hand)
    tracker.apply_event(StatusChanged("raw", "restarting", "Spark's process died", 1.0))
    tracker.apply_event(QueriesKnown({"raw": 6, "per-minute": 3}))
    raw = tracker.snapshot().queries["raw"]
    assert (raw.rows, raw.txid, raw.restarts, raw.status, raw.trouble) == (50, 5, 1, "starting", "Spark's process died")


def test_the_rate_covers_the_time_between_two_snapshots(hand: Hand) -> None:
    tracker = tracker_of(hand)
    hand.secs += 10
    first = tracker.snapshot()
    tracker.apply_event(BatchDone("raw", 2, 6, 40, 1.0, None))
    hand.secs += 2
    assert row_rate(None, first, "raw") == 5.0
    assert row_rate(first, tracker.snapshot(), "raw") == 20.0


def test_a_progress_report_of_spark_is_parsed() -> None:
    told = {
        "batchId": 4,
        "batchDuration": 593,
        "sources": [{"endOffset": {"txid": 9}, "numInputRows": 9}, {"endOffset": '{"txid": 8}', "numInputRows": 1}],
        "stateOperators": [{"numRowsTotal": 3}, {"numRowsTotal": 4}],
    }
    assert parse_batch("raw", told) == BatchDone("raw", 4, 8, 10, 593.0, 7)
    assert parse_batch("raw", {**told, "sources": [], "stateOperators": []}) == BatchDone("raw", 4, None, 0, 593.0, None)


def test_progress_as_a_plain_line_and_a_summary(hand: Hand) -> None:
    tracker = tracker_of(hand)
    tracker.state = "running"
    hand.secs += 10
    now = tracker.snapshot()
    assert plain_line(None, now) == (
        "flow.py running 10.0 s | newest txid 8 | raw txid 5 lag 3 rows 50 (5.0/s) | per-minute starting txid 3 lag 5 rows 0 (0/s)"
    )
    assert summary_line(now, 130) == "flow.py: stopped at once after 10 s: 50 rows in 2 batches, lag 5"
    assert summary_line(None, 2) == "the pipeline did not start"


def test_a_snapshot_becomes_plain_values_for_json(hand: Hand) -> None:
    plain = json.loads(json.dumps(tracker_of(hand).snapshot().to_dict()))
    assert [query["name"] for query in plain["queries"]] == ["raw", "per-minute"]
    assert plain["queries"][0]["lag"] == 3


def test_a_batch_without_a_txid_keeps_the_progress(hand: Hand) -> None:
    tracker = tracker_of(hand)
    tracker.apply_event(BatchDone("raw", 2, None, 0, 3.0, None))
    assert tracker.snapshot().queries["raw"].txid == 5
