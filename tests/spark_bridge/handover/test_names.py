"""A name of a file is parsed as it was built, and no other text is taken for a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge.handover import HandoverError
from spark_bridge.handover.names import EPOCH_SIZE, ManifestName, StagedName, attempt_text, consumer_file, consumer_of

pytestmark = pytest.mark.guarantee("SP-2")

TXIDS = st.integers(1, 10**15)
ATTEMPTS = st.builds(lambda epoch, number: epoch * EPOCH_SIZE + number, st.integers(1, 10**9), st.integers(1, EPOCH_SIZE - 1))
TASKS = st.integers(0, 70_000)
STAGED = st.builds(StagedName, TXIDS, ATTEMPTS, TASKS, TASKS, TASKS, st.sampled_from(["files", "rejects"]))
MANIFESTS = st.builds(ManifestName, TXIDS, st.none() | ATTEMPTS)


@given(STAGED)
def test_parses_the_name_of_a_staged_file(name: StagedName) -> None:
    assert StagedName.parse(str(name)) == name


@given(MANIFESTS)
def test_parses_the_name_of_a_manifest(name: ManifestName) -> None:
    assert ManifestName.parse(str(name).removeprefix("manifests/")) == name


@given(st.tuples(st.integers(1, 10**12 - 1), ATTEMPTS), st.tuples(st.integers(1, 10**12 - 1), ATTEMPTS))
def test_names_sort_by_attempt(one: tuple[int, int], other: tuple[int, int]) -> None:
    names = [str(StagedName(txid, attempt % (99_999_999 * EPOCH_SIZE), 0, 1, 0)) for txid, attempt in (one, other)]
    keys = [(txid, attempt % (99_999_999 * EPOCH_SIZE)) for txid, attempt in (one, other)]
    assert (names[0] < names[1]) == (keys[0] < keys[1])


@given(st.text(alphabet="0123456789-.of/parquetjsonfilesrejcm", max_size=80))
def test_other_texts_are_not_parsed(text: str) -> None:
    staged, manifest = StagedName.parse(text), ManifestName.parse(text)
    assert staged is None or str(staged) == text
    assert manifest is None or str(manifest) == f"manifests/{text}"


@pytest.mark.parametrize(
    "text",
    ["", "files/x.parquet", "files/7-1.1-0-of-1-0.parquet", "files/000000000007-00000001.9999999999-0-of-1-0.parquet",
     "files/000000000007-00000001.0000000001-00-of-1-0.parquet", "000000000007-00000001.0000000001-0-of-1-0.parquet"],
)  # fmt: skip
def test_a_nearly_correct_staged_name_is_not_parsed(text: str) -> None:
    assert StagedName.parse(text) is None


@pytest.mark.parametrize("text", ["7.json", "000000000007", ".000000000007.json.host-1-2.tmp", "000000000007-1.1.json"])
def test_a_nearly_correct_manifest_name_is_not_parsed(text: str) -> None:
    assert ManifestName.parse(text) is None


@pytest.mark.parametrize("name", ["a", "per-minute", "A.b_C-9", "x" * 100])
def test_parses_the_file_name_of_a_consumer(name: str) -> None:
    assert consumer_of(consumer_file(name).removeprefix("consumers/")) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".hidden", "x" * 101, "é", "a b", None, 7])
def test_an_invalid_consumer_name_is_refused(name: str) -> None:
    with pytest.raises(HandoverError, match="is not a valid name of a consumer"):
        consumer_file(name)


def test_an_attempt_is_printed_as_by_the_engine() -> None:
    from engine.transactional import TransactionAttempt

    assert attempt_text(7, 2 * EPOCH_SIZE + 5) == str(TransactionAttempt(7, 2 * EPOCH_SIZE + 5))
