"""The two txids of a consumer only grow, and a planned attempt is remembered until it is committed (SP-3)."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge.handover import Consumer, HandoverError, Position, TornFile
from spark_bridge.handover.checked_json import encode
from spark_bridge.handover.consumers import encode_position, read_position, read_positions
from tests.spark_bridge.handover.places import KINDS, storage_of
from tests.spark_bridge.writing import Writer

pytestmark = pytest.mark.guarantee("SP-3")

CALLS = st.lists(st.tuples(st.sampled_from(["plan", "commit"]), st.integers(0, 30)), max_size=20)


@given(CALLS, st.booleans())
def test_a_position_is_the_highest_one_requested(calls: list[tuple[str, int]], by_attempt: bool) -> None:
    position, planned, committed, attempts = Position(), 0, 0, dict[int, int]()
    for call, end in calls:
        if call == "plan":
            new = {txid: txid * 10 for txid in range(position.planned + 1, end + 1)} if by_attempt else {}
            position = position.plan(end, new)
            attempts |= new
            planned = max(planned, end)
        else:
            position = position.commit(end)
            planned, committed = max(planned, end), max(committed, end)
        kept = {txid: attempt for txid, attempt in attempts.items() if txid > committed}
        assert position == Position(planned, committed, kept)
        assert read_position(encode_position("a", position), "x", "a") == position


def test_another_attempt_of_a_planned_txid_is_refused() -> None:
    position = Position().plan(3, {3: 2**32 + 5})
    assert position.plan(4, {3: 2**32 + 5, 4: 2**32 + 6}).attempts == {3: 2**32 + 5, 4: 2**32 + 6}
    with pytest.raises(HandoverError, match=r"3 \(attempt 1\.5\) is already planned, but 3 \(attempt 1\.7\) is requested"):
        position.plan(3, {3: 2**32 + 7})


@pytest.mark.parametrize("kind", KINDS)
def test_a_position_never_decreases(kind: str, tmp_path: Path) -> None:
    storage = storage_of(kind, tmp_path)
    storage.make_folder("consumers")
    consumer = Consumer(storage, "per-minute")
    assert consumer.read() == Position()
    assert read_positions(storage) == {}
    assert consumer.plan(0) == Position()
    assert read_positions(storage) == {"per-minute": Position()}
    consumer.plan(5, {5: 7})
    assert consumer.plan(3) == Position(5, 0, {5: 7})
    consumer.commit(4)
    assert consumer.commit(2) == Position(5, 4, {5: 7})
    assert Consumer(storage, "per-minute").read() == Position(5, 4, {5: 7})
    assert storage.names("consumers") == ["per-minute.json"]
    consumer.remove()
    assert consumer.read() == Position()


@pytest.mark.parametrize("kind", KINDS)
def test_adding_a_consumer_again_keeps_its_position(kind: str, tmp_path: Path) -> None:
    storage = storage_of(kind, tmp_path)
    consumer = Consumer(storage, "a")
    assert consumer.add() == Position()
    consumer.plan(7)
    assert consumer.add() == Position(7)


def test_foreign_files_in_the_folder_are_ignored(tmp_path: Path) -> None:
    storage = storage_of("local", tmp_path)
    storage.make_folder("consumers")
    for name in (".a.json.host-1-2.tmp", "notes.txt", "b c.json"):
        storage.create(f"consumers/{name}", b"x")
    order = ["b", "a", "c"]
    random.Random(7).shuffle(order)
    for name in order:
        Consumer(storage, name).plan(1)
    assert list(read_positions(storage)) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["damaged", "empty", "of another", "of numbers that are none"])
def test_a_damaged_consumer_names_its_repair_and_does_not_affect_others(kind: str, tmp_path: Path) -> None:
    folder = Writer(tmp_path, consumers=["a", "b"])
    fields = {"name": "b", "planned": "7", "committed": None, "attempts": {}, "began": []}
    content = {
        "damaged": b'{"format": "stormcell-handover", "kind"',
        "empty": b"",
        "of another": encode_position("a", Position(7)),
        "of numbers that are none": encode("consumer", fields),
    }
    folder.storage.replace("consumers/b.json", content[kind])
    with pytest.raises(TornFile, match=r"'consumers/b.json' is damaged: ") as raised:
        folder.handover.consumer("b").read()
    assert f"python -m spark_bridge consumers {folder.folder} repair b --checkpoint PATH" in str(raised.value)
    assert folder.handover.consumer("a").read() == Position()
    assert folder.handover.consumer_names() == ["a", "b"]


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    storage = storage_of("local", tmp_path)
    Consumer(storage, "a").add()
    storage.replace("consumers/a.json", b'{"format": "stormc')
    with pytest.raises(TornFile, match=r"'consumers/a.json' is damaged"):
        read_positions(storage)
