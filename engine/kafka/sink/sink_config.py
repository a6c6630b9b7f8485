"""`KafkaSinkConfig`: what a Kafka sink writes, where, and how much may wait for the brokers."""

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
"""A key or value; a text is written as UTF-8."""
Partitioner: TypeAlias = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""As aiokafka's: chooses by a key from all partitions of the topic and from those that have a leader."""

_TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")

REFUSED: Final[Mapping[str, str]] = REFUSED_EVERYWHERE | {
    "client_id": "Write client_id=... of the config.",
    "linger_ms": "Write linger_ms=... of the config.",
    "max_batch_size": "Write batch_bytes=...",
    "max_request_size": "Write max_record_bytes=...",
    "compression_type": "Write compression=...",
    "request_timeout_ms": "Write request_timeout_ms=... of the config.",
    "partitioner": "Write partitioner=... of the config.",
    "transactional_id": "Exactly once into Kafka is KafkaCommitter's (TX-10).",
    "transaction_timeout_ms": "Exactly once into Kafka is KafkaCommitter's (TX-10).",
}


def is_topic_name(name: str) -> bool:
    """Tell whether brokers take this name; aiokafka would ask for it again and again."""
    return _TOPIC_NAME.fullmatch(name) is not None


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSinkConfig:
    """All settings of a Kafka sink; valid once it exists (ConfigError names every fault).

    `KafkaSinkConfig(brokers="127.0.0.1:9092", topic="counts", key=lambda tup: tup["word"], value=lambda tup: str(tup["count"]))`
    """

    brokers: Brokers
    """`"host:port"`, several with commas between them, or a sequence: where to begin; the cluster names the rest."""
    topic: str | Callable[[Tuple], str]
    """The topic to write, or a function of the tuple that names it."""
    client_id: str | None = setting(None, help="How the brokers' logs and quotas name this client; none: topology, component and task.")
    security: KafkaSecurity = PLAINTEXT
    """TLS and SASL."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """More options of `aiokafka.AIOKafkaProducer`, as they are. It is idempotent and waits for all replicas unless they say otherwise."""

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

    linger_ms: float = setting(0.0, minimum=0, help="Milliseconds that a batch waits for more; what comes during a send shares one anyway.")
    batch_bytes: int = setting(131_072, minimum=1, maximum=_C_INT_MAXIMUM, help="Bytes of one batch, before compression.")
    compression: Literal["gzip", "snappy", "lz4", "zstd"] | None = setting(None, help="How batches are compressed.")
    max_record_bytes: int = setting(
        1_048_576, minimum=1, maximum=_C_INT_MAXIMUM, help="Bytes of one record, before compression; a larger one is not sent."
    )
    max_in_flight: int = setting(20_000, minimum=1, help="Records that wait for the brokers before the sink takes no more.")
    max_in_flight_bytes: int = setting(33_554_432, minimum=1, help="Bytes of records that wait for the brokers before it takes no more.")
    request_timeout_ms: int = setting(40_000, minimum=100, help="Milliseconds that a broker gets to answer a request.")
    delivery_timeout_ms: int = setting(
        120_000, minimum=100, help="Milliseconds that a batch is tried for; then its tuples fail, and their source sends them again."
    )
    topic_timeout_secs: float = setting(30.0, above=0, help="Seconds that a topic gets to appear before it counts as missing.")
    flush_timeout_secs: float = setting(10.0, minimum=0, maximum=20, help="Seconds that a sink which closes waits for the brokers.")

    on_refused: Literal["fail", "dead_letter", "drop"] | None = setting(
        None, help="What becomes of a record that brokers never take: too large, or invalid. none: fail, or dead_letter with its topic."
    )
    dead_letter_topic: str | None = setting(None, help="Where such records go, with why in their headers; too large values are cut.")

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
            yield f"client option acks={acks!r}: the sink acks what the broker has acknowledged (KS-10). Write 'all' or 1."
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
        """Return the keywords of aiokafka's producer beside those of the connection."""
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
        yield f"topic {topic!r} is no name of a topic: letters, digits, '.', '_' and '-', 249 at most."


def record_faults(made: Any) -> Iterator[str]:
    """Yield what is wrong with the functions that make a record of a tuple."""
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
        yield f"partitioner={made.partitioner!r} cannot be called with key, all partitions and available ones. {fix}"
