"""Finds the start positions of partitions. A partition starts at its commit, or at the position that the settings name (KS-5, KS-7)."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.client.partition import PartitionId
from engine.kafka.source import acked_set
from engine.kafka.source.spout_config import KafkaSpoutConfig


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Start position of one partition, and facts about it."""

    offset: int
    committed: int | None = None
    """Committed offset at which reading starts."""
    metadata: str | None = None
    """Metadata of the commit, if this topology wrote it and its acked set is used."""
    foreign_metadata: str = ""
    """Any other metadata of the commit."""
    skips: tuple[int, ...] = ()
    """Runs of finished offsets above `committed`."""
    dropped: int = 0
    """Number of offsets in an acked set that cannot be used."""
    foreign: str | None = None
    """Topology that wrote the commit, if it is another one."""
    unsure: str | None = None
    """Shortened topology name in the commit, if it may be this topology or another one."""
    missing: int | None = None
    """Wanted offset, if the broker does not have it."""
    first: int = 0
    last: int = 0
    """The broker has the offsets from `first` to before `last`."""
    must_commit: bool = False
    """True if this position must be committed, because a later start would find another position."""

    def within(
        self, first: int, last: int, out_of_range: Literal["earliest", "latest", "fail"], *, last_is_stable: bool = False
    ) -> "StartPosition":
        """Return this position limited to the broker's offsets. A position outside these offsets is moved and loses its acked set (KS-7).

        last_is_stable: `last` is the last stable offset, so records of an open transaction may follow it.
        """
        dropped = self.dropped + acked_set.count(self.skips)
        if first <= self.offset and (self.offset <= last or last_is_stable):
            if self.skips and self.skips[-1] > last and not last_is_stable:  # other records will get these offsets
                return replace(self, metadata=None, foreign_metadata=self.metadata or "", skips=(), dropped=dropped, first=first, last=last)
            return replace(self, first=first, last=last)
        offset = last if out_of_range == "latest" else first
        moved = StartPosition(offset, dropped=dropped, foreign=self.foreign, unsure=self.unsure)
        return replace(moved, missing=self.offset, first=first, last=last, must_commit=out_of_range != "fail")


async def find_start_positions(
    link: ConsumerLink,
    config: KafkaSpoutConfig,
    topology: str,
    partitions: Collection[PartitionId],
    unread: Mapping[PartitionId, int] = MappingProxyType({}),
    added: Collection[PartitionId] = (),
) -> dict[PartitionId, StartPosition]:
    """Return the start position of each of these partitions.

    unread: positions of running partitions whose next offset does not exist. added: partitions that did not exist when the spout started.
    Such partitions are read from their first offset even with "latest". Otherwise records from before their discovery would never be read.
    """
    first, last = await asyncio.gather(link.bounds(partitions, "earliest"), link.bounds(partitions, "latest"))
    committed = await link.committed([one for one in partitions if one not in unread])
    at_time: Mapping[PartitionId, int] = {}
    if config.start == "timestamp" and config.start_timestamp_ms is not None:
        at_time = await link.at_time([one for one in partitions if one not in committed and one not in unread], config.start_timestamp_ms)
    late = config.start in ("latest", "uncommitted_latest", "timestamp")
    found = {}
    for partition in partitions:
        offset, metadata = committed.get(partition, (None, ""))
        start = None if offset is None else position_at_commit(config, topology, offset, metadata)
        if partition in unread:
            start = StartPosition(unread[partition])
        elif start is None:
            beginning = at_time.get(partition, (last if late and partition not in added else first)[partition])
            note = acked_set.decode(metadata)
            dropped = acked_set.count(note.runs) if note else 0
            start = StartPosition(beginning, dropped=dropped, unsure=_unsure(note, topology), must_commit=late)
        stable = config.isolation_level == "read_committed" and partition not in unread
        found[partition] = start.within(first[partition], last[partition], config.out_of_range, last_is_stable=stable)
    return found


def position_at_commit(config: KafkaSpoutConfig, topology: str, offset: int, metadata: str) -> StartPosition | None:
    """Return the start position at a commit. None if the settings name another position."""
    note = acked_set.decode(metadata)
    mine = note.is_by(topology) if note is not None else False
    if mine is False and config.start in ("earliest", "latest"):
        return None
    if mine is None and config.start == "earliest":
        return None  # the beginning loses no record, whoever wrote the commit; "latest" could, so it uses the commit
    if mine and note is not None and note.base == offset and config.carries_acked_set:
        return StartPosition(offset, offset, metadata, skips=note.runs)
    foreign = acked_set.shown_name(note.topology) if note is not None and mine is False else None
    dropped = acked_set.count(note.runs) if note else 0
    return StartPosition(offset, offset, None, metadata, dropped=dropped, foreign=foreign, unsure=_unsure(note, topology))


def _unsure(note: acked_set.CommitNote | None, topology: str) -> str | None:
    return acked_set.shown_name(note.topology) if note is not None and note.is_by(topology) is None else None
