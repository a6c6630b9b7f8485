"""The definition of a batch, without a run (TX-7)."""

import pytest

from engine.errors import FatalError
from engine.transactional import TransactionAttempt
from engine.transactional.open_batches import OpenBatches, PartitionOutput, Record


@pytest.mark.guarantee("TX-7")
def test_a_replay_that_differs_and_fails_does_not_change_the_definition() -> None:
    batches = OpenBatches(Record(), emitters=1, replays_differ=False, partitioned=True)
    batches.begin_batch(1, ["p"])
    for attempt_id, tuples in ((1, 5), (2, 4), (3, 4)):
        batches.begin_attempt(TransactionAttempt(1, attempt_id))
        batches.note_output(1, 7, {"p": PartitionOutput("up to 5", tuples, None)})
        if attempt_id == 1:
            batches.define_batch(1)  # the second attempt fails before it is processed
    with pytest.raises(FatalError, match="5 tuples the first time, now 4"):
        batches.define_batch(1)


@pytest.mark.guarantee("TX-7")
def test_a_later_batch_that_replied_first_is_not_replayed_behind_another_end() -> None:
    batches = OpenBatches(Record(), emitters=1, replays_differ=False, partitioned=True)
    for txid in (1, 2):
        batches.begin_batch(txid, ["p", "q"])
        batches.begin_attempt(TransactionAttempt(txid, txid))
    batches.note_output(2, 7, {"p": PartitionOutput([2, 3], 1, None), "q": PartitionOutput([8, 9], 1, None)})  # jobs run side by side
    batches.note_output(1, 7, {"q": PartitionOutput([0, 8], 8, None)})

    first = batches.begin_attempt(TransactionAttempt(1, 3))
    second = batches.begin_attempt(TransactionAttempt(2, 4))

    assert first.replay_metadata == {"q": [0, 8]}
    assert second.replay_metadata == {"q": [8, 9]}
