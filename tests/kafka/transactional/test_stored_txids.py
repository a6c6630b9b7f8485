"""Decisions by stored txids, without a broker: write, skip or refuse (TX-8)."""

import itertools
from typing import Any

import pytest

from engine.errors import ConfigError, FatalError
from engine.kafka.transactional import KafkaCommitterConfig
from engine.kafka.transactional.stored_txids import TxidOwner, must_write, read_stored_txid
from engine.state.rows import StoredTxid

pytestmark = pytest.mark.guarantee("TX-8")
WHOLE = {"brokers": "127.0.0.1:9092", "topic": "out"}


def judged(stored: dict[int, tuple[int, int]], txid: int, *, task: int = 0, tasks: int = 1) -> bool:
    found = {at: StoredTxid(*one) for at, one in stored.items()}
    return must_write(found, TxidOwner("words", "counts", task, tasks), txid, writes_unknown=False)


@pytest.mark.parametrize("tasks", [1, 2, 3])
@pytest.mark.parametrize("tasks_before", [1, 2, 3])
def test_after_any_partial_write_each_output_is_written_once_or_refused(tasks: int, tasks_before: int) -> None:
    """Given txid 5 from any tasks of one parallelism, then all tasks of the same or another parallelism decide."""
    for written in itertools.product((False, True), repeat=tasks_before):
        stored = {task: (5 if is_there else 4, tasks_before) for task, is_there in enumerate(written)}
        if tasks == tasks_before:
            assert [judged(stored, 5, task=task, tasks=tasks) for task in range(tasks)] == [not one for one in written]
        elif all(written) or not any(written):
            assert {judged(stored, 5, task=task, tasks=tasks) for task in range(tasks)} == {not any(written)}
        else:
            for task in range(tasks):
                with pytest.raises(FatalError, match=f"Run it once with a parallelism of {tasks_before}"):
                    judged(stored, 5, task=task, tasks=tasks)


def test_newer_txids_of_other_tasks_do_not_change_the_decision() -> None:
    assert judged({0: (5, 2), 1: (4, 3), 2: (4, 3)}, 5, task=1, tasks=2)
    assert not judged({0: (5, 2), 1: (4, 3), 2: (4, 3)}, 5, task=0, tasks=2)


def test_without_stored_txids_the_first_transaction_is_written() -> None:
    assert judged({}, 1)
    with pytest.raises(FatalError, match="transaction 2 is not the first"):
        judged({}, 2)
    assert must_write({}, TxidOwner("words", "counts", 0, 1), 2, writes_unknown=True)


def test_groups_are_distinct_and_stored_txids_are_read_back() -> None:
    names = ("a", "a:b", "b", "a-b", "a%3Ab")
    owners = [TxidOwner(topology, component, 0, 1) for topology in names for component in names]
    assert len({one.group for one in owners}) == len({one.transactional_id for one in owners}) == len(owners)
    owner = TxidOwner("words", "counts", 1, 4)
    assert read_stored_txid(owner, 17, owner.metadata) == (17, 4)
    for metadata in ("", "x", "stormcell-tx:2:1", "stormcell-tx:1:0", "stormcell-tx:1:"):
        with pytest.raises(FatalError, match="which no committer wrote"):
            read_stored_txid(owner, 17, metadata)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"topic": lambda tup: "x"}, "topic must be a name"),
        ({"topic": "a b"}, "topic 'a b' is not a valid topic name"),
        ({"keyed_by": ()}, "keyed_by must be names of fields, not ()."),
        ({"batch_bytes": 2**21}, "batch_bytes=2097152 must be at most max_record_bytes=1048576."),
        ({"key": "word"}, "key must be a function of a tuple, not 'word'. Write key=lambda tup: tup[...]."),
        ({"client": {"transactional_id": "x"}}, "client option 'transactional_id' cannot be set."),
        ({"client": {"acks": 1}}, "client option 'acks' cannot be set. Transactions need its default."),
        ({"transaction_timeout_ms": 5}, "transaction_timeout_ms"),
    ],
)
def test_each_fault_of_a_config_is_reported_with_a_fix(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KafkaCommitterConfig(**(WHOLE | values))
    assert len(caught.value.faults) == 1
    assert caught.value.faults[0].startswith(fault)


def test_keyed_by_becomes_a_tuple() -> None:
    assert KafkaCommitterConfig(**WHOLE, keyed_by="word").keyed_by == ("word",)  # type: ignore[arg-type]
    assert KafkaCommitterConfig(**WHOLE, keyed_by=["a", "b"]).keyed_by == ("a", "b")  # type: ignore[arg-type]
