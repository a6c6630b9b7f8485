"""Lists and filters the dead letters of a topic, or finds one dead letter."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from engine.errors import UsageError
from engine.kafka.client.admin_client import AdminClient, ClusterConfig, Offsets, make_consumer, stop_consumer, translate_errors
from engine.kafka.client.partition import PartitionId
from engine.kafka.dead_letters.dead_letter import DeadLetter, is_dead_letter, read_dead_letter
from engine.names import did_you_mean

POLL_RECORDS: Final = 500
_POLL_MS: Final = 500
_MOST_SILENT_POLLS: Final = 60


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """A dead letter and its offset in the dead-letter topic."""

    at: PartitionId
    offset: int
    letter: DeadLetter

    @property
    def name(self) -> str:
        """Name in commands: partition@offset in the dead-letter topic."""
        return f"{self.at.partition}@{self.offset}"


_CHOOSERS: Final[Mapping[str, Callable[[StoredDeadLetter, str], bool]]] = {
    "topic": lambda stored, text: stored.letter.topic == text,
    "topology": lambda stored, text: stored.letter.topology == text,
    "component": lambda stored, text: stored.letter.failure.component_id == text,
    "reason": lambda stored, text: stored.letter.failure.reason == text,
    "error": lambda stored, text: text in (stored.letter.failure.error or ""),
    "letter": lambda stored, text: stored.name == text,
}


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Filter of dead letters. For each name in the filter, one of its texts must match. An empty filter matches all letters."""

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, conditions: Iterable[str]) -> "DeadLetterFilter":
        """Read conditions `name=text`. Raise UsageError for an unknown name.

        Names are topic, topology, component, reason, letter and error. For error, a part of the text is enough.
        """
        texts: dict[str, list[str]] = {}
        for condition in conditions:
            name, equals, text = condition.partition("=")
            if not equals or name not in _CHOOSERS:
                hint = f"Write NAME=TEXT. {did_you_mean(name, _CHOOSERS)}"
                raise UsageError(f"{condition!r} is not a filter of dead letters", hint=hint)
            texts.setdefault(name, []).append(text)
        return cls(texts)

    def fits(self, stored: StoredDeadLetter) -> bool:
        """Return True if a letter matches."""
        return all(any(_CHOOSERS[name](stored, text) for text in texts) for name, texts in self.texts.items())


@dataclass(frozen=True, slots=True)
class DeadLetterList:
    """Result of a listing."""

    letters: tuple[StoredDeadLetter, ...]
    """Letters in the order of their failures."""
    others: int
    """Number of records that are no dead letters."""


async def newest_dead_letters(admin: AdminClient, topic: str, choice: DeadLetterFilter, limit: int) -> DeadLetterList:
    """Return the newest matching letters, at most `limit`. With a filter, this function reads the whole topic."""
    partitions = await admin.partitions_of(topic)
    starts, ends = await admin.bounds(partitions, "earliest"), await admin.bounds(partitions, "latest")
    if not choice.texts:
        starts = {one: max(start, ends[one] - limit) for one, start in starts.items()}
    newest = {one: deque[StoredDeadLetter](maxlen=limit) for one in partitions}
    others = 0
    async with open_reader(admin.config, starts) as consumer:
        async for partition, records in records_until(admin.config, consumer, starts, ends):
            for record in records:
                if not is_dead_letter(record):
                    others += 1
                elif choice.fits(stored := stored_dead_letter(record)):
                    newest[partition].append(stored)
    found = sorted((one for letters in newest.values() for one in letters), key=lambda one: (one.letter.failed_at_ms, one.at, one.offset))
    return DeadLetterList(tuple(found[-limit:]), others)


async def find_dead_letter(admin: AdminClient, topic: str, name: str) -> StoredDeadLetter:
    """Return the letter with a name, like 0@17. Raise UsageError if it does not exist."""
    number, at, offset = name.partition("@")
    if not (at and number.isdecimal() and offset.isdecimal()):
        raise UsageError(f"{name!r} is not the name of a letter", hint="Write PARTITION@OFFSET like in the list: 0@17.")
    partition = PartitionId(topic, int(number))
    start = {partition: int(offset)}
    if partition in await admin.partitions_of(topic):
        beginnings, ends = await admin.bounds(start, "earliest"), await admin.bounds(start, "latest")
        if beginnings[partition] <= int(offset) < ends[partition]:
            async with open_reader(admin.config, start) as consumer:
                async for _, records in records_until(admin.config, consumer, start, {partition: int(offset) + 1}):
                    return stored_dead_letter(records[0])
    raise UsageError(
        f"topic {topic!r} has no record at {name}",
        hint="Retention may have deleted it. `dead-letters` without --show lists the existing letters.",
    )


def stored_dead_letter(record: Any) -> StoredDeadLetter:
    """Return a record as a letter. Raise UsageError if it is no dead letter."""
    return StoredDeadLetter(PartitionId(record.topic, record.partition), record.offset, read_dead_letter(record))


@asynccontextmanager
async def open_reader(config: ClusterConfig, starts: Offsets) -> AsyncIterator[AIOKafkaConsumer]:
    """Yield a consumer without a group that reads from these offsets. Stop it at the end of the block."""
    consumer = make_consumer(**consumer_options(config))
    try:
        with translate_errors(config, "reading dead letters"):
            await consumer.start()
        consumer.assign([TopicPartition(*one) for one in starts])
        for partition, offset in starts.items():
            consumer.seek(TopicPartition(*partition), offset)
        yield consumer
    finally:
        await stop_consumer(consumer)


def consumer_options(config: ClusterConfig) -> dict[str, Any]:
    """Return aiokafka's options of a consumer of letters. The consumer skips aborted transactions."""
    return {
        **config.client_options(),
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",  # retention may delete the offset to read
        "isolation_level": "read_committed",
        "max_poll_records": POLL_RECORDS,
    }


async def records_until(
    config: ClusterConfig, consumer: AIOKafkaConsumer, starts: Offsets, ends: Offsets
) -> AsyncIterator[tuple[PartitionId, Sequence[Any]]]:
    """Yield the records of each partition between its start and its end, in chunks. Raise FatalError if no record arrives for 30 s."""
    positions = dict(starts)
    silent = 0
    while open_partitions := [one for one in positions if positions[one] < ends[one]]:
        with translate_errors(config, f"reading {', '.join(map(str, open_partitions))}"):
            found = await consumer.getmany(*(TopicPartition(*one) for one in open_partitions), timeout_ms=_POLL_MS)
        for partition, records in found.items():
            if wanted := [record for record in records if record.offset < ends[PartitionId(*partition)]]:
                yield PartitionId(*partition), wanted
        before = dict(positions)
        with translate_errors(config, f"reading {', '.join(map(str, open_partitions))}"):
            positions |= {one: await consumer.position(TopicPartition(*one)) for one in open_partitions}
            silent = silent + 1 if positions == before else 0
            if silent >= _MOST_SILENT_POLLS:
                raise TimeoutError(f"no record for {_MOST_SILENT_POLLS * _POLL_MS / 1000:g} s")
