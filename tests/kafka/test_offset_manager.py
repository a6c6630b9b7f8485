"""Commits of one partition and their metadata, against sets of offsets and case by case (KS-2, KS-3, KS-6, KS-7)."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from engine.kafka.client.partition import PartitionId
from engine.kafka.source import acked_set
from engine.kafka.source.offset_manager import Commit, OffsetManager
from engine.kernel import Entry, mark_done
from tests.model.proofs import prove
from tests.tiers import cases

PARTITION = PartitionId("lines", 0)
PLENTY = 4096


@pytest.mark.guarantee("KS-2", "KS-3", "KS-6", "KS-7")
def test_a_partition_through_all_its_owners_agrees_with_sets_of_offsets() -> None:
    prove("offsets", cases(300))


def records(*offsets: int) -> list[Any]:
    return [SimpleNamespace(offset=offset) for offset in offsets]


def window(*offsets: int, start: int = 0, limit: int = 100, **how: Any) -> OffsetManager:
    """Return a manager that was fed these offsets."""
    manager = OffsetManager(PARTITION, start, limit=limit, **how)
    manager.feed(records(*offsets))
    return manager


def emit(manager: OffsetManager) -> dict[int, Entry]:
    """Return all emitted entries, by offset."""
    return {entry.offset: entry for entry in iter(manager.take, None)}


def ack(entries: dict[int, Entry], *offsets: int) -> None:
    for offset in offsets:
        mark_done(entries[offset])


def committed(manager: OffsetManager) -> tuple[int, tuple[int, ...]]:
    """Return the next commit: the offset, and the runs of its metadata."""
    commit = manager.next_commit("words", PLENTY, carries_set=True)
    assert commit is not None
    note = acked_set.decode(commit.metadata)
    assert note is not None
    return commit.offset, note.runs


def after(manager: OffsetManager, most_bytes: int = PLENTY) -> Commit:
    """Commit, and return the commit."""
    commit = manager.next_commit("words", most_bytes, carries_set=True)
    assert commit is not None
    manager.note_committed(commit)
    return commit


@pytest.mark.guarantee("KS-2")
def test_a_commit_ends_before_the_first_record_without_an_ack() -> None:
    manager = window(5, 6, 7, 8, start=5)
    entries = emit(manager)
    ack(entries, 8, 6)
    assert committed(manager) == (5, (6, 7, 8, 9))
    ack(entries, 5)
    assert committed(manager) == (7, (8, 9))
    ack(entries, 7)
    assert committed(manager) == (9, ())


@pytest.mark.guarantee("KS-2")
def test_fetched_records_that_were_not_emitted_are_not_committed() -> None:
    manager = window(0, 1, 2)
    first = manager.take()
    assert first is not None
    mark_done(first)
    assert manager.committable == 1


@pytest.mark.guarantee("KS-2")
@pytest.mark.parametrize("offsets", [(10, 13, 20), (12, 19), (18,)])
def test_offsets_that_never_existed_are_skipped(offsets: tuple[int, ...]) -> None:
    manager = window(*offsets, start=10)
    manager.reach(25)
    ack(emit(manager), *offsets)
    assert committed(manager) == (25, ())


@pytest.mark.guarantee("KS-2")
def test_a_gap_alone_is_committed_and_a_lower_position_ignored() -> None:
    manager = window(start=10, committed=10)
    manager.reach(17)
    manager.reach(12)
    assert (manager.position, committed(manager)) == (17, (17, ()))


@pytest.mark.guarantee("KS-2", "KS-7")
def test_a_gap_joins_two_acked_records_but_not_an_open_one() -> None:
    manager = window(1, 4, 8, 11, 15, start=0)
    ack(emit(manager), 4, 8, 15)
    assert manager.acked_runs() == [4, 9, 15, 16]


def test_known_records_are_not_added_again() -> None:
    manager = window(3, 4, 5, start=4)
    assert manager.feed(records(4, 5, 6)) == 1
    assert list(emit(manager)) == [4, 5, 6]


@pytest.mark.guarantee("KS-2")
def test_repeated_verdicts_count_once_in_any_order() -> None:
    manager = window(0, 1)
    entries = emit(manager)
    ack(entries, 1, 1)
    assert not manager.fail(entries[1])
    assert not manager.take_again(entries[1])
    assert not manager.take_again(entries[0])
    assert manager.fail(entries[0])
    assert not manager.fail(entries[0])
    assert (manager.in_flight, manager.held, entries[0].failures) == (0, 1, 1)
    ack(entries, 0, 0)
    assert (manager.in_flight, manager.held, manager.committable, manager.passed, manager.unpassed) == (0, 0, 2, 2, 0)


@pytest.mark.guarantee("KS-6")
def test_verdicts_after_the_partition_is_closed_have_no_effect() -> None:
    manager = window(0, 1, 2)
    entries = emit(manager)
    manager.fail(entries[1])
    manager.close()
    ack(entries, 0)
    assert (manager.fail(entries[2]), manager.take_again(entries[1]), manager.feed(records(3))) == (False, False, 0)
    assert all(entry.is_lost for entry in entries.values())
    assert (manager.take(), manager.in_flight, manager.held, manager.waiting) == (None, 0, 0, 0)
    assert manager.next_commit("words", PLENTY, carries_set=True) is None


@pytest.mark.guarantee("KS-6")
def test_quiet_is_reported_after_the_last_verdict_or_the_close() -> None:
    told: list[str] = []
    manager = window(0, 1, 2)
    entries = emit(manager)
    manager.when_quiet(lambda: told.append("quiet"))
    ack(entries, 0)
    manager.fail(entries[1])
    assert told == []
    ack(entries, 1)  # held: it was not in flight
    assert told == []
    ack(entries, 2)
    assert told == ["quiet"]
    manager.close()
    assert told == ["quiet"] * 2
    manager.when_quiet(None)
    manager.close()
    assert told == ["quiet"] * 2


# The limit (KS-3)


@pytest.mark.guarantee("KS-3")
def test_a_partition_is_full_by_offsets_beyond_the_commit() -> None:
    manager = window(*range(10), limit=10, committed=0)
    entries = emit(manager)
    assert (manager.uncommitted, manager.is_full, manager.wants_commit) == (10, True, False)
    ack(entries, *range(1, 10))
    assert (manager.uncommitted, manager.wants_commit) == (10, False)  # a commit would free nothing
    ack(entries, 0)
    assert (manager.uncommitted, manager.is_full, manager.wants_commit) == (10, True, True)
    after(manager)
    assert (manager.uncommitted, manager.is_full, manager.wants_commit) == (0, False, False)


@pytest.mark.guarantee("KS-3")
def test_acks_during_a_commit_belong_to_the_next_one() -> None:
    manager = window(*range(10), limit=10, committed=0)
    entries = emit(manager)
    ack(entries, 0, 1)
    commit = manager.next_commit("words", PLENTY, carries_set=True)
    ack(entries, 2, 3)
    assert commit is not None
    manager.note_committed(commit)
    assert (manager.committed, manager.uncommitted) == (2, 8)


@pytest.mark.guarantee("KS-3")
@pytest.mark.parametrize(("fed", "acked", "wanted"), [(99, 24, False), (99, 25, True), (49, 40, False), (50, 25, True), (100, 1, True)])
def test_a_commit_is_wanted_before_the_partition_is_full(fed: int, acked: int, wanted: bool) -> None:
    manager = window(*range(fed), limit=100, committed=0)
    ack(emit(manager), *range(acked))
    assert manager.wants_commit == wanted


# The acked set (KS-7)


@pytest.mark.guarantee("KS-7")
def test_the_next_owner_emits_exactly_what_is_not_acked() -> None:
    first = window(*range(20))
    ack(emit(first), *range(5), 7, 8, 12, 19)
    commit = after(first)
    note = acked_set.decode(commit.metadata)
    assert note is not None
    second = window(*range(30), start=commit.offset, committed=commit.offset, skips=note.runs)
    assert list(emit(second)) == [5, 6, 9, 10, 11, *range(13, 19), *range(20, 30)]
    assert second.skipped == 4


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize("fetched", range(12))
def test_a_commit_keeps_the_part_of_the_set_that_was_not_read_yet(fetched: int) -> None:
    manager = window(*range(fetched), committed=0, skips=(1, 3, 5, 9))
    assert committed(manager) == (0, (1, 3, 5, 9))
    ack(emit(manager), *([0] if fetched else []))
    assert committed(manager) == {0: (0, (1, 3, 5, 9)), 1: (1, (1, 3, 5, 9)), 2: (2, (2, 3, 5, 9))}.get(fetched, (3, (5, 9)))


@pytest.mark.guarantee("KS-7")
def test_the_part_of_the_set_that_no_longer_exists_is_not_committed() -> None:
    manager = window(0, committed=0, skips=(1, 3, 5, 9))
    emit(manager)
    manager.reach(7)
    assert committed(manager) == (0, (7, 9))
    after(manager)
    manager.reach(9)
    assert committed(manager) == (0, ())


@pytest.mark.guarantee("KS-7")
def test_there_is_no_commit_without_changes() -> None:
    manager = window(0, 1, 2, committed=0)
    entries = emit(manager)
    assert manager.next_commit("words", PLENTY, carries_set=True) is None  # of another program's metadata nothing is known
    ack(entries, 1)
    after(manager)
    assert manager.next_commit("words", PLENTY, carries_set=True) is None
    ack(entries, 2)
    assert after(manager).offset == 0
    fresh = window(0)
    assert after(fresh).offset == 0, "without a commit of the group even the beginning is one"


@pytest.mark.guarantee("KS-7")
def test_without_the_set_and_without_room_only_the_offset_is_committed() -> None:
    manager = window(0, 1, 2)
    ack(emit(manager), 1)
    without = manager.next_commit("words", PLENTY, carries_set=False)
    bare = manager.next_commit("words", 0, carries_set=True)
    assert without is not None
    assert (without.metadata, without.left_out) == (acked_set.encode("words", 0, [], PLENTY)[0], 0)
    assert bare is not None
    assert (bare.offset, bare.metadata, bare.left_out) == (0, "", 0)


@pytest.mark.guarantee("KS-7")
def test_offsets_without_room_in_the_metadata_are_left_out_and_counted() -> None:
    manager = window(*range(2000))
    ack(emit(manager), *range(1, 2000, 2))
    commit = manager.next_commit("words", 256, carries_set=True)
    assert commit is not None
    note = acked_set.decode(commit.metadata)
    assert note is not None
    assert len(commit.metadata) <= 256
    kept = note.runs[::2]
    assert kept == tuple(range(1, 2 * len(kept), 2))
    assert commit.left_out == 1000 - len(kept)


# At most once, and the end


@pytest.mark.guarantee("KS-1")
def test_at_most_once_counts_records_committed_before_they_are_fed() -> None:
    manager = window(0, 1, committed=2, limit=3)
    commit = manager.commit_ahead("words", 5, 3)
    assert (commit.offset, acked_set.decode(commit.metadata)) == (5, acked_set.CommitNote("words", 5, ()))
    manager.note_committed(commit)
    manager.feed(records(2, 3, 4))
    assert (manager.committed, manager.uncommitted, manager.is_full, manager.committable) == (5, 0, False, 0)
    given_back = manager.next_commit("words", PLENTY, carries_set=False)
    assert given_back is not None
    assert given_back.offset == 0, "on a clean stop what was not emitted is given back"


@pytest.mark.guarantee("KS-1")
def test_an_interrupted_commit_ahead_is_taken_back() -> None:
    manager = window(start=2, committed=2)
    assert manager.next_commit("words", PLENTY, carries_set=False) is None
    manager.commit_ahead("words", 5, 3)
    given_back = manager.next_commit("words", PLENTY, carries_set=False)
    assert given_back is not None
    assert given_back.offset == 2, "the broker may have 5, and nothing of it was fed"
    manager.note_committed(given_back)
    assert manager.next_commit("words", PLENTY, carries_set=False) is None


@pytest.mark.guarantee("KS-2")
def test_records_after_the_end_of_reading_are_not_committed() -> None:
    manager = window(start=0, committed=0)
    manager.stop_at = 3
    manager.feed(records(0, 1))
    assert not manager.has_ended
    ack(emit(manager), 0, 1)
    manager.reach(9)  # the poll brought records up to 8; 2 never existed
    assert manager.has_ended
    assert committed(manager) == (3, ())


# Memory


def shuffled(entries: Iterable[Entry], step: int) -> list[Entry]:
    every = list(entries)
    return [entry for first in range(step) for entry in every[first::step]]


@pytest.mark.guarantee("KS-2")
@pytest.mark.parametrize("skips", [(), (100, 9000)])
def test_entries_are_reused_and_counts_continue(skips: tuple[int, ...]) -> None:
    manager, fed = OffsetManager(PARTITION, 0, limit=10**6, skips=skips), 0
    for length in (4095, 1, 4097, 3000, 9000, 1):
        assert manager.feed(records(*range(fed, fed + length))) == length
        fed += length
        entries = emit(manager)
        assert len(entries) == sum(not (skips and 100 <= offset < 9000) for offset in range(fed - length, fed))
        last = max(entries, default=None)
        for entry in shuffled(entries.values(), 7):
            if entry.offset != last:
                mark_done(entry)
        assert manager.committable == (fed if last is None else last)
        if last is not None:
            mark_done(entries[last])
        assert (manager.committable, manager.passed, manager.unpassed, manager.waiting, manager.in_flight) == (fed, fed, 0, 0, 0)


def test_done_entries_hold_no_record() -> None:
    manager = window(0, 1, 2)
    entries = emit(manager)
    manager.fail(entries[2])
    ack(entries, 1)
    assert [entry.record is None for entry in entries.values()] == [False, True, False]
    assert (repr(entries[1]), entries[1].manager) == ("<Entry at offset 1>", manager)


def test_an_entry_is_shown_as_its_place() -> None:
    manager = window(0, 1)
    entries = emit(manager)
    entries[0].record.topic, entries[0].record.partition = "orders", 3
    assert repr(entries[0]) == str(entries[0]) == "orders[3]@0"
