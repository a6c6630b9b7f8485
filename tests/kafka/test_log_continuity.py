"""Answers to fetches that continue another log, with a fake client (KS-15)."""

import asyncio
import struct
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka import errors

from engine.kafka.client.log_continuity import LogContinuity
from engine.kafka.client.partition import LogMark, PartitionId
from engine.kernel import leader_epochs
from engine.testing import run_virtual
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
    """Fake client. Answers where an epoch ends, and counts the questions. new_ids: the ids of topics that the next lookup finds."""

    def __init__(self, end: int | None = 10, new_ids: dict[str, bytes] | None = None) -> None:
        self.end, self.asked, self.lookups, self.new_ids = end, 0, 0, new_ids
        leader = lambda at: 1  # noqa: E731 - short
        self.cluster = SimpleNamespace(topic_ids={"lines": TOPIC_ID}, leader_epochs={HERE: 5}, leader_for_partition=leader)

    async def send(self, node_id: int, request: Any) -> Any:
        self.asked += 1
        if self.end is None:
            raise errors.NodeNotReadyError("down")
        return SimpleNamespace(topics=[("lines", [(0, 0, 5, self.end)])])

    async def force_metadata_update(self) -> bool:
        self.lookups += 1
        self.cluster.topic_ids = self.new_ids or self.cluster.topic_ids
        return self.end is not None


async def checked(client: Client, mark: LogMark | None, batches: bytes, *answers: bytes) -> tuple[int, LogMark | None]:
    """Return the error of the last answer, and the mark after it. Reading begins at offset 10."""
    position, code = 10, -1
    continuity = LogContinuity(client, lambda partition: position)
    continuity.begin(HERE, 10, mark)
    for one in (batches, *answers):
        answer = SimpleNamespace(topics=[("lines", [(0, 0, 99, one)])])
        await continuity.check(SimpleNamespace(topics=[("lines", [(0, position, 1)])]), answer, asyncio.get_running_loop().time())
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


@pytest.mark.parametrize(
    ("pause_secs", "error", "code"),
    [
        pytest.param(5, 0, CUT, id="after a pause"),
        pytest.param(0, errors.UnknownTopicOrPartitionError.errno, CUT, id="after an error"),
        pytest.param(0, 0, 0, id="without a pause"),
    ],
)
def test_a_topic_that_is_created_again_between_two_fetches_is_noticed(pause_secs: float, error: int, code: int) -> None:
    """Given a partition that is not fetched for a while, as while it is full, then no fetch fails that would refresh the topic ids."""

    async def main() -> tuple[int, int]:
        client, now = Client(), asyncio.get_running_loop().time
        continuity = LogContinuity(client, lambda partition: 10)
        continuity.begin(HERE, 10, LogMark(TOPIC_ID, 5))
        request = SimpleNamespace(topics=[("lines", [(0, 10, 1)])])
        answers = [SimpleNamespace(topics=[("lines", [(0, code, 99, batches)])]) for code, batches in ((0, b""), (error, b""))]
        for answer in answers:
            await continuity.check(request, answer, now())
        await asyncio.sleep(pause_secs)
        client.new_ids = {"lines": OTHER_ID}
        sent_at, last = now(), SimpleNamespace(topics=[("lines", [(0, 0, 99, batch(10, 3, 5))])])
        await asyncio.sleep(0.5)  # the broker waits for records
        await continuity.check(request, last, sent_at)
        [(_, [(_, found, *_)])] = last.topics
        return found, client.lookups

    assert run_virtual(main) == (code, 2 if code else 1)


async def test_brokers_without_topic_ids_are_believed() -> None:
    client = Client(end=0)
    client.cluster.topic_ids = {}
    assert await checked(client, None, batch(10, 3, 5), batch(13, 3, 7)) == (0, None)
