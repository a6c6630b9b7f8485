"""`next_step` decides from the folder: within one history each batch is written once (SP-2, TX-8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import FatalError
from engine.transactional import TransactionAttempt
from spark_bridge.writer.manifest_writer import ManifestStep, next_step

pytestmark = pytest.mark.guarantee("SP-2", "TX-8")

EPOCH = 2**32
ATTEMPT = TransactionAttempt(7, EPOCH + 9)


@pytest.mark.parametrize(
    ("newest", "written", "step"),
    [(6, None, ManifestStep.WRITE), (7, EPOCH + 8, ManifestStep.SKIP), (7, 1, ManifestStep.SKIP), (0, None, ManifestStep.BEGIN)],
)
def test_a_manifest_is_written_skipped_or_the_first(newest: int, written: int | None, step: ManifestStep) -> None:
    assert next_step("'/x'", ATTEMPT, newest, written) is step
    assert next_step("'/x'", TransactionAttempt(1, EPOCH), 0, None) is ManifestStep.WRITE


@pytest.mark.parametrize(
    ("newest", "written", "text"),
    [
        (8, None, r"has batch 8 already, and the coordinator continues with batch 7 \(attempt 1\.9\)"),
        (7, EPOCH + 9, r"has batch 7 \(attempt 1\.9\) already, and the coordinator continues with batch 7 \(attempt 1\.9\)"),
        (7, EPOCH + 10, r"has batch 7 \(attempt 1\.10\) already, and the coordinator continues with"),
        (5, None, r"has batches up to 5, and this is batch 7 \(attempt 1\.9\): the batches between are missing"),
    ],
)
def test_a_manifest_of_another_history_is_refused(newest: int, written: int | None, text: str) -> None:
    with pytest.raises(FatalError, match=text):
        next_step("'/x'", ATTEMPT, newest, written)


def test_an_interval_is_published_again_with_its_own_attempt_alone() -> None:
    """At checkpoints a manifest of another attempt belongs to another history (EO-9)."""
    assert next_step("'/x'", ATTEMPT, 7, EPOCH + 9, is_again=True) is ManifestStep.SKIP
    assert next_step("'/x'", ATTEMPT, 6, None, is_again=True) is ManifestStep.WRITE
    for written in (EPOCH + 8, EPOCH + 10):
        with pytest.raises(FatalError, match="has batch 7"):
            next_step("'/x'", ATTEMPT, 7, written, is_again=True)


@given(st.lists(st.sampled_from(["commits", "is lost", "restarts"]), max_size=40))
def test_lost_answers_of_commits_write_each_batch_once(events: list[str]) -> None:
    """The coordinator learns of a commit or not; the next attempt has the next id."""
    folder: dict[int, int] = {}
    txid, attempt_id, epoch = 1, EPOCH, 1
    for event in events:
        if event == "restarts":
            epoch += 1
            attempt_id = epoch * EPOCH
        attempt_id += 1
        step = next_step("'/x'", TransactionAttempt(txid, attempt_id), max(folder, default=0), folder.get(txid))
        assert (step is ManifestStep.SKIP) == (txid in folder)
        if step is ManifestStep.WRITE:
            folder[txid] = attempt_id
        if event == "commits":
            txid += 1
    assert sorted(folder) == list(range(1, len(folder) + 1))
    assert list(folder.values()) == sorted(folder.values())
