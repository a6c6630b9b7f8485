"""`KafkaSinkConfig` has the settings of a Kafka sink. The committer's settings share its checks of records."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from engine.api import Tuple, takes
from engine.config import setting
from engine.config.validated import validated
from engine.kafka.client.connection import PLAINTEXT, REFUSED_EVERYWHERE, Brokers, KafkaSecurity, connection_faults

_C_INT_MAXIMUM: Final = 2**31 - 1

Content: TypeAlias = bytes | str | None
"""Key or value. Text is written as UTF-8."""
Partitioner: TypeAlias = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""Function (key, all partitions, partitions with a leader) that returns a partition, like aiokafka's."""

_TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")

REFUSED: Final[Mapping[str, str]] = REFUSED_EVERYWHERE | {
    "client_id": "Write client_id=... of the config.",
    "linger_ms": "Write linger_ms=... of the config.",
    "max_batch_size": "Write batch_bytes=...",
    "max_request_size": "Write max_record_bytes=...",
    "compression_type": "Write compression=...",
    "request_timeout_ms": "Write request_timeout_ms=... of the config.",
    "partitioner": "Write partitioner=... of the config.",
    "transactional_id": "Use a KafkaCommitter to write exactly once (TX-10).",
    "transaction_timeout_ms": "Use a KafkaCommitter to write exactly once (TX-10).",
}


def is_topic_name(name: str) -> bool:
    """Return True if brokers accept this topic name. aiokafka would repeat the lookup of an invalid name forever."""
    return _TOPIC_NAME.fullmatch(name) is not None


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSinkConfig:
    """All settings of a Kafka sink. ConfigError names all faults at once.

    `KafkaSinkConfig(brokers="127.0.0.1:9092", topic="counts", key=lambda tup: tup["word"], value=lambda tup: str(tup["count"]))`
    """

    brokers: Brokers
    """One `"host:port"`, a comma-separated list, or a sequence. The client learns the other brokers from the cluster."""
    topic: str | Callable[[Tuple], str]
    """Topic to write, or a function from a tuple to a topic name."""
    client_id: str | None = setting(None, help="Name of this client in the brokers' logs and quotas. none: topology, component and task.")
    security: KafkaSecurity = PLAINTEXT
    """TLS and SASL."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """More options of `aiokafka.AIOKafkaProducer`, passed on unchanged. By default the producer is idempotent, with `acks="all"`."""

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

    linger_ms: float = setting(
        0.0, minimum=0, help="Milliseconds that a batch waits for more records. Records that arrive during a send always share a batch."
    )
    batch_bytes: int = setting(131_072, minimum=1, maximum=_C_INT_MAXIMUM, help="Bytes of one batch before compression.")
    compression: Literal["gzip", "snappy", "lz4", "zstd"] | None = setting(None, help="Codec for the compression of batches.")
    max_record_bytes: int = setting(
        1_048_576, minimum=1, maximum=_C_INT_MAXIMUM, help="Bytes of one record before compression. A larger record is refused."
    )
    max_in_flight: int = setting(20_000, minimum=1, help="Number of unacknowledged records at which the sink accepts no more tuples.")
    max_in_flight_bytes: int = setting(
        33_554_432, minimum=1, help="Bytes of unacknowledged records at which the sink accepts no more tuples."
    )
    request_timeout_ms: int = setting(40_000, minimum=100, help="Milliseconds until a request without an answer fails.")
    delivery_timeout_ms: int = setting(
        120_000, minimum=100, help="Milliseconds of retries after which the tuples of a batch fail. Their source replays them."
    )
    topic_timeout_secs: float = setting(30.0, above=0, help="Seconds to wait for a topic before it counts as missing.")
    flush_timeout_secs: float = setting(10.0, minimum=0, maximum=20, help="Seconds to wait for acknowledgments when the sink closes.")

    on_refused: Literal["fail", "dead_letter", "drop"] | None = setting(
        None, help="Reaction to a record that is too large or invalid. none: dead_letter if there is a dead_letter_topic, else fail."
    )
    dead_letter_topic: str | None = setting(
        None, help="Topic for refused records. Their headers name the reason, and values that are too large are cut."
    )

    def _faults(self) -> Iterator[str]:
        yield from connection_faults(self, REFUSED)
        yield from _topic_faults(self.topic)
        yield from record_faults(self)
        yield from self._ack_faults()
        yield from self._refused_faults()
        if self.batch_bytes > self.max_record_bytes:
            yield f"batch_bytes={self.batch_bytes} must be at most max_record_bytes={self.max_record_bytes}."
        if self.linger_ms >= self.delivery_timeout_ms:
            yield f"linger_ms={self.linger_ms:g} must be below delivery_timeout_ms={self.delivery_timeout_ms}."

    def _ack_faults(self) -> Iterator[str]:
        client = self.client if isinstance(cast(object, self.client), Mapping) else {}
        acks, idempotent = client.get("acks", "all"), client.get("enable_idempotence", True)
        if acks not in ("all", -1, 1):
            yield f"client option acks={acks!r} gives no acknowledgment, and the sink acks tuples only after it (KS-10). Write 'all' or 1."
        elif acks == 1 and idempotent:
            yield "client option acks=1 needs enable_idempotence=False: an idempotent producer waits for all replicas."

    def _refused_faults(self) -> Iterator[str]:
        if self.on_refused == "dead_letter" and self.dead_letter_topic is None:
            yield "on_refused='dead_letter' needs a dead_letter_topic."
        if self.on_refused in ("fail", "drop") and self.dead_letter_topic is not None:
            yield f"on_refused={self.on_refused!r} and dead_letter_topic exclude each other."
        if self.dead_letter_topic is not None and self.dead_letter_topic == self.topic:
            yield f"dead_letter_topic {self.dead_letter_topic!r} is the topic itself."

    def producer_options(self) -> dict[str, Any]:
        """Return the options of aiokafka's producer, except those of the connection."""
        return {
            "max_batch_size": self.batch_bytes,
            "max_request_size": self.max_record_bytes,
            "compression_type": self.compression,
            "linger_ms": 0,
            **self.client,
        }


def _topic_faults(topic: object) -> Iterator[str]:
    if not callable(topic) and not (isinstance(topic, str) and topic):
        yield f"topic must be a name or a function of a tuple, not {topic!r}."
    elif callable(topic) and not takes(topic, 1):
        yield f"topic={topic!r} cannot be called with one tuple. Write topic=lambda tup: tup[...]."
    elif isinstance(topic, str) and not is_topic_name(topic):
        yield f"topic {topic!r} is not a valid topic name. Use at most 249 letters, digits, '.', '_' and '-'."


def record_faults(made: Any) -> Iterator[str]:
    """Yield the faults of the functions that convert tuples to records."""
    for name in ("key", "value", "headers", "timestamp_ms", "partition"):
        function = getattr(made, name)
        if function is not None and not callable(function):
            yield f"{name} must be a function of a tuple, not {function!r}. Write {name}=lambda tup: tup[...]."
        elif function is not None and not takes(function, 1):
            yield f"{name}={function!r} cannot be called with one tuple. Write {name}=lambda tup: tup[...]."
    if made.partitioner is not None and not callable(cast(object, made.partitioner)):
        yield f"partitioner must be a function (key, all partitions, available ones) -> partition, not {made.partitioner!r}."
    elif made.partitioner is not None and not takes(made.partitioner, 3):
        fix = "Write def choose(key, partitions, available)."
        yield f"partitioner={made.partitioner!r} cannot be called with a key, all partitions and the available ones. {fix}"
