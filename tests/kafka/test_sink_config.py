"""Settings of a sink, error kinds and partitions, without a broker."""

from typing import Any

import pytest
from aiokafka import errors

from engine.errors import ConfigError, UsageError
from engine.kafka import KafkaSink, KafkaSinkConfig
from engine.kafka.client.errors import send_error_kind
from engine.kafka.sink.records import SinkTopic, java_partition

BASE: dict[str, Any] = {"brokers": "127.0.0.1:9092", "topic": "words"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"topic": ""}, "topic must be a name or a function of a tuple, not ''"),
        ({"topic": 3}, "topic must be a name or a function of a tuple, not 3"),
        ({"topic": "no topic!"}, "topic 'no topic!' is not a valid topic name"),
        ({"brokers": "nowhere"}, "broker 'nowhere' is not 'host:port'"),
        ({"key": "word"}, "key must be a function of a tuple, not 'word'. Write key=lambda tup: tup[...]"),
        ({"partitioner": "murmur2"}, "partitioner must be a function"),
        ({"partitioner": lambda key: 0}, "cannot be called with a key, all partitions and the available ones"),
        ({"topic": lambda: "words"}, "cannot be called with one tuple. Write topic=lambda tup: tup[...]"),
        *(({name: lambda: None}, f"cannot be called with one tuple. Write {name}=lambda tup: tup[...]")
          for name in ("key", "value", "headers", "timestamp_ms", "partition")),
        ({"batch_bytes": 10, "max_record_bytes": 5}, "batch_bytes=10 must be at most max_record_bytes=5"),
        ({"client": {"acks": 0}}, "client option acks=0 gives no acknowledgment, and the sink acks tuples only after it"),
        ({"client": {"acks": 1}}, "acks=1 needs enable_idempotence=False"),
        ({"client": {"transactional_id": "t"}}, "'transactional_id' cannot be set. Use a KafkaCommitter to write exactly once"),
        ({"client": {"max_batch_size": 3}}, "Write batch_bytes="),
        ({"on_refused": "dead_letter"}, "on_refused='dead_letter' needs a dead_letter_topic"),
        ({"on_refused": "drop", "dead_letter_topic": "dead"}, "exclude each other"),
        ({"dead_letter_topic": "words"}, "dead_letter_topic 'words' is the topic itself"),
        ({"compression": "zip"}, "compression must be 'gzip', 'snappy'"),
        ({"max_in_flight": 0}, "max_in_flight must be an integer of at least 1"),
        ({"liner_ms": 3}, "linger_ms"),
    ],
)  # fmt: skip
def test_contradicting_settings_are_refused_with_a_fix(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        KafkaSinkConfig(**(BASE | changes))
    assert text in str(raised.value)


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        KafkaSinkConfig(brokers="nowhere", topic=3, on_refused="dead_letter")  # type: ignore[arg-type]
    assert len(raised.value.faults) == 3


def test_a_sink_accepts_only_its_config() -> None:
    with pytest.raises(UsageError, match=r"KafkaSink was given 'words'\n.*KafkaSinkConfig\(brokers="):
        KafkaSink("words")  # type: ignore[arg-type]


def test_acks_1_is_accepted() -> None:
    config = KafkaSinkConfig(**BASE, client={"acks": 1, "enable_idempotence": False})
    assert config.producer_options()["acks"] == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.MessageSizeTooLargeError(), "refused"),
        (errors.RecordListTooLargeError(), "refused"),
        (errors.InvalidTimestampError(), "refused"),
        (errors.NotLeaderForPartitionError(), "passing"),
        (errors.RequestTimedOutError(), "passing"),
        (errors.NotEnoughReplicasError(), "passing"),
        (errors.KafkaTimeoutError(), "passing"),
        (errors.KafkaConnectionError(), "passing"),
        (errors.OutOfOrderSequenceNumber(), "passing"),
        (errors.ProducerFenced(), "passing"),
        (errors.KafkaError("the sender died"), "passing"),
        (errors.TopicAuthorizationFailedError("words"), "fatal"),
        (errors.ClusterAuthorizationFailedError(), "fatal"),
        (errors.SaslAuthenticationFailed(), "fatal"),
        (errors.InvalidTopicError(), "fatal"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else each,
)
def test_errors_by_their_kind(error: Exception, kind: str) -> None:
    assert send_error_kind(error) == kind


def test_keys_hash_as_in_java() -> None:
    """Values of org.apache.kafka.common.utils.Utils.murmur2, as its own tests have them."""
    expected = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    for key, hashed in expected.items():
        assert java_partition(key, range(1009)) == (hashed & 0x7FFFFFFF) % 1009


def test_each_batch_without_keys_goes_to_another_partition() -> None:
    topic = SinkTopic("words", None)
    topic.update_partitions((0, 1, 2), (0, 2))
    assert [topic.choose_partition(None, None) for _ in range(3)] == [0, 0, 0]
    topic.note_batch_closed(1)
    assert topic.choose_partition(None, None) == 0
    topic.note_batch_closed(0)
    assert topic.choose_partition(None, None) == 2
    topic.note_batch_closed(2)
    assert topic.choose_partition(None, None) == 0


def test_a_missing_topic_keeps_its_known_partitions() -> None:
    topic = SinkTopic("words", None)
    topic.update_partitions((0, 1), (0, 1))
    topic.update_partitions((), ())
    assert topic.partitions == (0, 1)
    topic.update_partitions((0, 1, 2), (2,))
    assert topic.choose_partition(None, None) == 2
    with pytest.raises(UsageError, match="has no partition 3"):
        topic.choose_partition(None, 3)
