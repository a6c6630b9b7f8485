"""`KafkaBatchSpoutConfig` reports all its faults at once, each with a fix."""

from typing import Any

import pytest

from engine.errors import ConfigError, UsageError
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaOpaqueSpout, KafkaTransactionalSpout
from engine.kafka.transactional.batch_reader import OffsetRange, partition_of, range_of

WHOLE = {"brokers": "127.0.0.1:9092", "topics": "lines"}


def test_brokers_and_topics_are_enough() -> None:
    made = KafkaBatchSpoutConfig(**WHOLE)  # type: ignore[arg-type]
    assert (made.brokers, made.topics, made.isolation_level, made.start) == (("127.0.0.1:9092",), ("lines",), "read_committed", "earliest")


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"topics": ()}, "topics is missing. Write topics='lines', or pattern='lines-.*'."),
        ({"pattern": "x"}, "topics and pattern exclude each other."),
        ({"brokers": "nowhere"}, "broker 'nowhere' is not 'host:port'. Write brokers='127.0.0.1:9092'."),
        ({"batch_records": 0}, "batch_records"),
        ({"start": "uncommitted_earliest"}, "start"),
        ({"start": "timestamp"}, "start='timestamp' needs start_timestamp_ms."),
        ({"translator": 7}, "translator must be a function of a record, not 7."),
        ({"client": {"group_id": "x"}}, "client option 'group_id' cannot be set. Write group=..."),
        (
            {"client": {"session_timeout_ms": 1}},
            "client option 'session_timeout_ms' cannot be set. It is for members of a consumer group",
        ),
    ],
)
def test_each_fault_is_reported_with_a_fix(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KafkaBatchSpoutConfig(**(WHOLE | values))
    assert len(caught.value.faults) == 1
    assert caught.value.faults[0].startswith(fault)


@pytest.mark.parametrize("kind", [KafkaTransactionalSpout, KafkaOpaqueSpout])
def test_a_spout_accepts_only_its_config(kind: Any) -> None:
    with pytest.raises(UsageError, match=r"Write Kafka\w+\(KafkaBatchSpoutConfig\("):
        kind({"brokers": "x"})


def test_partition_names_and_metadata_are_read_back() -> None:
    assert str(partition_of("page-views-3")) == "page-views-3"
    assert range_of(OffsetRange(3, 7, 2).metadata(None)) == OffsetRange(3, 7, 2)
    assert range_of(None) is None
