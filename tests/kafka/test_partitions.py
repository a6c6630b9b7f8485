"""Partitions of a task: those kept through a rebalance, the rotation, and their sums (KS-3, KS-6)."""

from collections.abc import Iterable
from itertools import groupby
from types import SimpleNamespace

import pytest

from engine.kafka.client.partition import Membership, PartitionId
from engine.kafka.source.offset_manager import OffsetManager
from engine.kafka.source.partitions import Partitions, commits_of
from engine.kernel import Entry, mark_done

IDS = [PartitionId("lines", number) for number in range(4)]
TURN = 64
ME = Membership(7, "me")


def fed(partition: PartitionId, count: int, *, limit: int = 1000) -> OffsetManager:
    manager = OffsetManager(partition, 0, limit=limit)
    manager.feed([SimpleNamespace(offset=offset) for offset in range(count)])
    return manager


def owning(*counts: int, membership: Membership | None = ME, limit: int = 1000) -> Partitions:
    """Return partitions with so many waiting records each."""
    partitions = Partitions()
    partitions.assign(IDS[: len(counts)], membership)
    for partition, count in zip(IDS, counts, strict=False):
        partitions.open_partition(fed(partition, count, limit=limit))
    return partitions


def taken(partitions: Partitions) -> list[Entry]:
    return list(iter(partitions.take, None))


def numbers(entries: Iterable[Entry]) -> list[int]:
    return [entry.manager.partition.partition for entry in entries]


# Membership


@pytest.mark.guarantee("KS-6")
@pytest.mark.parametrize(
    ("before", "after", "follows"),
    [
        (ME, Membership(8, "me"), True),
        (ME, Membership(7, "me"), False),
        (ME, Membership(6, "me"), False),
        (ME, Membership(9, "me"), False),
        (ME, Membership(8, "another"), False),
        (ME, Membership(-1, "me"), False),
        (None, Membership(1, "me"), False),
        (Membership(-1, ""), Membership(0, ""), False),
        (Membership(-1, "me"), Membership(0, "me"), False),
        (Membership(0, "me"), Membership(1, "me"), True),
    ],
)
def test_a_generation_follows_only_its_predecessor_of_the_same_member(before: Membership | None, after: Membership, follows: bool) -> None:
    assert after.follows(before) == follows


def test_a_negative_generation_is_lost() -> None:
    assert [Membership(number, "me").is_lost for number in (-2, -1, 0, 1)] == [True, True, False, False]


# Rebalances


@pytest.mark.guarantee("KS-6")
def test_partitions_assigned_again_are_kept_and_the_others_closed() -> None:
    partitions = owning(5, 5, 5)
    first, second, third = partitions.owned.values()
    entry = partitions.take()
    partitions.suspend()
    kept, given_up = partitions.assign([IDS[3], IDS[2], IDS[0]], Membership(8, "me"))
    assert (kept, given_up) == ([first, third], [second])
    assert [manager.closed for manager in (first, second, third)] == [False, True, False]
    assert partitions.owned == {IDS[0]: first, IDS[2]: third}
    assert partitions.opening == {IDS[3]}
    assert list(partitions) == [first, third]
    assert partitions.membership == Membership(8, "me")
    assert entry is not None
    assert entry.manager is first
    assert first.in_flight == 1, "what is in flight stays so"
    assert set(numbers(taken(partitions))) == {0, 2}


@pytest.mark.guarantee("KS-6")
@pytest.mark.parametrize(
    "membership", [Membership(9, "me"), Membership(8, "another"), Membership(7, "me"), Membership(-1, "me"), Membership(1, "me")]
)
def test_after_a_gap_or_as_another_member_no_partition_is_kept(membership: Membership) -> None:
    partitions = owning(5, 5)
    before = list(partitions)
    kept, given_up = partitions.assign(IDS[:2], membership)
    assert (kept, given_up) == ([], before)
    assert all(manager.closed for manager in before)
    assert (partitions.owned, partitions.opening, partitions.take()) == ({}, set(IDS[:2]), None)


@pytest.mark.guarantee("KS-6")
def test_a_partition_that_was_lost_once_is_not_kept_later() -> None:
    partitions = owning(5)
    partitions.assign([], Membership(8, "me"))
    assert partitions.assign(IDS[:1], Membership(9, "me")) == ([], [])
    assert partitions.opening == {IDS[0]}


def test_the_first_assignment_keeps_nothing_and_manual_assignment_keeps_all() -> None:
    partitions = Partitions()
    assert partitions.assign(IDS[:2], ME) == ([], [])
    assert partitions.opening == set(IDS[:2])
    alone = owning(1, 1, membership=None)
    first, second = alone
    assert alone.assign(IDS[1:3], None) == ([second], [first])
    assert alone.opening == {IDS[2]}


@pytest.mark.guarantee("KS-6")
def test_between_a_revoke_and_the_next_assignment_nothing_is_emitted() -> None:
    partitions = owning(3)
    assert partitions.take() is not None
    partitions.suspend()
    assert partitions.take() is None
    assert partitions.waiting == 2
    partitions.assign(IDS[:1], Membership(8, "me"))
    assert len(taken(partitions)) == 2


@pytest.mark.guarantee("KS-7")
def test_a_reopened_partition_starts_empty_and_ignores_earlier_commits() -> None:
    partitions = owning(10, 3)
    before = partitions.owned[IDS[0]]
    for entry in taken(partitions):
        mark_done(entry)
    commits = commits_of(partitions, "words", 4096, carries_set=True)
    partitions.reopen_partition(IDS[0])
    assert before.closed
    assert partitions.opening == {IDS[0]}
    assert list(partitions) == [partitions.owned[IDS[1]]]
    anew = fed(IDS[0], 4)
    partitions.open_partition(anew)
    assert partitions.opening == set()
    partitions.note_committed(commits)
    assert (anew.committed, anew.uncommitted) == (None, 4), "KS-3: else it might run further ahead than the limit"
    assert partitions.owned[IDS[1]].committed == 3
    assert numbers(taken(partitions)) == [0] * 4


def test_closing_gives_up_all_partitions() -> None:
    partitions = owning(2, 2)
    managers = list(partitions)
    partitions.close_all()
    assert all(manager.closed for manager in managers)
    assert (partitions.owned, partitions.opening, partitions.take(), partitions.waiting, list(partitions)) == ({}, set(), None, 0, [])


# Emitting


def test_partitions_take_turns() -> None:
    partitions = owning(3 * TURN, TURN // 2, 3 * TURN)
    turns = [(number, len(list(group))) for number, group in groupby(numbers(taken(partitions)))]
    assert turns == [(0, TURN), (1, TURN // 2), (2, TURN), (0, TURN), (2, TURN), (0, TURN), (2, TURN)]


def test_an_empty_partition_takes_turns_again_when_records_come() -> None:
    partitions = owning(0, 5)
    assert numbers(taken(partitions)) == [1] * 5
    partitions.owned[IDS[0]].feed([SimpleNamespace(offset=0)])
    assert numbers(taken(partitions)) == [0]
    assert Partitions().take() is None


def test_the_low_mark_is_reported_once() -> None:
    partitions, told = owning(2 * TURN, 2 * TURN), list[int]()
    partitions.on_low(lambda: told.append(partitions.waiting), below=100)
    while partitions.take() is not None:
        assert not told or told[0] < 100
    assert told == [TURN], "looked at whenever it is another partition's turn"
    assert partitions.take() is None
    assert len(told) == 1
    partitions.on_low(lambda: told.append(-1), below=1)
    assert partitions.take() is None
    assert told == [TURN, -1]


def test_the_bound_itself_is_not_low() -> None:
    partitions, told = owning(10), list[int]()
    partitions.on_low(lambda: told.append(partitions.waiting), below=10)
    partitions.take()
    assert told == []
    taken(partitions)
    assert told == [0]


@pytest.mark.guarantee("KS-7")
def test_the_low_mark_is_reported_at_once_if_all_waiting_records_are_done() -> None:
    partitions, told = Partitions(), list[int]()
    partitions.assign(IDS[:1], ME)
    manager = OffsetManager(IDS[0], 0, limit=1000, skips=(1, 50))
    manager.feed([SimpleNamespace(offset=0)])
    partitions.open_partition(manager)
    assert len(taken(partitions)) == 1, "and it stays in flight"
    manager.feed([SimpleNamespace(offset=offset) for offset in range(1, 50)])
    partitions.on_low(lambda: told.append(partitions.waiting), below=49)
    assert partitions.waiting == 49
    assert partitions.take() is None
    assert told == [0]


# Sums over all partitions


def test_waiting_in_flight_and_held_records_are_summed() -> None:
    partitions = owning(3, 4)
    entries = [entry for entry in (partitions.take(), partitions.take(), partitions.take()) if entry is not None]
    entries[0].manager.fail(entries[0])
    assert (partitions.waiting, partitions.in_flight, partitions.held) == (4, 2, 1)


def test_reading_has_ended_when_each_partition_has_and_no_record_waits() -> None:
    partitions = owning(2, 2)
    for manager in partitions:
        manager.stop_at = 2
    assert not partitions.have_ended
    entries = taken(partitions)
    assert partitions.have_ended
    entries[0].manager.fail(entries[0])
    assert not partitions.have_ended, "it will be emitted again"
    mark_done(entries[0])
    assert partitions.have_ended
    partitions.owned[IDS[0]].stop_at = 3
    assert not partitions.have_ended
    partitions.owned[IDS[0]].stop_at = None
    assert not partitions.have_ended
    partitions.owned[IDS[0]].stop_at = 2
    partitions.suspend()
    assert not partitions.have_ended, "nobody knows what comes back"
    partitions.assign(IDS[:3], Membership(8, "me"))
    assert not partitions.have_ended, "one is being opened"


@pytest.mark.guarantee("KS-3")
def test_a_full_partition_is_paused_until_a_commit_makes_room() -> None:
    partitions = owning(5, 4, limit=5)
    full, other = partitions
    assert list(partitions.to_pause()) == [full]
    assert list(partitions.to_pause()) == []
    assert list(partitions.to_resume()) == []
    for entry in taken(partitions):
        mark_done(entry)
    partitions.note_committed(commits_of(partitions, "words", 4096, carries_set=True))
    assert list(partitions.to_resume()) == [full]
    assert list(partitions.to_resume()) == []
    assert not other.is_paused
    full.stop_at = other.stop_at = 5
    assert list(partitions.to_pause()) == [full], "at its end it needs no reading"
    assert list(partitions.to_resume()) == []


def test_unchanged_offsets_are_not_committed_again() -> None:
    partitions = owning(2, 2)
    commits = commits_of(partitions, "words", 4096, carries_set=True)
    assert {partition: commit.offset for partition, commit in commits.items()} == {IDS[0]: 0, IDS[1]: 0}
    partitions.note_committed(commits)
    assert commits_of(partitions, "words", 4096, carries_set=True) == {}
    entry = partitions.take()
    assert entry is not None
    mark_done(entry)
    assert list(commits_of(partitions, "words", 4096, carries_set=True)) == [IDS[0]]
    partitions.close_all()
    partitions.note_committed(commits)  # without effect, and without an error
