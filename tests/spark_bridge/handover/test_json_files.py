"""Damaged, foreign and newer JSON files of a folder get different errors (SP-2)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge.handover import ForeignFile, Manifest, NewerFormat, StagedFile, TornFile
from spark_bridge.handover.checked_json import decode, encode
from spark_bridge.handover.manifest import read_manifest
from spark_bridge.handover.names import EPOCH_SIZE, ManifestName, StagedName

pytestmark = pytest.mark.guarantee("SP-2")

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.sampled_from(["a", "b", "txid", "é"]), VALUES)
TASKS = st.integers(0, 100)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    txid, attempt_id = draw(st.integers(1, 10**9)), draw(st.integers(EPOCH_SIZE, 2**60))
    names = st.builds(StagedName, st.just(txid), st.just(attempt_id), TASKS, TASKS, TASKS, st.sampled_from(["files", "rejects"])).map(str)
    digests = st.none() | st.text("0123456789abcdef", min_size=32, max_size=32)
    files = st.lists(st.builds(StagedFile, names, st.integers(0, 10**9), st.integers(0, 10**12), digests)).map(tuple)
    return Manifest(txid, attempt_id, draw(st.integers(0, 2**45)), draw(files), draw(files))


MANIFESTS = manifests()


@given(FIELDS)
def test_a_written_value_is_read(fields: dict[str, Any]) -> None:
    assert decode(encode("manifest", fields), "manifest", "x") == fields


@given(MANIFESTS, st.booleans())
def test_a_manifest_is_read_as_it_was_written(manifest: Manifest, by_attempt: bool) -> None:
    assert read_manifest(manifest.encoded(), "x", manifest.name(by_attempt=by_attempt)) == manifest


@given(MANIFESTS, st.data())
def test_no_part_of_a_manifest_is_accepted(manifest: Manifest, data: st.DataObject) -> None:
    content = manifest.encoded().rstrip()
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(TornFile, match="manifest 7 is damaged"):
        read_manifest(content[:cut], "manifest 7", manifest.name(by_attempt=False))


@given(FIELDS, st.data())
def test_a_changed_byte_is_detected(fields: dict[str, Any], data: st.DataObject) -> None:
    content = encode("manifest", fields)
    at = data.draw(st.integers(0, len(content) - 1))
    changed = content[:at] + bytes([content[at] ^ data.draw(st.sampled_from([1, 2, 4, 8, 16, 32]))]) + content[at + 1 :]
    try:
        found = decode(changed, "manifest", "x")
    except (TornFile, ForeignFile, NewerFormat):
        return
    assert found == fields, "white space, at most"


@pytest.mark.parametrize("content", [b"[]", b"7", b"{}", b'{"format": "delta"}', b'"stormcell-handover"'])
def test_other_content_is_foreign(content: bytes) -> None:
    with pytest.raises(ForeignFile, match="x is not a file of stormcell-handover"):
        decode(content, "manifest", "x")


def test_a_file_of_another_kind_is_foreign() -> None:
    with pytest.raises(ForeignFile, match="x is a consumer, not a manifest"):
        decode(encode("consumer", {}), "manifest", "x")


def test_a_newer_version_is_refused_whatever_its_content() -> None:
    content = json.dumps({"format": "stormcell-handover", "version": 2, "signature": "?"}).encode()
    with pytest.raises(NewerFormat, match="is of version 2 of stormcell-handover, and this program reads up to version 1") as caught:
        decode(content, "manifest", "x")
    assert "Update stormcell" in str(caught.value)


@pytest.mark.parametrize("name", [ManifestName(8), ManifestName(7, EPOCH_SIZE + 2)])
def test_a_manifest_under_another_name_is_refused(name: ManifestName) -> None:
    with pytest.raises(TornFile, match="has the manifest of txid 7, whose txid or attempt does not fit the file name"):
        read_manifest(Manifest(7, EPOCH_SIZE + 1, 0).encoded(), "x", name)


@pytest.mark.parametrize("fields", [{}, {"txid": 7, "attempt": 1, "time_ms": 0, "rows": 1, "files": [], "rejects": []}, {"files": 7}])
def test_an_incomplete_manifest_is_torn(fields: dict[str, Any]) -> None:
    with pytest.raises(TornFile):
        read_manifest(encode("manifest", fields), "x", ManifestName(7))
