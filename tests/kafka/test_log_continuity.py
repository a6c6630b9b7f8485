"""Answers to fetches that continue another log, with a fake client (KS-15)."""

import struct
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka import errors

from engine.kafka.client.log_continuity import LogContinuity
from engine.kafka.client.partition import LogMark, PartitionId
from engine.kernel import leader_epochs
from tests.kafka.test_compiled_fetch import batch_of, old_batch

pytestmark = pytest.mark.guarantee("KS-15")

HERE: Final = PartitionId("lines", 0)
TOPIC_ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))
CUT: Final = errors.OffsetOutOfRangeError.errno
AGAIN: Final = errors.NotLeaderForPartitionError.errno


def batch(base: int, records: int, epoch: int) -> bytes:
    made = bytearray(batch_of(base, list(range(records))))
    struct.pack_into(">i", made, 12, epoch)
    return bytes(made)


class Client:
    """Fake client. Answers where an epoch ends, and counts the questions."""

    def __init__(self, end: int | None = 10) -> None:
        self.end, self.asked = end, 0
        leader = lambda at: 1  # noqa: E731 - short
        self.cluster = SimpleNamespace(topic_ids={"lines": TOPIC_ID}, leader_epochs={HERE: 5}, leader_for_partition=leader)

    async def send(self, node_id: int, request: Any) -> Any:
        self.asked += 1
        if self.end is None:
            raise errors.NodeNotReadyError("down")
        return SimpleNamespace(topics=[("lines", [(0, 0, 5, self.end)])])


async def checked(client: Client, mark: LogMark | None, batches: bytes, *answers: bytes) -> tuple[int, LogMark | None]:
    """Return the error of the last answer, and the mark after it. Reading begins at offset 10."""
    position, code = 10, -1
    continuity = LogContinuity(client, lambda partition: position)
    continuity.begin(HERE, 10, mark)
    for one in (batches, *answers):
        answer = SimpleNamespace(topics=[("lines", [(0, 0, 99, one)])])
        await continuity.check(SimpleNamespace(topics=[("lines", [(0, position, 1)])]), answer)
        [(_, [(_, code, *_)])] = answer.topics
        position = max(position, leader_epochs(one)[2])
    return code, continuity.mark_at(HERE, position)


def test_epochs_of_batches() -> None:
    assert leader_epochs(b"") == (-1, -1, -1)
    assert leader_epochs(batch(10, 3, 5)) == (5, 5, 13)
    assert leader_epochs(batch(10, 3, 5) + batch(13, 1, 7) + batch(14, 9, 8)[:-1]) == (5, 7, 14)
    assert leader_epochs(old_batch(10, 3, magic=1)) == (-1, -1, -1)


async def test_records_of_the_same_epoch_and_leader_need_one_question() -> None:
    client = Client()
    found = await checked(client, LogMark(TOPIC_ID, 5), batch(10, 3, 5), batch(13, 3, 5), b"", batch(16, 3, 5))
    assert (found, client.asked) == ((0, LogMark(TOPIC_ID, 5)), 1)


async def test_a_position_without_an_epoch_learns_it_from_the_records() -> None:
    client = Client()
    assert await checked(client, None, batch(10, 3, 5)) == (0, LogMark(TOPIC_ID, 5))
    assert client.asked == 0


@pytest.mark.parametrize(("end", "code"), [(10, 0), (9, CUT), (-1, CUT), (None, AGAIN)])
async def test_records_of_another_epoch_are_handed_out_if_the_known_one_ends_behind_the_position(end: int | None, code: int) -> None:
    found, mark = await checked(Client(end), LogMark(TOPIC_ID, 4), batch(10, 3, 5))
    assert found == code
    assert code != 0 or mark == LogMark(TOPIC_ID, 5)


async def test_an_answer_without_records_tells_of_a_new_leader() -> None:
    assert (await checked(Client(end=9), LogMark(TOPIC_ID, 4), b""))[0] == CUT


async def test_records_of_a_topic_with_another_id_are_not_handed_out() -> None:
    client = Client()
    assert (await checked(client, LogMark(OTHER_ID, 5), batch(10, 3, 5)))[0] == CUT
    assert client.asked == 0


async def test_brokers_without_topic_ids_are_believed() -> None:
    client = Client(end=0)
    client.cluster.topic_ids = {}
    assert await checked(client, None, batch(10, 3, 5), batch(13, 3, 7)) == (0, None)
