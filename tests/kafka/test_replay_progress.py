"""`ReplayProgress` against a set of sent offsets: the next replay continues from its commit."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from engine.kafka.client.partition import CommittedOffset
from engine.kafka.dead_letters.replay_member import ReplayProgress
from engine.kafka.source import acked_set

Passes = list[tuple[int, set[int]]]


@st.composite
def topics(draw: st.DrawFn) -> tuple[list[int], Passes]:
    """Draw offsets with gaps, and passes over them: the number of read records, and the chosen ones."""
    offsets = sorted(draw(st.sets(st.integers(0, 60), min_size=1)))
    a_pass = st.tuples(st.integers(0, len(offsets)), st.sets(st.sampled_from(offsets)))
    return offsets, draw(st.lists(a_pass, min_size=1, max_size=5))


@given(topics())
def test_each_pass_skips_the_sent_letters(topic: tuple[list[int], Passes]) -> None:
    offsets, passes = topic
    sent = set[int]()
    commit = None
    for length, chosen in passes:
        progress = ReplayProgress.of_commit(commit, 0)
        start = progress.offset
        assert {one for one in offsets if progress.is_sent_before(one)} == sent
        for offset in [one for one in offsets if one >= start][:length]:
            assert progress.is_sent(offset) == (offset in sent)
            if offset in chosen:
                sent.add(offset)
            progress.note_record(offset, is_sent=offset in sent)
        commit = progress.next_commit()
        assert commit is not None
        assert not [one for one in offsets if one < commit.offset and one not in sent]


def test_letters_deleted_by_retention_are_skipped() -> None:
    metadata, _ = acked_set.encode("replay", 5, [7, 12], 4096)
    progress = ReplayProgress.of_commit(CommittedOffset(5, metadata), 9)
    assert (progress.offset, progress.runs, progress.is_sent(11), progress.is_sent(12)) == (9, [9, 12], True, False)


def test_metadata_of_another_program_are_ignored() -> None:
    for metadata in ("x", acked_set.encode("words", 5, [7, 12], 4096)[0], acked_set.encode("replay", 6, [7, 12], 4096)[0]):
        assert ReplayProgress.of_commit(CommittedOffset(5, metadata), 0).runs == []


def test_more_runs_than_a_commit_holds_are_reported() -> None:
    progress, chance = ReplayProgress(0), Random(3)
    for offset in range(50_000):
        progress.note_record(offset, is_sent=offset > 0 and chance.random() < 0.5)
    assert progress.next_commit() is None
