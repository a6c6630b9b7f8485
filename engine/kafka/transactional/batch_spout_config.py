"""`KafkaBatchSpoutConfig` has the settings of the Kafka spouts for transactional topologies."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from engine.api.fields import OutputFields
from engine.config import setting
from engine.config.validated import validated
from engine.kafka.client.connection import PLAINTEXT, REFUSED_EVERYWHERE, Brokers, KafkaSecurity, connection_faults
from engine.kafka.source.spout_config import output_faults, source_faults, start_faults
from engine.kafka.source.translate import RECORD_FIELDS, Translator, whole_record

_NO_MEMBER: Final = "It is for members of a consumer group. The tasks of this spout share the partitions without a group."
_REFUSED: Final[Mapping[str, str]] = REFUSED_EVERYWHERE | {
    "enable_auto_commit": "The transactions store the offsets (TX-9). Write group=... to commit them as well, for tools that show the lag.",
    "auto_commit_interval_ms": "Write group=...",
    "auto_offset_reset": "Write start=...",
    "group_id": "Write group=...",
    "group_instance_id": _NO_MEMBER,
    "partition_assignment_strategy": _NO_MEMBER,
    "session_timeout_ms": _NO_MEMBER,
    "rebalance_timeout_ms": _NO_MEMBER,
    "heartbeat_interval_ms": _NO_MEMBER,
    "max_poll_records": "Write batch_records=... of the config.",
    "isolation_level": "Write isolation_level=... of the config.",
    "client_id": "Write client_id=... of the config.",
    "request_timeout_ms": "Write request_timeout_ms=... of the config.",
    "fetch_min_bytes": "Write fetch_min_bytes=... of the config.",
    "fetch_max_bytes": "Write fetch_max_bytes=... of the config.",
    "fetch_max_wait_ms": "Write fetch_max_wait_ms=... of the config.",
    "max_partition_fetch_bytes": "Write max_partition_fetch_bytes=... of the config.",
}


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaBatchSpoutConfig:
    """All settings of `KafkaTransactionalSpout` and `KafkaOpaqueSpout`. ConfigError names all faults at once.

    `KafkaBatchSpoutConfig(brokers="127.0.0.1:9092", topics="lines")`
    """

    brokers: Brokers
    """One `"host:port"`, a comma-separated list, or a sequence. The client learns the other brokers from the cluster."""
    topics: str | tuple[str, ...] | list[str] = ()
    """Topics to read: one name or several."""
    pattern: str | None = setting(
        None, help="Regular expression that topic names must match from their beginning. Use it instead of topics."
    )
    client_id: str | None = setting(None, help="Name of this client in the brokers' logs and quotas. none: topology, component and task.")
    security: KafkaSecurity = PLAINTEXT
    """TLS and SASL."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """More options of `aiokafka.AIOKafkaConsumer`, passed on unchanged."""

    translator: Translator = whole_record
    """Function from a record to the values of a tuple. None skips the record. Must be deterministic, because replays call it again."""
    fields: OutputFields = RECORD_FIELDS
    """Streams and fields of the translator's tuples, like `output_fields` of any spout."""
    on_unreadable: Literal["stop", "drop"] = setting(
        "stop", help="Reaction to an error of the translator: end the run with the record's offset, or drop the record with a report."
    )

    batch_records: int = setting(5_000, minimum=1, help="Records of one partition in one batch, at most.")
    batch_bytes: int = setting(
        4_194_304, minimum=1, help="Bytes of keys and values at which a batch ends. The last chunk of up to 1,000 records may exceed it."
    )
    batch_wait_ms: float = setting(
        50.0, minimum=0, help="Milliseconds that a batch waits for more records. 0 takes only the records that are fetched already."
    )
    start: Literal["earliest", "latest", "timestamp"] = setting(
        "earliest", help="Start position of the first transaction. Partitions that are added later are read from their beginning."
    )
    start_timestamp_ms: int | None = setting(None, minimum=0, help="Milliseconds since the epoch, for start='timestamp'.")
    stop_at_end: bool = setting(False, help="Whether the run ends after it has committed all records that existed at its start.")
    isolation_level: Literal["read_committed", "read_uncommitted"] = setting(
        "read_committed", help="Whether to skip records of open and aborted transactions."
    )
    group: str | None = setting(
        None, help="Group that gets the offsets of committed transactions, for tools that show a lag. The spout never reads it."
    )

    refresh_ms: float = setting(
        30_000.0, minimum=10, help="Milliseconds between two lookups of new partitions and of topics that match the pattern."
    )
    replay_timeout_ms: float = setting(
        30_000.0, minimum=100, help="Milliseconds without a record after which a replay fails its batch and is retried."
    )
    fetch_min_bytes: int = setting(1, minimum=1, help="Bytes that a broker waits for before it answers a fetch.")
    fetch_max_wait_ms: int = setting(100, minimum=1, help="Milliseconds that a broker waits for fetch_min_bytes.")
    fetch_max_bytes: int = setting(52_428_800, minimum=1, help="Bytes of one answer to a fetch.")
    max_partition_fetch_bytes: int = setting(1_048_576, minimum=1, help="Bytes of one partition in an answer, which bound the read-ahead.")
    request_timeout_ms: int = setting(40_000, minimum=100, help="Milliseconds until a request without an answer fails.")
    topic_timeout_secs: float = setting(30.0, minimum=0, help="Seconds to wait for a missing topic, before the run ends with an error.")

    membership: ClassVar[Literal["group", "assign"]] = "assign"
    """Constant for `ConsumerSettings`. The next four attributes have an effect only with a group."""
    assignor: ClassVar[str] = "sticky"
    session_timeout_ms: ClassVar[int] = 45_000
    rebalance_timeout_ms: ClassVar[int] = 60_000
    heartbeat_interval_ms: ClassVar[int] = 3_000

    def _faults(self) -> Iterator[str]:
        yield from connection_faults(self, _REFUSED)
        yield from source_faults(self)
        yield from output_faults(self)
        yield from start_faults(self)
