"""`KafkaCommitterConfig` has the settings of a Kafka committer."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from engine.api import Tuple
from engine.config import setting
from engine.config.validated import set_frozen, validated
from engine.kafka.client.connection import PLAINTEXT, Brokers, KafkaSecurity, connection_faults
from engine.kafka.sink.sink_config import REFUSED, Content, Partitioner, is_topic_name, record_faults

_C_INT_MAXIMUM: Final = 2**31 - 1
_NEEDED: Final = "Transactions need its default."
_REFUSED: Final[Mapping[str, str]] = {
    **REFUSED,
    "transactional_id": "The committer derives it from the names of topology and component, so that it fences only itself.",
    "transaction_timeout_ms": "Write transaction_timeout_ms=... of the config.",
    "acks": _NEEDED,
    "enable_idempotence": _NEEDED,
}


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCommitterConfig:
    """All settings of a Kafka committer. ConfigError names all faults at once.

    `KafkaCommitterConfig(brokers="127.0.0.1:9092", topic="counts", key=lambda tup: tup["word"], value=lambda tup: str(tup["count"]))`
    """

    brokers: Brokers
    """One `"host:port"`, a comma-separated list, or a sequence. The client learns the other brokers from the cluster."""
    topic: str
    """Topic to write. The txids are stored as offsets of its partition 0."""
    client_id: str | None = setting(None, help="Name of this client in the brokers' logs and quotas. none: topology, component and task.")
    security: KafkaSecurity = PLAINTEXT
    """TLS and SASL."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """More options of `aiokafka.AIOKafkaProducer`, passed on unchanged."""

    keyed_by: str | tuple[str, ...] | list[str] | None = None
    """Fields of the committer's fields grouping, if it has more than one task. None: one task."""
    key: Callable[[Tuple], Content] | None = None
    """Default: the field "key" if the input has it, else no key."""
    value: Callable[[Tuple], Content] | None = None
    """Default: the field "value", which the input must have. None writes a tombstone for a compacted topic."""
    headers: Callable[[Tuple], Iterable[tuple[str, bytes | None]] | None] | None = None
    """Pairs of a name and bytes or None. Default: no headers."""
    timestamp_ms: Callable[[Tuple], int | None] | None = None
    """Milliseconds since the epoch. Default: the time at which the record is added to its batch."""
    partition: Callable[[Tuple], int | None] | None = None
    """Number of the partition. None leaves the choice to the partitioner."""
    partitioner: Partitioner | None = None
    """Default: murmur2 of the key, like Java's client. Records without a key fill a batch of one partition, then a batch of the next."""

    batch_bytes: int = setting(131_072, minimum=1, maximum=_C_INT_MAXIMUM, help="Bytes of one batch of Kafka before compression.")
    compression: Literal["gzip", "snappy", "lz4", "zstd"] | None = setting(None, help="Codec for the compression of batches.")
    max_record_bytes: int = setting(
        1_048_576, minimum=1, maximum=_C_INT_MAXIMUM, help="Bytes of one record before compression. A larger record is refused."
    )
    max_output_bytes: int = setting(
        268_435_456, minimum=1, help="Bytes that one batch of the topology may write at one task. They wait in memory for its commit phase."
    )
    on_refused: Literal["stop", "drop"] = setting(
        "stop", help="Reaction to a record that is too large or invalid: end the run, or drop the record with a report."
    )
    when_unknown: Literal["stop", "write"] = setting(
        "stop", help="Reaction if no txid is stored, and the transaction is not the first: end the run, or write it."
    )
    transaction_timeout_ms: int = setting(
        60_000, minimum=1_000, help="Milliseconds after which an unfinished transaction fails its batch, which is retried."
    )
    request_timeout_ms: int = setting(40_000, minimum=100, help="Milliseconds until a request without an answer fails.")
    topic_timeout_secs: float = setting(30.0, above=0, help="Seconds to wait for a missing topic, before the run ends with an error.")

    def _faults(self) -> Iterator[str]:
        yield from connection_faults(self, _REFUSED)
        yield from record_faults(self)
        topic: object = self.topic
        if not isinstance(topic, str):
            yield f"topic must be a name, not {topic!r}. Use one committer for each topic, and split the tuples before them."
        elif not is_topic_name(topic):
            yield f"topic {topic!r} is not a valid topic name. Use at most 249 letters, digits, '.', '_' and '-'."
        if self.batch_bytes > self.max_record_bytes:
            yield f"batch_bytes={self.batch_bytes} must be at most max_record_bytes={self.max_record_bytes}."
        if self.keyed_by is not None:
            names = (self.keyed_by,) if isinstance(self.keyed_by, str) else tuple(self.keyed_by)
            set_frozen(self, "keyed_by", names)
            if not all(names) or not names:
                yield f"keyed_by must be names of fields, not {self.keyed_by!r}."

    def producer_options(self) -> dict[str, Any]:
        """Return the options of aiokafka's producer, except those of the connection."""
        return {
            "max_batch_size": self.batch_bytes,
            "max_request_size": self.max_record_bytes,
            "compression_type": self.compression,
            "transaction_timeout_ms": self.transaction_timeout_ms,
            "linger_ms": 0,
            "retry_backoff_ms": 5,  # short, because a transaction must wait for the end of the previous one
            **self.client,
        }
