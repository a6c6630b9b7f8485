"""Definition of batches from the reports of the emitters: begin of each partition, saved metadata, and checks of replays (TX-7, TX-9)."""

import random
from typing import Any

import pytest

from engine.errors import EngineBug, FatalError
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.open_batches import UNPARTITIONED, OpenBatches, PartitionOutput, Record
from engine.transactional.transactional_state import entries_of, record_of


def attempt(txid: int, attempt_id: int = 1) -> TransactionAttempt:
    return TransactionAttempt(txid, attempt_id)


def open_batches(*, emitters: int = 1, replays_differ: bool = False, record: Record | None = None, partitioned: bool = True) -> OpenBatches:
    return OpenBatches(record or Record(), emitters=emitters, replays_differ=replays_differ, partitioned=partitioned)


def processed(batches: OpenBatches, txid: int, shares: dict[int | str, PartitionOutput], attempt_id: int = 1) -> None:
    """Let one emitter report these outputs of a txid, then process the batch."""
    batches.begin_attempt(attempt(txid, attempt_id))
    batches.note_output(txid, 1, shares)
    batches.define_batch(txid)


@pytest.mark.guarantee("TX-7")
def test_a_batch_begins_at_the_end_of_the_one_before_once_all_emitters_have_reported() -> None:
    batches = open_batches(emitters=2)
    for txid in (1, 2):
        batches.begin_batch(txid, ["a", "b"])
    assert batches.begin_attempt(attempt(1)).positions == {}
    batches.note_output(1, 7, {"a": PartitionOutput(10, 5, 1)})
    request = batches.begin_attempt(attempt(2))
    assert (request.positions, request.awaited) == ({"a": 10}, {"b": attempt(1)})
    batches.note_output(1, 8, {"b": PartitionOutput(20, 5, 1)})

    request = batches.begin_attempt(attempt(2))

    assert (request.positions, request.awaited, request.committed, request.metadata) == ({"a": 10, "b": 20}, {}, 0, ["a", "b"])


@pytest.mark.guarantee("TX-7")
def test_a_new_attempt_has_no_outputs_of_the_old_one() -> None:
    batches = open_batches(replays_differ=True)
    for txid in (1, 2):
        batches.begin_batch(txid, ["a"])
    processed(batches, 1, {"a": PartitionOutput(10, 5, 1)})
    assert batches.begin_attempt(attempt(2)).positions == {"a": 10}

    batches.begin_attempt(attempt(1, 2))

    assert (batches.begin_attempt(attempt(2, 3)).positions, batches.begin_attempt(attempt(2, 4)).awaited) == ({}, {"a": attempt(1, 2)})
    assert batches.positions == {"a": 10}, "the source gets the known positions"


@pytest.mark.guarantee("TX-7")
def test_a_partition_that_a_batch_skips_continues_from_its_newest_batch() -> None:
    batches = open_batches()
    for txid, shares in ((1, {"a": PartitionOutput(10, 1, 1), "b": PartitionOutput(5, 1, 1)}), (2, {"b": PartitionOutput(6, 1, 1)})):
        batches.begin_batch(txid, list(shares))
        processed(batches, txid, dict(shares))
    batches.note_commit(1)
    batches.begin_batch(3, ["a", "b"])

    assert batches.begin_attempt(attempt(3)).positions == {"a": 10, "b": 6}
    batches.note_commit(2)
    assert batches.committed_record == Record(2, ["b"], {"a": 10, "b": 6})


@pytest.mark.guarantee("TX-7")
@pytest.mark.parametrize("replays_differ", [False, True])
def test_a_replay_gets_its_metadata_unless_the_spout_is_opaque(replays_differ: bool) -> None:
    batches = open_batches(replays_differ=replays_differ)
    batches.begin_batch(1, ["a"])
    processed(batches, 1, {"a": PartitionOutput(10, 5, 1)})

    assert batches.begin_attempt(attempt(1, 2)).replay_metadata == ({} if replays_differ else {"a": 10})


@pytest.mark.guarantee("TX-7")
@pytest.mark.parametrize(
    ("again", "words"),
    [
        ({"a": PartitionOutput(10, 4, 1)}, "5 tuples the first time, now 4"),
        ({"a": PartitionOutput(10, 5, 2)}, "5 tuples the first time, now 5, others"),
        ({"b": PartitionOutput(10, 5, 1)}, "5 tuples the first time, now no such partition"),
    ],
)
def test_a_replay_that_differs_ends_the_run_unless_the_spout_is_opaque(again: dict[int | str, PartitionOutput], words: str) -> None:
    batches = open_batches()
    batches.begin_batch(1, ["a"])
    processed(batches, 1, {"a": PartitionOutput(10, 5, 1)})
    with pytest.raises(FatalError, match=words):
        processed(batches, 1, again, 2)

    opaque = open_batches(replays_differ=True)
    opaque.begin_batch(1, ["a"])
    processed(opaque, 1, {"a": PartitionOutput(10, 5, 1)})
    processed(opaque, 1, again, 2)
    assert opaque.record_to_save(1).next_output == again


@pytest.mark.guarantee("TX-7")
def test_without_a_digest_only_the_counts_are_compared() -> None:
    batches = open_batches(partitioned=False)
    batches.begin_batch(1, None)
    processed(batches, 1, {UNPARTITIONED: PartitionOutput(None, 5, None)})
    processed(batches, 1, {UNPARTITIONED: PartitionOutput(None, 5, 3)}, 2)
    with pytest.raises(FatalError, match="txid 1 was emitted again"):
        processed(batches, 1, {UNPARTITIONED: PartitionOutput(None, 6, None)}, 3)


@pytest.mark.guarantee("TX-7")
def test_outputs_of_several_tasks_in_one_batch_are_merged_in_any_order() -> None:
    batches = open_batches(emitters=2, partitioned=False)
    batches.begin_batch(1, 9)
    for attempt_id, told in enumerate([((1, 3, 10), (2, 4, 2**64 - 1)), ((2, 7, 9), (1, 0, 0))], 1):
        batches.begin_attempt(attempt(1, attempt_id))
        for task, tuples, digest in told:
            batches.note_output(1, task, {UNPARTITIONED: PartitionOutput(None, tuples, digest)})
        batches.define_batch(1)

    assert batches.record_to_save(1).next_output == {UNPARTITIONED: PartitionOutput(None, 7, 9)}
    batches.note_commit(1)
    assert batches.committed_record == Record(1, 9, {})


def test_a_batch_is_processed_after_all_emitters_have_reported_and_no_txid_is_skipped() -> None:
    batches = open_batches(emitters=2)
    batches.begin_batch(1, ["a"])
    batches.note_output(1, 1, {"a": PartitionOutput(1, 1, 1)})
    with pytest.raises(EngineBug, match="before all its emitters have replied"):
        batches.define_batch(1)
    with pytest.raises(EngineBug, match="left out"):
        batches.begin_batch(3, ["a"])


@pytest.mark.guarantee("TX-9")
@pytest.mark.parametrize("replays_differ", [False, True])
def test_the_next_run_begins_with_the_txid_whose_commit_phase_had_begun(replays_differ: bool) -> None:
    batches = open_batches(replays_differ=replays_differ)
    for txid in (1, 2):
        batches.begin_batch(txid, ["a"])
        processed(batches, txid, {"a": PartitionOutput([txid], txid, 2**64 - txid)})
    batches.note_commit(1)
    record = batches.record_to_save(2)

    read = record_of(entries_of(record, partitioned=True), "t", partitioned=True)

    assert read == record
    again = open_batches(replays_differ=replays_differ, record=read)
    assert again.begin_stored_batch(2)
    request = again.begin_attempt(attempt(2, 9))
    assert (request.metadata, request.committed, request.positions) == (["a"], 1, {"a": [1]})
    assert request.replay_metadata == ({} if replays_differ else {"a": [2]})
    assert not again.begin_stored_batch(3)


@pytest.mark.guarantee("TX-9")
def test_after_a_restart_a_txid_before_its_commit_phase_is_defined_again() -> None:
    assert not open_batches(record=Record(4, [], {})).begin_stored_batch(5)
    assert not open_batches(record=Record(4, [], {}, ["a"], {})).begin_stored_batch(6)
    assert open_batches(record=Record(4, [], {}, ["a"], {})).begin_stored_batch(5)


@pytest.mark.guarantee("TX-7")
def test_after_a_restart_the_end_of_an_opaque_batch_in_doubt_is_unknown() -> None:
    batches = open_batches(replays_differ=True, record=Record(1, ["a"], {"a": 10}, ["a"], {"a": PartitionOutput(20, 5, 1)}))
    batches.begin_stored_batch(2)
    assert batches.positions == {"a": 10}


@pytest.mark.guarantee("TX-9")
def test_a_forgotten_partition_is_kept_while_an_open_batch_has_it() -> None:
    batches = open_batches()
    for txid in (1, 2):
        batches.begin_batch(txid, ["a"])
        processed(batches, txid, {"a": PartitionOutput(10 * txid, 5, 1)})
    batches.note_commit(1)
    batches.forget_positions(["a"])
    assert batches.committed_record.positions == {"a": 10}
    batches.note_commit(2)
    batches.forget_positions(["a"])
    assert batches.committed_record.positions == {}


@pytest.mark.guarantee("TX-7", "TX-9")
@pytest.mark.parametrize("seed", range(40))
def test_in_any_sequence_positions_equal_those_of_a_list_of_all_batches(seed: int) -> None:
    """Compares with a list of all batches, in which the begin of a batch is found by going back."""
    draws = random.Random(seed)
    replays_differ, most_open = draws.random() < 0.5, draws.randint(1, 6)
    batches = open_batches(replays_differ=replays_differ)
    lists: list[list[str]] = []
    live: list[TransactionAttempt] = []
    ended: list[dict[str, Any]] = []
    told: list[bool] = []
    committed = 0

    def before(txid: int, partition: str) -> int | None:
        """Index of the newest batch before a txid that has the partition."""
        return next((place for place in reversed(range(txid - 1)) if partition in lists[place]), None)

    for number in range(400):
        if len(lists) - committed < most_open and draws.random() < 0.4:
            lists.append(draws.sample("abc", draws.randint(0, 3)))
            batches.begin_batch(len(lists), lists[-1])
            live.append(attempt(len(lists), number))
            batches.begin_attempt(live[-1])
            ended.append({})
            told.append(False)
        if len(lists) == committed:
            continue
        txid = draws.randint(committed + 1, len(lists))
        live[txid - 1], told[txid - 1] = attempt(txid, 1000 + number), False
        request = batches.begin_attempt(live[txid - 1])
        places = {partition: before(txid, partition) for partition in request.metadata}
        known = {partition: place for partition, place in places.items() if place is not None}
        assert request.positions == {partition: ended[place][partition] for partition, place in known.items() if told[place]}
        assert request.awaited == {partition: live[place] for partition, place in known.items() if not told[place]}
        if request.awaited or draws.random() < 0.2:
            continue
        earlier = ended[txid - 1]
        assert request.replay_metadata == ({} if replays_differ else earlier)
        emitted = earlier if earlier and not replays_differ else {partition: [txid, number] for partition in request.metadata}
        batches.note_output(txid, 1, {partition: PartitionOutput(end, 1, 1) for partition, end in emitted.items()})
        batches.define_batch(txid)
        ended[txid - 1], told[txid - 1] = emitted, True
        if told[committed] and draws.random() < 0.5:
            record = batches.record_to_save(committed + 1)
            assert {p: share.metadata for p, share in (record.next_output or {}).items()} == ended[committed]
            committed += 1
            batches.note_commit(committed)
            ends = {partition: end for each in ended[:committed] for partition, end in each.items()}
            assert dict(batches.committed_record.positions) == ends
    assert committed
