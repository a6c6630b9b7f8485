"""Where reading of a partition begins: at the commit, or where the settings say (KS-5, KS-7)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine.kafka import acked_set
from engine.kafka.consumer_link import ConsumerLink
from engine.kafka.offset_manager import PartitionId
from engine.kafka.spout_config import KafkaSpoutConfig


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where one partition begins, and what is known of it."""

    offset: int
    committed: int | None = None
    """The offset of the commit that it begins at."""
    metadata: str | None = None
    skips: tuple[int, ...] = ()
    """What is done already above it."""
    dropped: int = 0
    """Offsets of an acked set that could not be used."""
    foreign: str | None = None
    """The topology that wrote the commit, where it is another one."""


async def find(
    link: ConsumerLink, config: KafkaSpoutConfig, topology: str, partitions: Collection[PartitionId]
) -> dict[PartitionId, StartPosition]:
    """Return where each of these partitions begins."""
    committed = await link.committed(partitions)
    found = {}
    for partition, (offset, metadata) in committed.items():
        position = resume(config, topology, offset, metadata)
        if position is not None:
            found[partition] = position
    fresh = [partition for partition in partitions if partition not in found]
    for partition, offset in (await _beginnings(link, config, fresh)).items():
        dropped = acked_set.count(note.runs) if (note := acked_set.decode(committed.get(partition, (0, ""))[1])) else 0
        found[partition] = StartPosition(offset, dropped=dropped)
    return found


def resume(config: KafkaSpoutConfig, topology: str, offset: int, metadata: str) -> StartPosition | None:
    """Return how to go on from a commit; None where the settings say to begin elsewhere."""
    note = acked_set.decode(metadata)
    mine = note is not None and note.topology == acked_set.written_name(topology)
    if config.start in ("earliest", "latest") and not mine:
        return None
    foreign = None if note is None or mine else acked_set.shown_name(note.topology)
    usable = mine and note is not None and note.base == offset and config.guarantee == "at_least_once" and config.commit_acked_set
    if usable and note is not None:
        return StartPosition(offset, offset, metadata, note.runs)
    return StartPosition(offset, offset, None, dropped=acked_set.count(note.runs) if note else 0, foreign=foreign)


async def _beginnings(link: ConsumerLink, config: KafkaSpoutConfig, partitions: Collection[PartitionId]) -> Mapping[PartitionId, int]:
    if not partitions:
        return {}
    if config.start == "timestamp" and config.start_timestamp_ms is not None:
        at_time = await link.at_time(partitions, config.start_timestamp_ms)
        later = await link.bounds([one for one in partitions if one not in at_time], "latest")
        return {**later, **at_time}
    return await link.bounds(partitions, "latest" if config.start in ("latest", "uncommitted_latest") else "earliest")
