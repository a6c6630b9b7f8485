"""`KafkaCommitterConfig`: what a Kafka committer writes, where, and how long a transaction may take."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from engine.api import Tuple
from engine.config import setting
from engine.config.validated import set_frozen, validated
from engine.kafka.client.connection import PLAINTEXT, Brokers, KafkaSecurity, connection_faults
from engine.kafka.sink.sink_config import REFUSED, Content, Partitioner, is_topic_name, record_faults

_C_INT_MAXIMUM: Final = 2**31 - 1
_NEEDED: Final = "A transaction needs it as it is."
_REFUSED: Final[Mapping[str, str]] = {
    **REFUSED,
    "transactional_id": "It is made of the names of topology and component: no other process may have it.",
    "transaction_timeout_ms": "Write transaction_timeout_ms=... of the config.",
    "acks": _NEEDED,
    "enable_idempotence": _NEEDED,
}


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCommitterConfig:
    """All settings of a Kafka committer; valid once it exists (ConfigError names every fault).

    `KafkaCommitterConfig(brokers="127.0.0.1:9092", topic="counts", key=lambda tup: tup["word"], value=lambda tup: str(tup["count"]))`
    """

    brokers: Brokers
    """`"host:port"`, several with commas between them, or a sequence: where to begin; the cluster names the rest."""
    topic: str
    """The topic to write. The txids are kept as offsets of its partition 0."""
    client_id: str | None = setting(None, help="How the brokers' logs and quotas name this client; none: topology, component and task.")
    security: KafkaSecurity = PLAINTEXT
    """TLS and SASL."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """More options of `aiokafka.AIOKafkaProducer`, as they are."""

    keyed_by: str | tuple[str, ...] | list[str] | None = None
    """The fields of the fields grouping that it stands behind, for more than one task; none: it has one."""
    key: Callable[[Tuple], Content] | None = None
    """Default: the field "key" where the input has one, else none."""
    value: Callable[[Tuple], Content] | None = None
    """Default: the field "value", which the input must have. None is a tombstone of a compacted topic."""
    headers: Callable[[Tuple], Iterable[tuple[str, bytes]] | None] | None = None
    """Pairs of a name and bytes; default: none."""
    timestamp_ms: Callable[[Tuple], int | None] | None = None
    """Milliseconds since the epoch; default: when the record is put into its batch."""
    partition: Callable[[Tuple], int | None] | None = None
    """The number of the partition; None leaves it to the partitioner."""
    partitioner: Partitioner | None = None
    """Default: by the key as Java's client does (murmur2); records without a key fill one partition's batch, then the next one's."""

    batch_bytes: int = setting(131_072, minimum=1, maximum=_C_INT_MAXIMUM, help="Bytes of one batch of Kafka's, before compression.")
    compression: Literal["gzip", "snappy", "lz4", "zstd"] | None = setting(None, help="How batches are compressed.")
    max_record_bytes: int = setting(
        1_048_576, minimum=1, maximum=_C_INT_MAXIMUM, help="Bytes of one record, before compression; a larger one is not sent."
    )
    max_output_bytes: int = setting(
        268_435_456, minimum=1, help="Bytes that one batch of the topology may write at one task; they wait in memory for its commit phase."
    )
    on_refused: Literal["stop", "drop"] = setting(
        "stop", help="What a record does that brokers never take, too large or invalid: end the run, or be dropped with a report."
    )
    when_unknown: Literal["stop", "write"] = setting(
        "stop", help="What to do where no txid is stored, and the transaction is not the first: end the run, or write it."
    )
    transaction_timeout_ms: int = setting(
        60_000, minimum=1_000, help="Milliseconds that a transaction may take; then its batch fails, and is tried again."
    )
    request_timeout_ms: int = setting(40_000, minimum=100, help="Milliseconds that a broker gets to answer a request.")
    topic_timeout_secs: float = setting(30.0, above=0, help="Seconds that the topic gets to appear before the run ends with an error.")

    def _faults(self) -> Iterator[str]:
        yield from connection_faults(self, _REFUSED)
        yield from record_faults(self)
        topic: object = self.topic
        if not isinstance(topic, str):
            yield f"topic must be a name, not {topic!r}. A bolt before the committer may sort tuples out, to one committer for each topic."
        elif not is_topic_name(topic):
            yield f"topic {topic!r} is no name of a topic: letters, digits, '.', '_' and '-', 249 at most."
        if self.batch_bytes > self.max_record_bytes:
            yield f"batch_bytes={self.batch_bytes} must be at most max_record_bytes={self.max_record_bytes}."
        if self.keyed_by is not None:
            names = (self.keyed_by,) if isinstance(self.keyed_by, str) else tuple(self.keyed_by)
            set_frozen(self, "keyed_by", names)
            if not all(names) or not names:
                yield f"keyed_by must be names of fields, not {self.keyed_by!r}."

    def producer_options(self) -> dict[str, Any]:
        """Return the keywords of aiokafka's producer beside those of the connection."""
        return {
            "max_batch_size": self.batch_bytes,
            "max_request_size": self.max_record_bytes,
            "compression_type": self.compression,
            "transaction_timeout_ms": self.transaction_timeout_ms,
            "linger_ms": 0,
            "retry_backoff_ms": 5,  # a transaction that follows another one at once has to wait for its end
            **self.client,
        }
