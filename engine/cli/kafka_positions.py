"""Finds positions of an exact Kafka spout by a time, for `positions set --to-time` (PO-4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.checkpoint.stored_positions import StoredPositions
from engine.errors import StateError
from engine.kafka.client.admin_client import AdminClient, ClusterConfig, connected
from engine.kafka.client.partition import PartitionId
from engine.kafka.source.ledger_positions import topics_of
from engine.names import did_you_mean


@dataclass(frozen=True, slots=True)
class FoundOffsets:
    """Offsets to set, by the names of partitions, and what the user should know of them."""

    offsets: Mapping[str, int]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class OffsetsAtTime:
    """The wish to continue at a time."""

    config: ClusterConfig
    text: str
    """The time, as the user has written it."""
    timestamp_ms: int
    partitions: Sequence[str]
    """Names of partitions. Empty: all partitions of the topics."""

    async def find(self, stored: StoredPositions, topology: str) -> FoundOffsets:
        """Return the offset of the first record of each partition at this time or later, or else the end of the partition."""
        topics = _topics(stored, topology)
        async with connected(self.config) as admin:
            chosen = await self._chosen(admin, topics)
            ends = await admin.bounds(chosen, "latest")  # before the offsets of the time, so that no record is skipped
            found = await admin.at_time(chosen, self.timestamp_ms)
        notes = [
            f"{one} has no record of {self.text} or later, so it continues at its end, {ends[one]}." for one in chosen if one not in found
        ]
        return FoundOffsets({str(one): found.get(one, ends[one]) for one in chosen}, notes)

    async def _chosen(self, admin: AdminClient, topics: Sequence[str]) -> list[PartitionId]:
        there = {str(one): one for topic in topics for one in await admin.partitions_of(topic)}
        for name in self.partitions:
            if name not in there:
                text = f"{name!r} is no partition of {' or '.join(map(repr, topics))}"
                raise StateError(text, hint=f"With --to-time write partitions without a position. {did_you_mean(name, there)}")
        return [there[name] for name in self.partitions] or list(there.values())


def _topics(stored: StoredPositions, topology: str) -> list[str]:
    where = f"spout {stored.component_id!r} of topology {topology!r}"
    if not stored.encoded:
        hint = 'Give its KafkaSpoutConfig start="timestamp" and start_timestamp_ms=..., which hold for a spout without positions.'
        raise StateError(f"{where} has no stored position that could be moved to a time", hint=hint)
    try:
        if not stored.partitioned:
            raise ValueError
        return topics_of(stored.positions)
    except ValueError:
        hint = "Only the brokers of Kafka know the offset of a time. Set positions of other spouts by PARTITION=POSITION."
        raise StateError(f"{where} is no KafkaSpout, so it has no positions of a time", hint=hint) from None
