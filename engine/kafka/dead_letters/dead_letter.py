"""Format of a dead letter: the unchanged record, and headers that name its origin and the failure.

Our headers follow the record's own, from `stormcell.dead_letter` on. A letter that fails again has two blocks, and the last one counts.

| header | holds |
|---|---|
| `stormcell.dead_letter` | the version of this format, 1 |
| `stormcell.topic` | where it was read from; of a sink's, where it was to go |
| `stormcell.partition`, `stormcell.offset` | the same; left out where they are not known |
| `stormcell.timestamp_ms` | of the record |
| `stormcell.topology` | who gave it up |
| `stormcell.component`, `stormcell.task` | where it failed, as far as that is known |
| `stormcell.reason`, `stormcell.error` | the `Failure` |
| `stormcell.attempts` | how often it was tried |
| `stormcell.failed_at_ms` | when it was given up |
| `stormcell.cut_from_bytes` | only where it is not whole: how many bytes key, value and headers had |

Numbers are decimal, everything is UTF-8.
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
"""Bytes that are kept of a key or value that is too large. Larger headers are dropped."""

Headers = Sequence[tuple[str, bytes]]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that was given up, and its failure."""

    topic: str
    """Topic that it was read from, or that the sink tried to write."""
    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    """Headers of the record itself."""
    topology: str
    failure: Failure
    attempts: int
    failed_at_ms: int
    cut_from_bytes: int | None = None
    """Size before the cut, None for a whole record."""

    @property
    def is_whole(self) -> bool:
        """True where key, value and headers are the record's; only then it can be replayed."""
        return self.cut_from_bytes is None

    def wire_headers(self) -> list[tuple[str, bytes]]:
        """Return the headers of the letter: the record's own, then ours."""
        return [*self.headers, *((name, text.encode("utf-8", "replace")) for name, text in self._own_headers())]

    def _own_headers(self) -> Iterator[tuple[str, str]]:
        failure = self.failure
        yield MARK, VERSION.decode()
        said = {
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
        yield from ((PREFIX + name, str(value)) for name, value in said.items() if value is not None)

    def cut(self) -> "DeadLetter":
        """Return it with the beginnings of key and value, and without headers of its own where they are large."""
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
    """Tell whether a record carries our headers."""
    return _mark_at(record.headers) is not None


def read_dead_letter(record: Any) -> DeadLetter:
    """Return what a record of a dead-letter topic says; UsageError for one that is no dead letter of ours."""
    at = _mark_at(record.headers)
    if at is None:
        text = f"the record at {record.topic}[{record.partition}] offset {record.offset} is no dead letter: it has no header {MARK!r}"
        raise UsageError(text, hint="Name the topic that dead letters of a topology go to.")
    said = _Said(record.headers[at:])
    return DeadLetter(
        topic=said.read("topic", str) or "",
        partition=said.read("partition", int),
        offset=said.read("offset", int),
        timestamp_ms=said.read("timestamp_ms", int),
        key=record.key,
        value=record.value,
        headers=original_headers(record.headers),
        topology=said.read("topology", str) or "",
        failure=_failure(said),
        attempts=said.read("attempts", int) or 0,
        failed_at_ms=said.read("failed_at_ms", int) or 0,
        cut_from_bytes=said.read("cut_from_bytes", int),
    )


def original_headers(headers: Headers) -> tuple[tuple[str, bytes], ...]:
    """Return the headers that the record had before it became a dead letter."""
    at = _mark_at(headers)
    return tuple(headers if at is None else headers[:at])


def _mark_at(headers: Headers) -> int | None:
    return next((at for at in reversed(range(len(headers))) if headers[at][0] == MARK), None)


def _failure(said: "_Said") -> Failure:
    reason = said.read("reason", str) or ERROR
    try:
        return Failure(cast(FailureReason, reason), said.read("component", str), said.read("task", int), said.read("error", str))
    except UsageError:  # of a later version, or somebody else's
        return Failure(ERROR, said.read("component", str), said.read("task", int), f"{reason}: {said.read('error', str)}")


class _Said:
    """Our headers of one letter, read with mercy: what is missing or damaged is None."""

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
