"""`Handover` finds the newest txid and its manifests, and says why one is missing (SP-2, SP-3)."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_bridge.handover import (
    Contract,
    ForeignFile,
    Handover,
    HandoverError,
    Manifest,
    NewerFormat,
    Position,
    Storage,
    TornFile,
    TransactionDeleted,
    TransactionMissing,
    schema_of,
    storage_at,
)
from spark_bridge.handover.contract import read_contract
from spark_bridge.handover.handover import mark_deleted
from spark_bridge.handover.names import EPOCH_SIZE, FOLDERS, ManifestName
from tests.spark_bridge.handover.places import EXCLUSIVE, KINDS, place_at

pytestmark = pytest.mark.guarantee("SP-2", "SP-3")

SCHEMA = schema_of("host string not null, status int")


class Folder:
    """A hand-over folder in the engine's format, written without the engine."""

    def __init__(self, kind: str, path: Path) -> None:
        self.place = place_at(kind, path)
        self.storage: Storage = storage_at(**self.place)
        self.by_attempt = not EXCLUSIVE[kind]
        for folder in ("", *FOLDERS):
            self.storage.make_folder(folder)
        self.contract = Contract("t", "spark", SCHEMA, "by attempt" if self.by_attempt else "exclusive")
        self.storage.create("contract.json", self.contract.encoded())

    def open(self) -> Handover:
        return Handover.open(**self.place)

    def add(self, txid: int, number: int = 1) -> Manifest:
        manifest = Manifest(txid, EPOCH_SIZE + number, 1000 * txid)
        assert self.storage.create(str(manifest.name(by_attempt=self.by_attempt)), manifest.encoded())
        return manifest

    def path(self, txid: int) -> str:
        return str(ManifestName(txid, EPOCH_SIZE + 1 if self.by_attempt else None))


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    return Folder(request.param, tmp_path)


def test_the_contract_names_the_writer_and_the_schema(folder: Folder) -> None:
    assert folder.open().contract == folder.contract
    assert folder.open().contract.by_attempt is folder.by_attempt


def test_a_folder_without_a_contract_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HandoverError, match=r"is not a hand-over folder: it has no contract.json") as caught:
        Handover.open(tmp_path)
    assert "Start the topology" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_the_newest_txid_is_found_and_never_decreases(folder: Folder) -> None:
    handover = folder.open()
    assert handover.newest() == 0
    manifests = [folder.add(txid) for txid in range(1, 6)]
    assert handover.newest() == 5
    assert folder.open().newest() == 5
    assert folder.open().newest(known=3) == 5
    assert [handover.manifest(txid) for txid in range(1, 6)] == manifests
    mark_deleted(folder.storage, 5)
    for txid in range(1, 6):
        folder.storage.remove(folder.path(txid))
    assert handover.newest() == 5
    assert folder.open().newest() == 5, "though no manifest is left"
    folder.add(6)
    assert handover.newest() == folder.open().newest() == 6


def test_a_slow_reader_finds_the_newest_txid_after_deletions(folder: Folder) -> None:
    handover = folder.open()
    folder.add(1)
    assert handover.newest() == 1

    for txid in (2, 3, 4):
        folder.add(txid)
    mark_deleted(folder.storage, 3)
    for txid in (1, 2, 3):
        folder.storage.remove(folder.path(txid))

    assert handover.newest() == 4
    assert folder.open().newest(known=1) == 4


def test_the_newest_txid_is_found_without_a_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder("local", tmp_path)
    for txid in range(1, 4):
        folder.add(txid)
    handover = folder.open()
    assert handover.newest() == 3
    monkeypatch.setattr(handover.storage, "names", lambda _: pytest.fail("listed again"))
    folder.add(4)
    assert handover.newest() == 4
    assert handover.newest() == 4


def test_the_error_of_a_missing_txid_says_why(folder: Folder) -> None:
    for txid in range(1, 6):
        folder.add(txid)
    mark_deleted(folder.storage, 2)
    for txid in (1, 2, 4):
        folder.storage.remove(folder.path(txid))
    handover = folder.open()
    with pytest.raises(TransactionDeleted, match="txid 1 is deleted, like all up to 2") as caught:
        handover.manifest(1)
    assert "Begin at txid 3" in str(caught.value)
    with pytest.raises(TransactionMissing, match=r"the manifest of txid 4 is missing, and 'manifests/0*5(-\S+)?.json' is there"):
        handover.manifest(4)
    with pytest.raises(TransactionMissing, match="the manifest of txid 4 is missing"):
        handover.check_unbroken(0, 5)
    handover.check_unbroken(4, 5)
    handover.check_unbroken(0, 3)
    with pytest.raises(TransactionMissing, match="txid 6 is not committed yet: the newest is 5"):
        handover.manifest(6)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b'{"format": "stormcell-handover", "ver', TornFile),
        (b"", TornFile),
        (b'{"version": 1}', ForeignFile),
        (b'{"format": "stormcell-handover", "version": 3}', NewerFormat),
    ],
)
def test_the_error_of_a_wrong_manifest_names_its_txid(folder: Folder, content: bytes, error: type[HandoverError]) -> None:
    folder.add(1)
    folder.storage.replace(folder.path(1), content)
    with pytest.raises(error, match="of txid 1 is"):
        folder.open().manifest(1)


def test_the_planned_attempt_is_read(folder: Folder) -> None:
    folder.add(7, 3)
    if folder.by_attempt:
        folder.add(7, 9)
        assert folder.open().manifest(7).attempt_id == EPOCH_SIZE + 9
        with pytest.raises(TransactionMissing, match=r"the manifest of 7 \(attempt 1\.4\) is missing"):
            folder.open().manifest(7, EPOCH_SIZE + 4)
    else:
        with pytest.raises(HandoverError, match=r"names 7 \(attempt 1\.3\), but the consumer has planned 7 \(attempt 1\.4\)"):
            folder.open().manifest(7, EPOCH_SIZE + 4)
    assert folder.open().manifest(7, EPOCH_SIZE + 3).attempt_id == EPOCH_SIZE + 3


def test_consumers_are_listed_by_name(folder: Folder) -> None:
    handover = folder.open()
    handover.consumer("b").plan(3)
    handover.consumer("a").commit(2)
    assert handover.consumers() == {"a": Position(2, 2), "b": Position(3)}


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"component": "else"}, "is written by component 'spark' of topology 't', and now by 'else' of 't'"),
    ({"topology": "u"}, "is written by component 'spark' of topology 't', and now by 'spark' of 'u'"),
    (
        {"schema": schema_of("host string")},
        r"has the schema \(`host` .*`status` int\), and this topology declares \(`host` string\)",
    ),
    ({"manifests": "by attempt"}, "needs a storage that can create files exclusively"),
]


@pytest.mark.parametrize(("changes", "text"), OTHERS)
def test_the_error_of_another_writer_names_both(changes: dict[str, Any], text: str) -> None:
    fields = {"topology": "t", "component": "spark", "schema": SCHEMA, "manifests": "exclusive"}
    Contract(**fields).check_same_writer(Contract(**fields), "/x")
    with pytest.raises(HandoverError, match=text):
        Contract(**fields).check_same_writer(Contract(**{**fields, **changes}), "/x")


@pytest.mark.parametrize("content", [b"{", b"{}", b'{"format": "stormcell-handover", "version": 2}'])
def test_a_wrong_contract_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = Folder("local", tmp_path)
    folder.storage.replace("contract.json", content)
    with pytest.raises(HandoverError, match=r"'contract.json' is"):
        read_contract(folder.storage)


def test_the_contract_keeps_the_exact_schema(tmp_path: Path) -> None:
    schema = schema_of(pa.schema([pa.field("m", pa.map_(pa.string(), pa.list_(pa.decimal128(9, 2)))), ("t", pa.timestamp("us"))]))
    folder = Folder("local", tmp_path)
    folder.storage.replace("contract.json", Contract("t", "c", schema, "exclusive").encoded())
    assert folder.open().contract.schema.equals(schema)
