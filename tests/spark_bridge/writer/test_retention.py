"""Batches that every consumer has committed are deleted, and no others, wherever a deletion is interrupted (SP-2, SP-3)."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.transactional import MemoryTransactionalSpout, TransactionAttempt
from spark_bridge import SparkHandover
from spark_bridge.handover import Handover, Manifest, Position, StorageUnavailable, TransactionDeleted
from spark_bridge.handover.names import StagedName
from spark_bridge.writer import retention
from spark_bridge.writer.manifest_writer import ManifestWriter
from spark_bridge.writer.retention import Retention, deletable_txid
from tests.spark_bridge.handover.places import KINDS
from tests.spark_bridge.writer.playing import FIELDS, handover_at, named, numbers, opened, rows_of, run_hand_over, staged

pytestmark = pytest.mark.guarantee("SP-2", "SP-3")

POSITIONS = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: Position(max(pair), min(pair)))


@given(st.dictionaries(st.sampled_from("abc"), POSITIONS), st.integers(0, 30), st.integers(0, 5))
def test_the_deletable_txid_is_committed_by_all_and_older_than_keep(consumers: dict[str, Position], newest: int, keep: int) -> None:
    upto = deletable_txid(consumers, newest, keep)
    assert all(upto <= position.committed for position in consumers.values())
    assert upto == 0 or (consumers and upto <= newest - max(1, keep))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def more(handover: SparkHandover, state: Path, upto: int) -> None:
    """Hand over the numbers up to a limit that were not handed over yet, in batches of 4."""
    run_hand_over(handover, MemoryTransactionalSpout(rows_of(range(upto)), FIELDS, 4), state=state)


def test_only_batches_that_all_have_committed_are_deleted(kind: str, tmp_path: Path) -> None:
    state, handover = tmp_path / "state.db", handover_at(kind, tmp_path / "spool", consumers=("a", "b"))
    more(handover, state, 32)
    assert opened(handover).deleted() == 0
    opened(handover).consumer("a").commit(6)
    more(handover, state, 36)
    assert opened(handover).deleted() == 0, "b has not read"
    opened(handover).consumer("b").commit(3)
    more(handover, state, 40)
    assert opened(handover).deleted() == 3
    assert numbers(handover) == list(range(12, 40))
    assert staged(handover) == named(handover)
    assert len(handover.storage().names("manifests")) == 7
    with pytest.raises(TransactionDeleted, match="txid 3 is deleted"):
        opened(handover).manifest(3)


def test_an_added_consumer_keeps_its_uncommitted_batches(tmp_path: Path) -> None:
    state, handover = tmp_path / "state.db", handover_at("local", tmp_path / "spool", consumers=("a",))
    more(handover, state, 32)
    opened(handover).consumer("late").add()
    opened(handover).consumer("a").commit(7)
    more(handover, state, 36)
    assert opened(handover).deleted() == 0
    opened(handover).consumer("late").remove()
    more(handover, state, 40)
    assert opened(handover).deleted() == 7


def test_the_newest_batches_stay_after_their_commit(tmp_path: Path) -> None:
    state, handover = tmp_path / "state.db", handover_at("local", tmp_path / "spool", consumers=("a",), keep_batches=3)
    more(handover, state, 40)
    opened(handover).consumer("a").commit(10)
    more(handover, state, 44)
    assert opened(handover).deleted() == 8


def test_without_consumers_nothing_is_deleted(kind: str, tmp_path: Path) -> None:
    handover = handover_at(kind, tmp_path / "spool")
    run_hand_over(handover)
    assert opened(handover).deleted() == 0
    assert numbers(handover) == list(range(30))


@pytest.mark.parametrize("stops_at", range(1, 9))
def test_an_interrupted_deletion_is_repeated(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops_at: int) -> None:
    state, handover = tmp_path / "state.db", handover_at(kind, tmp_path / "spool", consumers=("a",))
    more(handover, state, 32)
    opened(handover).consumer("a").commit(3)
    folder = opened(handover)
    tidies, calls = Retention(folder, ("a",), 0), [0]
    with monkeypatch.context() as patch:
        for owner, name in ((retention, "mark_deleted"), (type(folder.storage), "remove")):
            patch.setattr(owner, name, stopping(getattr(owner, name), calls, stops_at))
        with pytest.raises(KeyboardInterrupt):
            tidies.apply_after(TransactionAttempt(8, folder.manifest(8).attempt_id))
    assert numbers(handover) == list(range(4 * opened(handover).deleted(), 32)), "what is not noted as deleted is whole"
    more(handover, state, 36)
    assert opened(handover).deleted() == 3
    assert numbers(handover) == list(range(12, 36))
    assert staged(handover) == named(handover)
    assert len(handover.storage().names("manifests")) == 6


def stopping(call: Any, calls: list[int], at: int) -> Any:
    """Return the call, interrupted before its n-th use."""

    def made(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == at:
            raise KeyboardInterrupt
        return call(*arguments)

    return made


def test_files_of_superseded_attempts_are_removed_after_the_commit(tmp_path: Path) -> None:
    state, handover = tmp_path / "state.db", handover_at("local", tmp_path / "spool")
    more(handover, state, 32)
    storage = handover.storage()
    left = [str(StagedName(txid, 5, 0, 1, 0)) for txid in (3, 8, 9, 10, 11)]
    for name in (*left, "files/notes.txt"):
        storage.create(name, b"half a file")
    more(handover, state, 40)
    assert staged(handover) - named(handover) == {left[4], "files/notes.txt"}, "no manifest of txid 11 is there"
    more(handover, state, 44)
    assert staged(handover) - named(handover) == {"files/notes.txt"}
    assert numbers(handover) == list(range(44))


def test_files_of_a_batch_committed_without_rows_are_removed(tmp_path: Path) -> None:
    """Between two attempts a source may define an unreported batch anew: the files of the first attempt have no manifest."""
    state, handover = tmp_path / "state.db", handover_at("local", tmp_path / "spool")
    more(handover, state, 4)
    storage, last = handover.storage(), TransactionAttempt(2, 9)
    storage.create(str(StagedName(2, 5, 0, 1, 0)), b"half a file")
    writer = ManifestWriter(storage, Handover.open(tmp_path / "spool").contract)
    assert writer.write_manifest(Manifest(*last, time_ms=0))
    tidied = Retention(writer.handover, (), 1)
    tidied.apply_after(last)
    assert staged(handover) == named(handover)
    assert numbers(handover) == list(range(4))


def test_a_failed_deletion_fails_no_batch_and_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handover = handover_at("local", tmp_path / "spool", consumers=("a",))

    def fails(*_: Any) -> int:
        raise StorageUnavailable("the storage does not answer")

    monkeypatch.setattr(retention, "deletable_txid", fails)
    monkeypatch.setattr("spark_bridge.writer.manifest_committer.RETENTION_PERIOD_SECS", 0.0)
    finished = run_hand_over(handover, pending=1)
    assert not finished.errors
    told = [record for record in caplog.records if "Old batches are not deleted for now" in record.getMessage()]
    assert len(told) == 1
