"""Translators are functions that convert records to tuples (KS-8)."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from engine.api import Fields, Values
from engine.runtime.error_report import error_text

_SHOWN_BYTES: Final = 100


class KafkaRecord(Protocol):
    """Record that a translator gets. Read only."""

    @property
    def topic(self) -> str:
        """Topic of the record."""

    @property
    def topic_id(self) -> str | None:
        """Id of the topic, as Kafka's tools show it. A topic that is created again has another one. None: brokers older than Kafka 2.8."""

    @property
    def partition(self) -> int:
        """Number of the partition."""

    @property
    def offset(self) -> int:
        """Offset in the partition."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch. The topic decides whether the producer or the broker sets them."""

    @property
    def key(self) -> bytes | None:
        """Key, None without one."""

    @property
    def value(self) -> bytes | None:
        """Value. None is a tombstone of a compacted topic."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Names and values. A name may occur more than once, and a value may be None."""


class ToStream(NamedTuple):
    """Result of a translator for a stream other than the default one."""

    stream: str
    values: Values


Translated: TypeAlias = Values | ToStream | None
"""Values for the default stream, values for a named stream, or None to skip the record."""

Translator: TypeAlias = Callable[[Any], Translated]
"""Converts a record (a `KafkaRecord`) to a tuple. An error fails only this record (KS-4)."""

RECORD_FIELDS: Final = Fields("topic", "partition", "offset", "key", "value")


def whole_record(record: KafkaRecord) -> Values:
    """Return (topic, partition, offset, key, value). This is the default translator. Key and value are bytes or None."""
    return record.topic, record.partition, record.offset, record.key, record.value


class TranslatorError(Exception):
    """Report of a translator that raised, or returned no valid tuple. Has the frames and causes of the error."""


def translator_error(record: KafkaRecord, error: BaseException, then: str = "") -> TranslatorError:
    """Return the report of a record that could not be translated. then: text about the further handling of the record."""
    found = TranslatorError(translator_text(record, error_text(error)) + then).with_traceback(error.__traceback__)
    found.__cause__ = error.__cause__
    return found


def translator_text(record: KafkaRecord, raised: str) -> str:
    """Return the text for a record that could not be translated, with its place and first bytes.

    raised: the text of the error.

    >>> from types import SimpleNamespace
    >>> record = SimpleNamespace(topic="lines", partition=0, offset=7, key=None, value=b"{" * 5000)
    >>> translator_text(record, "ValueError: no JSON")[:90]
    'the translator could not make a tuple of lines-0 offset 7: ValueError: no JSON. Its key is'
    """
    place = f"{record.topic}-{record.partition} offset {record.offset}"
    said = raised.rstrip(".")
    return f"the translator could not make a tuple of {place}: {said}. Its key is {_head(record.key)}, its value {_head(record.value)}"


def _head(part: bytes | None) -> str:
    """Return the first bytes of a key or value, with the length of a longer one."""
    if part is None or len(part) <= _SHOWN_BYTES:
        return repr(part)
    return f"{part[:_SHOWN_BYTES]!r}… ({len(part):,} bytes)"
