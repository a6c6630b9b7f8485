"""Format of a dead letter. A dead letter is the unchanged record, with headers that name its origin and the failure.

Our headers follow the record's own headers and begin with `stormcell.dead_letter`. A letter that fails again has two blocks of headers.
Only the last block is read.

| header | holds |
|---|---|
| `stormcell.dead_letter` | the version of this format, 1 |
| `stormcell.topic` | the topic that it was read from, or that the sink tried to write |
| `stormcell.partition`, `stormcell.offset` | the place in this topic, if known |
| `stormcell.timestamp_ms` | the timestamp of the record |
| `stormcell.topology` | the topology that gave it up |
| `stormcell.component`, `stormcell.task` | the component and task of the failure, if known |
| `stormcell.reason`, `stormcell.error` | the `Failure` |
| `stormcell.attempts` | the number of attempts |
| `stormcell.failed_at_ms` | the time at which it was given up |
| `stormcell.cut_from_bytes` | of a cut letter only: the bytes of the whole key, value and headers |

Numbers are decimal, and all text is UTF-8.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast

from engine.errors import ERROR, Failure, FailureReason, UsageError

PREFIX: Final = "stormcell."
MARK: Final = PREFIX + "dead_letter"
VERSION: Final = b"1"
MOST_ERROR_CHARACTERS: Final = 2000
CUT_BYTES: Final = 1024
"""Bytes to keep of a key or value that is too large. Headers that are larger are dropped."""

Headers = Sequence[tuple[str, bytes | None]]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that was given up, and its failure."""

    topic: str
    """Topic of the record. Either the record was read from it, or the sink tried to write it there."""
    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    """Headers of the record itself."""
    topology: str
    failure: Failure
    attempts: int
    failed_at_ms: int
    cut_from_bytes: int | None = None
    """Size before the cut, None for a whole record."""

    @property
    def is_whole(self) -> bool:
        """True if key, value and headers are complete. Only such a letter can be replayed."""
        return self.cut_from_bytes is None

    def wire_headers(self) -> list[tuple[str, bytes | None]]:
        """Return the headers of the letter. The record's headers come first."""
        return [*self.headers, *((name, text.encode("utf-8", "replace")) for name, text in self._own_headers())]

    def _own_headers(self) -> Iterator[tuple[str, str]]:
        failure = self.failure
        yield MARK, VERSION.decode()
        values = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "topology": self.topology,
            "component": failure.component_id,
            "task": failure.task_id,
            "reason": failure.reason,
            "error": None if failure.error is None else failure.error[:MOST_ERROR_CHARACTERS],
            "attempts": self.attempts,
            "failed_at_ms": self.failed_at_ms,
            "cut_from_bytes": self.cut_from_bytes,
        }
        yield from ((PREFIX + name, str(value)) for name, value in values.items() if value is not None)

    def cut(self) -> "DeadLetter":
        """Return the letter with only the beginnings of key and value, and without large headers of the record."""
        sizes = [len(self.key or b""), len(self.value or b""), sum(len(name) + len(value or b"") for name, value in self.headers)]
        return replace(
            self,
            key=self.key and self.key[:CUT_BYTES],
            value=self.value and self.value[:CUT_BYTES],
            headers=self.headers if sizes[2] <= CUT_BYTES else (),
            cut_from_bytes=sum(sizes),
        )


def dead_letter_of(record: Any, failure: Failure, attempts: int, *, topology: str, failed_at_ms: int) -> DeadLetter:
    """Return the dead letter of a record that was read from Kafka."""
    return DeadLetter(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
        topology=topology,
        failure=failure,
        attempts=attempts,
        failed_at_ms=failed_at_ms,
    )


def is_dead_letter(record: Any) -> bool:
    """Return True if a record has our headers."""
    return _mark_at(record.headers) is not None


def read_dead_letter(record: Any) -> DeadLetter:
    """Return the letter in a record. Raise UsageError if the record is no dead letter."""
    at = _mark_at(record.headers)
    if at is None:
        text = f"the record at {record.topic}[{record.partition}] offset {record.offset} is no dead letter: it has no header {MARK!r}"
        raise UsageError(text, hint="Name a topic that is the dead_letter_topic of a topology.")
    own = _OwnHeaders(record.headers[at:])
    return DeadLetter(
        topic=own.read("topic", str) or "",
        partition=own.read("partition", int),
        offset=own.read("offset", int),
        timestamp_ms=own.read("timestamp_ms", int),
        key=record.key,
        value=record.value,
        headers=original_headers(record.headers),
        topology=own.read("topology", str) or "",
        failure=_failure(own),
        attempts=own.read("attempts", int) or 0,
        failed_at_ms=own.read("failed_at_ms", int) or 0,
        cut_from_bytes=own.read("cut_from_bytes", int),
    )


def original_headers(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers that the record had before it became a dead letter."""
    at = _mark_at(headers)
    return tuple(headers if at is None else headers[:at])


def _mark_at(headers: Headers) -> int | None:
    return next((at for at in reversed(range(len(headers))) if headers[at][0] == MARK), None)


def _failure(own: "_OwnHeaders") -> Failure:
    reason = own.read("reason", str) or ERROR
    try:
        return Failure(cast(FailureReason, reason), own.read("component", str), own.read("task", int), own.read("error", str))
    except UsageError:  # a later version or another program wrote this reason
        return Failure(ERROR, own.read("component", str), own.read("task", int), f"{reason}: {own.read('error', str)}")


class _OwnHeaders:
    """Our headers of one letter. Missing or damaged values are None."""

    def __init__(self, headers: Headers) -> None:
        self._values = dict(headers)

    def read(self, name: str, kind: Callable[[str], _T]) -> _T | None:
        raw = self._values.get(PREFIX + name)
        if raw is None:
            return None
        try:
            return kind(raw.decode("utf-8", "replace"))
        except ValueError:
            return None
