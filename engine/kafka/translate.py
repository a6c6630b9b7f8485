"""From a record of Kafka to a tuple (KS-8)."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from engine.topology import Fields, Values


class KafkaRecord(Protocol):
    """A record as the translator sees it; only to be read."""

    @property
    def topic(self) -> str:
        """The topic that it was read from."""

    @property
    def partition(self) -> int:
        """The number of the partition."""

    @property
    def offset(self) -> int:
        """Where it stands in the partition."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch: of the producer, or of the broker's append, as the topic is set."""

    @property
    def key(self) -> bytes | None:
        """The key, None where there is none."""

    @property
    def value(self) -> bytes | None:
        """The value; None is a tombstone of a compacted topic."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Names and values; a name may come more than once."""


class ToStream(NamedTuple):
    """What a translator returns for another stream than the default one."""

    stream: str
    values: Values


Translated: TypeAlias = Values | ToStream | None
"""The values of the default stream; those of a named one; None: the record is skipped, and done."""

Translator: TypeAlias = Callable[[Any], Translated]
"""Makes a tuple of a record (a `KafkaRecord`). What it raises is a failure of that record alone (KS-4)."""

RECORD_FIELDS: Final = Fields("topic", "partition", "offset", "key", "value")


def whole_record(record: KafkaRecord) -> Values:
    """The default translator: (topic, partition, offset, key, value), key and value as bytes or None."""
    return record.topic, record.partition, record.offset, record.key, record.value
