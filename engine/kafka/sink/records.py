"""Makes records from tuples, and assigns them to the partitions of their topic."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

from aiokafka.partitioner import murmur2

from engine.api import Fields, Tuple
from engine.errors import FatalError, UsageError
from engine.kafka.sink.sink_config import Content, Partitioner, is_topic_name
from engine.plain_numbers import plain_integer
from engine.safe_text import safe_repr

KEY_FIELD: Final = "key"
VALUE_FIELD: Final = "value"
_NO_HEADERS: Final[list[tuple[str, bytes | None]]] = []


class OutgoingRecord(NamedTuple):
    """A record to write."""

    origin: Any
    """Source tuple of the record. A dead letter has its ticket here."""
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int | None


class RecordSettings(Protocol):
    """Settings that convert tuples to records."""

    @property
    def topic(self) -> str | Callable[[Tuple], str]: ...
    @property
    def key(self) -> Callable[[Tuple], Content] | None: ...
    @property
    def value(self) -> Callable[[Tuple], Content] | None: ...
    @property
    def headers(self) -> Callable[[Tuple], Iterable[tuple[str, bytes | None]] | None] | None: ...
    @property
    def timestamp_ms(self) -> Callable[[Tuple], int | None] | None: ...
    @property
    def partition(self) -> Callable[[Tuple], int | None] | None: ...


class RecordMaker:
    """Makes records from tuples. Raises FatalError for a fault of the whole stream, and other errors for one tuple."""

    def __init__(self, config: RecordSettings) -> None:
        self._config = config
        self._is_plain = config.headers is None and config.timestamp_ms is None
        self._fields: Fields | None = None
        self._key_at: int | None = None
        self._value_at = 0

    def make(self, tup: Tuple) -> OutgoingRecord:
        """Return the record of a tuple."""
        config = self._config
        if tup.fields is not self._fields:
            self._learn(tup)
        if config.value is None:
            value = tup[self._value_at]
        else:
            value = config.value(tup)
        if type(value) is not bytes:
            value = as_bytes("value", value)
        if config.key is not None:
            key = config.key(tup)
        elif self._key_at is not None:
            key = tup[self._key_at]
        else:
            key = None
        if key is not None and type(key) is not bytes:
            key = as_bytes("key", key)
        if self._is_plain:
            return OutgoingRecord(tup, key, value, _NO_HEADERS, None)
        return OutgoingRecord(tup, key, value, self._headers(tup), self._timestamp(tup))

    def topic(self, tup: Tuple) -> str:
        """Return the topic of a tuple."""
        if not callable(self._config.topic):
            return self._config.topic
        name: object = self._config.topic(tup)
        if not isinstance(name, str) or not is_topic_name(name):
            raise UsageError(f"topic: the function returned {name!r}", hint="A topic name has letters, digits, '.', '_' and '-'.")
        return name

    def partition(self, tup: Tuple) -> int | None:
        """Return the result of the config's `partition` function. Call it only if there is one."""
        assert self._config.partition is not None
        return _number("partition", self._config.partition(tup))

    def _learn(self, tup: Tuple) -> None:
        """Find the positions of key and value in tuples of this stream."""
        fields = tup.fields
        names = tuple(fields)
        if self._config.value is None:
            if VALUE_FIELD not in names:
                text = f"stream {tup.stream!r} of {tup.source_component!r} has no field {VALUE_FIELD!r} (it has: {', '.join(names)})"
                raise FatalError(
                    f"no value to write: {text}", hint="Write value=lambda tup: ... in the config, which returns bytes or text."
                )
            self._value_at = names.index(VALUE_FIELD)
        self._key_at = names.index(KEY_FIELD) if KEY_FIELD in names else None
        self._fields = fields

    def _headers(self, tup: Tuple) -> list[tuple[str, bytes | None]]:
        made: Any = None if self._config.headers is None else self._config.headers(tup)
        if made is None:
            return _NO_HEADERS
        hint = "Return pairs of a name and bytes, such as [('trace', b'17')]. A value may also be None."
        if isinstance(made, (str, bytes)) or not isinstance(made, Iterable):
            raise UsageError(f"headers: the function returned {made!r}", hint=hint)
        headers = list(made)
        for header in headers:
            if not _is_header(header):
                raise UsageError(f"headers: {header!r} is not a pair of a name and bytes or None", hint=hint)
            as_bytes("headers", header[0])
        return headers

    def _timestamp(self, tup: Tuple) -> int | None:
        if self._config.timestamp_ms is None:
            return None
        made = _number("timestamp_ms", self._config.timestamp_ms(tup))
        if made is not None and not 0 <= made < 2**63:
            raise UsageError(f"timestamp_ms: {made} is not a time", hint="Return milliseconds since the epoch.")
        return made


def as_bytes(name: str, made: object) -> bytes | None:
    """Return a key or value as bytes or None. Raise UsageError for other types."""
    if isinstance(made, str):
        try:
            return made.encode()
        except UnicodeEncodeError as error:  # a lone surrogate
            hint = "Return bytes, or remove the surrogates."
            raise UsageError(f"{name}: {safe_repr(made)} cannot be written as UTF-8", hint=hint) from error
    if made is None:
        return None
    if isinstance(made, (bytes, bytearray, memoryview)):
        return bytes(made)
    raise UsageError(
        f"{name}: {made!r} ({type(made).__name__}) is neither bytes nor text",
        hint=f"Write {name}=lambda tup: ..., which returns bytes or text, like json.dumps(...) or str(...).",
    )


def _number(name: str, made: object) -> int | None:
    number = plain_integer(made)
    if made is not None and number is None:
        raise UsageError(f"{name}: the function returned {made!r}", hint="Return a whole number, or None.")
    return number


def _is_header(made: Any) -> bool:
    """Tell whether this is a legal header. Its value may be null, which is not the same as empty."""
    return isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], str) and (made[1] is None or isinstance(made[1], bytes))


class SinkTopic:
    """A topic and its partitions. Records wait here until the partitions are known."""

    def __init__(self, name: str, partitioner: Partitioner | None) -> None:
        self.name: Final = name
        self.partitions: tuple[int, ...] = ()
        """All partition numbers, ascending. Empty until known."""
        self.available: tuple[int, ...] = ()
        """Numbers of the partitions that have a leader."""
        self.waiting: deque[OutgoingRecord] = deque()
        self._partitioner = partitioner
        self._turn = 0

    def update_partitions(self, partitions: Sequence[int], available: Sequence[int]) -> None:
        """Update the partitions from the cluster. Ignore an empty answer, because the topic may be missing temporarily."""
        if partitions:
            self.partitions, self.available = tuple(partitions), tuple(available)

    def note_batch_closed(self, partition: int) -> None:
        """Record that a partition's batch was closed. The next records without a key use the next partition."""
        if self._current() == partition:
            self._turn += 1

    def _current(self) -> int:
        among = self.available or self.partitions
        return among[self._turn % len(among)]

    def choose_partition(self, key: bytes | None, wanted: int | None) -> int:
        """Return the partition of a record. Raise UsageError if the config's functions name a missing partition."""
        chosen: object = wanted
        if chosen is None:
            if self._partitioner is not None:
                chosen = self._partitioner(key, list(self.partitions), list(self.available))
            elif key is not None:
                return java_partition(key, self.partitions)
            else:
                return self._current()
        if chosen not in self.partitions:
            text = f"topic {self.name!r} has no partition {safe_repr(chosen)} (it has {len(self.partitions)})"
            raise UsageError(text, hint="Correct the function partition= or partitioner= of the config.")
        return chosen


@lru_cache(maxsize=16_384)
def _murmur(key: bytes) -> int:
    return int(murmur2(key)) & 0x7FFFFFFF


def java_partition(key: bytes, partitions: Sequence[int]) -> int:
    """Return the partition of a key by murmur2, like Java's client. Hashes are cached, because aiokafka's murmur2 is slow Python code."""
    return partitions[_murmur(key) % len(partitions)]
