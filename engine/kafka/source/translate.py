"""From a record of Kafka to a tuple (KS-8)."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from engine.executor.error_report import error_text
from engine.topology import Fields, Values

_SHOWN_BYTES: Final = 100


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


class TranslatorError(Exception):
    """A translator raised, or made no tuple of the stream. Stands for what was raised, with its frames and causes; only reported."""


def translator_error(record: KafkaRecord, error: BaseException, then: str = "") -> TranslatorError:
    """Return the report of a record that the translator could not make a tuple of. then: what happens to the record."""
    found = TranslatorError(translator_text(record, error_text(error)) + then).with_traceback(error.__traceback__)
    found.__cause__ = error.__cause__
    return found


def translator_text(record: KafkaRecord, raised: str) -> str:
    """Return the place and the head of a record that the translator could not make a tuple of. raised: the text of its error.

    >>> from types import SimpleNamespace
    >>> record = SimpleNamespace(topic="lines", partition=0, offset=7, key=None, value=b"{" * 5000)
    >>> translator_text(record, "ValueError: no JSON")[:90]
    'the translator could not make a tuple of lines-0 offset 7: ValueError: no JSON. Its key is'
    """
    place = f"{record.topic}-{record.partition} offset {record.offset}"
    said = raised.rstrip(".")
    return f"the translator could not make a tuple of {place}: {said}. Its key is {_head(record.key)}, its value {_head(record.value)}"


def _head(part: bytes | None) -> str:
    """Return the first bytes of a key or a value for a person, and of a longer one how many it has."""
    if part is None or len(part) <= _SHOWN_BYTES:
        return repr(part)
    return f"{part[:_SHOWN_BYTES]!r}… ({len(part):,} bytes)"
