"""Retries of failed records: their pauses, their order, and skipped entries (KS-4)."""

import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kafka.client.partition import PartitionId
from engine.kafka.source.offset_manager import OffsetManager
from engine.kafka.source.retry import RecordBackoff, RetryService
from engine.kernel import Entry, mark_done


def failed(count: int, *, failures: int = 1) -> tuple[OffsetManager, list[Entry]]:
    """Return waiting entries that have failed so often."""
    manager = OffsetManager(PartitionId("lines", 0), 0, limit=1000)
    manager.feed([SimpleNamespace(offset=offset) for offset in range(count)])
    entries = [entry for entry in iter(manager.take, None) if entry is not None]
    for entry in entries:
        for turn in range(failures):
            assert turn == 0 or manager.take_again(entry)
            assert manager.fail(entry)
    return manager, entries


@pytest.mark.guarantee("KS-4")
@pytest.mark.parametrize(
    ("failures", "secs"),
    [(1, 0.0), (2, 0.004), (3, 0.008), (4, 0.016), (13, 8.192), (14, 10.0), (64, 10.0), (65, 10.0), (66, 10.0), (2**31 - 1, 10.0)],
)
def test_a_record_waits_first_secs_then_doubling_periods_up_to_longest_secs(failures: int, secs: float) -> None:
    assert RecordBackoff().wait_secs(failures) == pytest.approx(secs, abs=1e-12)


@pytest.mark.guarantee("KS-4")
def test_the_pauses_follow_the_settings() -> None:
    backoff = RecordBackoff(first_secs=0.5, period_secs=1.0, longest_secs=3.0)
    assert [backoff.wait_secs(failures) for failures in (1, 2, 3, 4)] == [0.5, 2.0, 3.0, 3.0]
    assert RecordBackoff(first_secs=20.0).wait_secs(1) == 10.0
    assert RecordBackoff(period_secs=1e-300).wait_secs(2**31 - 1) < 1e-200  # type: ignore[operator]


@given(failures=st.integers(1, 10_000), period=st.floats(1e-6, 100), most=st.floats(1e-6, 1000))
def test_pauses_never_shrink_and_never_exceed_the_longest(failures: int, period: float, most: float) -> None:
    backoff = RecordBackoff(0.0, period, most)
    wait, next_wait = backoff.wait_secs(failures), backoff.wait_secs(failures + 1)
    assert wait is not None
    assert next_wait is not None
    assert 0 <= wait <= next_wait <= most


@pytest.mark.guarantee("KS-4")
@pytest.mark.parametrize("most", [0, 1, 5])
def test_after_max_retries_a_record_is_given_up(most: int) -> None:
    backoff = RecordBackoff(max_retries=most)
    assert [backoff.wait_secs(failures) is not None for failures in range(1, most + 3)] == [True] * most + [False] * 2
    _, entries = failed(1, failures=most + 1)
    service = RetryService(backoff)
    assert not service.schedule(entries[0], 5.0)
    assert (len(service), service.next_due) == (0, None)


@pytest.mark.guarantee("KS-4")
def test_records_are_due_by_time_then_in_the_order_of_their_failures() -> None:
    service = RetryService(RecordBackoff(first_secs=1.0))
    _, entries = failed(60)
    chance, due = random.Random(3), {}
    for entry in entries:
        now = float(chance.randrange(10))
        assert service.schedule(entry, now)
        due[entry] = now + 1.0
    assert service.next_due == min(due.values())
    order, now = [], 0.0
    while service:
        now += 0.5
        while (entry := service.take_due(now)) is not None:
            assert due[entry] <= now < due[entry] + 0.5
            order.append(entry)
        assert service.next_due is None or service.next_due > now
    assert order == sorted(entries, key=lambda entry: (due[entry], entry.offset))


@pytest.mark.guarantee("KS-4")
def test_a_record_is_not_due_before_its_time() -> None:
    service = RetryService(RecordBackoff(first_secs=2.0))
    _, (entry,) = failed(1)
    service.schedule(entry, 10.0)
    assert service.next_due == 12.0
    assert service.take_due(11.999) is None
    assert service.take_due(12.0) is entry
    assert service.take_due(99.0) is None


@pytest.mark.guarantee("KS-4")
def test_a_record_without_a_dead_letter_waits_the_longest_pause() -> None:
    service = RetryService(RecordBackoff(max_retries=0, longest_secs=7.0))
    _, (entry,) = failed(1)
    service.postpone(entry, 1.0)
    assert (service.next_due, service.take_due(8.0)) == (8.0, entry)


@pytest.mark.guarantee("KS-4", "KS-6")
def test_done_records_and_revoked_partitions_are_skipped() -> None:
    service = RetryService(RecordBackoff())
    lost, lost_entries = failed(3)
    _, kept_entries = failed(3)
    for entry in (*lost_entries, *kept_entries):
        service.schedule(entry, 0.0)
    mark_done(kept_entries[0])
    lost.close()
    assert service.take_due(0.0) is kept_entries[1]
    service.forget_lost()
    assert len(service) == 1
    assert service.take_due(0.0) is kept_entries[2]
    assert (service.take_due(0.0), len(service), service.next_due) == (None, 0, None)


@pytest.mark.guarantee("KS-6")
def test_dropping_revoked_partitions_keeps_the_order_of_the_rest() -> None:
    service = RetryService(RecordBackoff())
    parts = [failed(20) for _ in range(3)]
    chance, due = random.Random(1), {}
    for _, entries in parts:
        for entry in entries:
            now = chance.random()
            service.schedule(entry, now)
            due[entry] = now
    parts[1][0].close()
    service.forget_lost()
    kept = sorted((*parts[0][1], *parts[2][1]), key=due.__getitem__)
    assert len(service) == len(kept)
    assert [service.take_due(1.0) for _ in kept] == kept
