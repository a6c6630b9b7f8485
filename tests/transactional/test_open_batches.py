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
