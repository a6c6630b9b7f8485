"""`KafkaBatchSpoutConfig`: what the spouts of transactional topologies read of Kafka, and how large their batches are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from engine.api.fields import OutputFields
from engine.config import setting
from engine.config.validated import validated
from engine.kafka.client.connection import PLAINTEXT, REFUSED_EVERYWHERE, Brokers, KafkaSecurity, connection_faults
from engine.kafka.source.spout_config import output_faults, source_faults, start_faults
from engine.kafka.source.translate import RECORD_FIELDS, Translator, whole_record

_NO_MEMBER: Final = "It is of members of a consumer group, and this spout is none: its tasks share the partitions by themselves."
_REFUSED: Final[Mapping[str, str]] = REFUSED_EVERYWHERE | {
    "enable_auto_commit": "What is read is kept with the transactions (TX-9); group=... commits it as well, for those who watch the lag.",
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
    """All settings of `KafkaTransactionalSpout` and `KafkaOpaqueSpout`; valid once it exists (ConfigError names every fault).

    `KafkaBatchSpoutConfig(brokers="127.0.0.1:9092", topics="lines")`
    """

    brokers: Brokers
    """`"host:port"`, several with commas between them, or a sequence: where to begin; the cluster names the rest."""
    topics: str | tuple[str, ...] | list[str] = ()
    """The topics to read: one name or several."""
    pattern: str | None = setting(None, help="A regular expression that names of topics match from their beginning, instead of topics.")
    client_id: str | None = setting(None, help="How the brokers' logs and quotas name this client; none: topology, component and task.")
    security: KafkaSecurity = PLAINTEXT
    """TLS and SASL."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """More options of `aiokafka.AIOKafkaConsumer`, as they are."""

    translator: Translator = whole_record
    """Makes the values of a tuple of a record; None skips it. For the same record always the same."""
    fields: OutputFields = RECORD_FIELDS
    """The streams and fields that the translator makes, as `output_fields` of any spout."""
    on_unreadable: Literal["stop", "drop"] = setting(
        "stop", help="What a record does that the translator cannot read: end the run with its place, or be dropped with a report."
    )

    batch_records: int = setting(5_000, minimum=1, help="Records of one partition in one batch, at most.")
    batch_bytes: int = setting(
        4_194_304, minimum=1, help="Bytes of their keys and values; passed by at most the last 1,000 records that are taken together."
    )
    batch_wait_ms: float = setting(
        50.0, minimum=0, help="Milliseconds that a batch waits for more where it is not full and nothing is there; 0 takes what is there."
    )
    start: Literal["earliest", "latest", "timestamp"] = setting(
        "earliest", help="Where the first transaction begins. Partitions that come later are read from their beginning."
    )
    start_timestamp_ms: int | None = setting(None, minimum=0, help="For start='timestamp': milliseconds since the epoch.")
    stop_at_end: bool = setting(False, help="Whether the run is complete when all is committed that was there when it began.")
    isolation_level: Literal["read_committed", "read_uncommitted"] = setting(
        "read_committed", help="Whether records of transactions that are open or aborted are left out."
    )
    group: str | None = setting(
        None, help="A group whose committed offsets follow the transactions, for tools that show a lag; never read by the spout."
    )

    refresh_ms: float = setting(
        30_000.0, minimum=10, help="Milliseconds between two looks for new partitions, and for topics of a pattern."
    )
    replay_timeout_ms: float = setting(
        30_000.0, minimum=100, help="Milliseconds without a record after which a replay fails its batch, and is tried again."
    )
    fetch_min_bytes: int = setting(1, minimum=1, help="Bytes that a broker waits for before it answers a fetch.")
    fetch_max_wait_ms: int = setting(100, minimum=1, help="Milliseconds that it waits at most.")
    fetch_max_bytes: int = setting(52_428_800, minimum=1, help="Bytes of one answer.")
    max_partition_fetch_bytes: int = setting(1_048_576, minimum=1, help="Bytes of one partition in it: what is read ahead of a batch.")
    request_timeout_ms: int = setting(40_000, minimum=100, help="Milliseconds that a broker gets to answer a request.")
    topic_timeout_secs: float = setting(30.0, minimum=0, help="Seconds that a topic gets to appear before the run ends with an error.")

    membership: ClassVar[Literal["group", "assign"]] = "assign"
    """As ConsumerSettings has it; the next four are of members only."""
    assignor: ClassVar[str] = "sticky"
    session_timeout_ms: ClassVar[int] = 45_000
    rebalance_timeout_ms: ClassVar[int] = 60_000
    heartbeat_interval_ms: ClassVar[int] = 3_000

    def _faults(self) -> Iterator[str]:
        yield from connection_faults(self, _REFUSED)
        yield from source_faults(self)
        yield from output_faults(self)
        yield from start_faults(self)
