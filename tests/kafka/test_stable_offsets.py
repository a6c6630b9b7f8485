"""Reads of committed offsets wait for transactions that may change them (KS-5, TX-8)."""

import asyncio
import dataclasses
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import errors
from aiokafka.conn import AIOKafkaConnection

import engine
from engine.kafka import KafkaSpoutConfig
from engine.kafka.client.admin_client import ClusterConfig, connected
from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.client.errors import UnstableOffsetError
from engine.kafka.client.partition import CommittedOffset, PartitionId
from engine.kafka.client.stable_offsets import OffsetFetchResponseV7, StableOffsetFetch, read_stable_offsets
from tests.kafka.pending_offsets import StableReads, end_transaction, pending_offset
from tests.kafka.play import Notes, commit, heard, produce, settings, topology_of
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_admin import fresh_name
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-5", "TX-8")

NEW_BROKER = {9: (1, 10)}
BEFORE_2_5 = {9: (0, 6)}
"""Versions of OffsetFetch (9) by a broker older than Kafka 2.5."""


# Encoding. The bytes follow OffsetFetchRequest.json and OffsetFetchResponse.json of Kafka. A compact length is the length plus one.


def test_the_request_has_the_bytes_of_version_7() -> None:
    request = StableOffsetFetch("g", [PartitionId("t", 1), PartitionId("u", 0), PartitionId("t", 258)]).prepare(NEW_BROKER)
    assert request.encode() == bytes.fromhex(
        "02 67"  # group "g"
        "03"  # two topics
        "02 74  03 00000001 00000102  00"  # "t": partitions 1 and 258, no tags
        "02 75  02 00000000           00"  # "u": partition 0, no tags
        "01 00"  # stable offsets are required, no tags
    )
    header = request.build_request_header(correlation_id=5, client_id="c")
    assert header.encode() == bytes.fromhex("0009 0007 00000005 0001 63 00")  # key, version, correlation id, client "c", no tags


def test_a_long_name_has_a_length_of_two_bytes() -> None:
    request = StableOffsetFetch("g" * 200, [PartitionId("t", 0)]).prepare(NEW_BROKER)
    assert request.encode().startswith(bytes.fromhex("c9 01") + b"g" * 200 + bytes.fromhex("02 02 74"))


ANSWER = bytes.fromhex(
    "00000000"  # throttle time
    "02 02 74"  # one topic, "t"
    "04"  # three partitions: number, offset, leader epoch, metadata, error, no tags
    "00000001 0000000000000011 00000003 02 6d 0000 00"
    "00000002 0000000000000012 ffffffff 00    0000 00"
    "00000003 ffffffffffffffff ffffffff 01    0000 00"
    "00"  # no tags of the topic
    "0000 00"  # no error, no tags
)


def answer_with(code_of_partition: int, code: int = 0) -> bytes:
    return ANSWER[:-7] + code_of_partition.to_bytes(2) + ANSWER[-5:-3] + code.to_bytes(2) + ANSWER[-1:]


async def read(*answers: bytes, limit_secs: float = 10.0) -> dict[PartitionId, CommittedOffset]:
    """Read partitions of topic t from a coordinator that gives these answers."""
    waiting = iter(answers)

    async def send(request: StableOffsetFetch) -> Any:
        return OffsetFetchResponseV7.decode(BytesIO(next(waiting)))

    found = await read_stable_offsets(send, "g", [PartitionId("t", number) for number in (1, 2, 3)], limit_secs)
    assert list(waiting) == []
    return found


STORED = {PartitionId("t", 1): CommittedOffset(17, "m"), PartitionId("t", 2): CommittedOffset(18, "")}


async def test_an_answer_has_offsets_and_metadata() -> None:
    assert await read(ANSWER) == STORED


@pytest.mark.parametrize("refusal", [answer_with(88), answer_with(0, 14), answer_with(0, 16)], ids=["unstable", "loading", "moved"])
async def test_a_transient_refusal_is_retried(refusal: bytes) -> None:
    assert await read(refusal, refusal, ANSWER) == STORED


@pytest.mark.parametrize(
    ("refusal", "error", "text"),
    [
        (answer_with(29), errors.TopicAuthorizationFailedError, "t-3 of group 'g'"),
        (answer_with(0, 30), errors.GroupAuthorizationFailedError, "group 'g'"),
    ],
)
async def test_a_permanent_refusal_is_raised(refusal: bytes, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        await read(refusal)


async def test_the_error_after_the_limit_names_group_topic_and_partition_and_the_way_out() -> None:
    with pytest.raises(UnstableOffsetError) as raised:
        await read(answer_with(88), limit_secs=0.0)
    assert str(raised.value) == (
        "UnstableOffsetError: the offset of topic 't', partition 3, in group 'g' belongs to a transaction that has not ended. The brokers "
        "abort the transaction after its transaction.timeout.ms. To end it earlier, start its producer again, or use kafka-transactions.sh"
    )


class MovedCoordinator:
    """The coordinator of aiokafka, whose broker has handed the group over to another one."""

    def __init__(self) -> None:
        self.answers = [SimpleNamespace(error_code=errors.NotCoordinatorForGroupError.errno), SimpleNamespace(error_code=0)]
        self.lookups = 0
        self.is_known = False

    async def ensure_coordinator_known(self) -> None:
        self.lookups += not self.is_known
        self.is_known = True

    def coordinator_dead(self) -> None:
        self.is_known = False

    async def _send_req(self, request: object) -> SimpleNamespace:
        return self.answers.pop(0)


async def test_a_spout_looks_for_a_coordinator_that_has_moved() -> None:
    link, coordinator = object.__new__(ConsumerLink), MovedCoordinator()
    link._consumer = SimpleNamespace(_coordinator=coordinator)
    request = StableOffsetFetch("g", [PartitionId("t", 0)])
    answers = [(await link._ask_coordinator(request)).error_code for _ in range(2)]
    assert (answers, coordinator.lookups) == ([errors.NotCoordinatorForGroupError.errno, 0], 2)


def test_an_older_broker_gets_the_newest_request_of_the_client() -> None:
    request = StableOffsetFetch("g", [PartitionId("t", 1)]).prepare(BEFORE_2_5)
    assert (request.API_VERSION, request.encode()) == (3, bytes.fromhex("0001 67 00000001 0001 74 00000001 00000001"))


# On a real broker


@pytest.mark.parametrize("before", [None, 3])
@pytest.mark.parametrize("outcome", ["commit", "abort"])
async def test_a_read_waits_for_the_end_of_a_transaction(
    kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch, before: int | None, outcome: str
) -> None:
    """Also if the pending commit is the first of its partition."""
    topic, group = await new_topic(partitions=1), fresh_name("group")
    place, reads = PartitionId(topic, 0), StableReads(monkeypatch)
    if before is not None:
        await commit(kafka, group, topic, before)
    old = {} if before is None else {place: CommittedOffset(before, "")}
    async with connected(ClusterConfig(brokers=kafka)) as admin, pending_offset(kafka, group, topic, 7, "m") as producer:
        assert await admin.committed(group) == old
        reading = asyncio.ensure_future(admin.stable_offsets(group, [place], PATIENCE_SECS))
        await reads.until_refused_twice(reading)
        await end_transaction(producer, outcome)
        assert await reading == ({place: CommittedOffset(7, "m")} if outcome == "commit" else old)


async def test_a_read_of_a_transaction_that_does_not_end_raises_after_its_limit(kafka: str, new_topic: NewTopic) -> None:
    topic, group = await new_topic(partitions=1), fresh_name("group")
    async with connected(ClusterConfig(brokers=kafka)) as admin, pending_offset(kafka, group, topic, 7):
        with pytest.raises(UnstableOffsetError, match=rf"topic '{topic}', partition 0, in group '{group}' belongs to a transaction"):
            await admin.stable_offsets(group, [PartitionId(topic, 0)], 0.2)


@pytest.fixture
def broker_before_2_5(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients see the versions of an older broker."""
    send = AIOKafkaConnection.send

    def send_to_older(connection: Any, request: Any, expect_response: bool = True) -> Any:
        connection._versions = {**connection._versions, **BEFORE_2_5}
        return send(connection, request, expect_response)

    monkeypatch.setattr(AIOKafkaConnection, "send", send_to_older)


@pytest.mark.usefixtures("broker_before_2_5")
async def test_an_older_broker_answers_with_the_older_offset(kafka: str, new_topic: NewTopic) -> None:
    topic, group = await new_topic(partitions=1), fresh_name("group")
    await commit(kafka, group, topic, 3, "old")
    async with connected(ClusterConfig(brokers=kafka)) as admin, pending_offset(kafka, group, topic, 7):
        found = await admin.stable_offsets(group, [PartitionId(topic, 0)], PATIENCE_SECS)
    assert found == {PartitionId(topic, 0): CommittedOffset(3, "old")}


async def test_a_spout_starts_at_the_offset_of_a_transaction_after_its_end(kafka: str, new_topic: NewTopic) -> None:
    """Given another program that moves the offset from 5 to 8, when a spout starts, then it waits and reports."""
    topic = await new_topic(partitions=1)
    config: KafkaSpoutConfig = settings(kafka, topic, request_timeout_ms=1_000, membership="assign")
    group, notes = config.group or "", Notes()
    await produce(kafka, topic, range(10))
    await commit(kafka, group, topic, 5)
    async with (
        pending_offset(kafka, group, topic, 8) as producer,
        engine.run(topology_of(dataclasses.replace(config, stop_at_end=True), notes)) as run,
    ):
        texts = heard(run)
        await notes.until(lambda: any("belongs to a transaction that has not ended" in text for text in texts))
        assert notes.got == []
        await producer.commit_transaction()
        async with asyncio.timeout(PATIENCE_SECS):
            await run.completed()
    assert notes.got == [8, 9]
