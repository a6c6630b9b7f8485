"""Finds the start positions of partitions. A partition starts at its commit, or at the position that the settings name (KS-5, KS-7)."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, NamedTuple

from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.client.log_continuity import Divergence
from engine.kafka.client.partition import LogMark, PartitionId
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
    """Wanted offset, if the broker does not have it, or has other records before it."""
    divergence: Divergence | None = None
    """The log that the broker has, if it is not the log of the wanted offset."""
    mark: LogMark | None = None
    """Mark of the log at the offset. None if nothing is known, so the current topic is the right one."""
    first: int = 0
    last: int = 0
    """The broker has the offsets from `first` to before `last`."""
    must_commit: bool = False
    """True if this position must be committed, because a later start would find another position."""

    ends_run: bool = False
    """True if a checkpoint has this position, and the run must end if it does not exist."""

    @property
    def read_up_to(self) -> int:
        """Offset up to which records were read, in any order."""
        return max((self.offset, *self.skips[-1:]))

    def within(
        self,
        first: int,
        last: int,
        out_of_range: Literal["earliest", "latest", "fail"],
        *,
        last_is_stable: bool = False,
        divergence: Divergence | None = None,
    ) -> "StartPosition":
        """Return this position limited to the broker's offsets. A position outside these offsets is moved and loses its acked set (KS-7).

        last_is_stable: `last` is the last stable offset, so records of an open transaction may follow it. divergence: the log is another
        one. If the broker has lost its end, reading continues where the loss begins (KS-15).
        """
        dropped = self.dropped + acked_set.count(self.skips)
        if divergence is None and first <= self.offset and (self.offset <= last or last_is_stable):
            if self.skips and self.skips[-1] > last and not last_is_stable:  # other records will get these offsets
                return replace(self, metadata=None, foreign_metadata=self.metadata or "", skips=(), dropped=dropped, first=first, last=last)
            return replace(self, first=first, last=last)
        offset, mark = last if out_of_range == "latest" else first, None
        if divergence is not None and divergence.offset is not None:
            offset = max(first, min(self.offset, divergence.offset))
            mark = divergence.mark if offset <= divergence.offset else None
        moved = StartPosition(offset, dropped=dropped, foreign=self.foreign, unsure=self.unsure, divergence=divergence, mark=mark)
        return replace(
            moved, missing=self.read_up_to if divergence else self.offset, first=first, last=last, must_commit=out_of_range != "fail"
        )


class LostPosition(NamedTuple):
    """Position of a running partition whose next offset does not exist any more."""

    offset: int
    """Offset to fetch."""
    unfinished: int
    """Offset of the first record that must still be processed, at most `offset`."""
    mark: LogMark | None
    skips: tuple[int, ...] = ()
    """Runs of finished offsets above `unfinished`."""


class StartSearch(NamedTuple):
    """Partitions whose start positions are wanted, and what is known of them already."""

    partitions: Collection[PartitionId]
    unread: Mapping[PartitionId, LostPosition] = MappingProxyType({})
    """Running partitions whose next offset does not exist."""
    added: Collection[PartitionId] = ()
    """Partitions that did not exist when the spout started.

    They are read from their first offset even with "latest". Otherwise records from before their discovery would never be read.
    """
    stored: Mapping[PartitionId, StartPosition] | None = None
    """Positions of the ledger, for an exact spout. None: the group has the positions."""


async def find_start_positions(
    link: ConsumerLink, config: KafkaSpoutConfig, topology: str, search: StartSearch
) -> dict[PartitionId, StartPosition]:
    """Return the start position of each of these partitions."""
    partitions, unread, added, stored = search
    known = set(unread).union(stored or ())
    first, last = await asyncio.gather(link.bounds(partitions, "earliest"), link.bounds(partitions, "latest"))
    committed = await link.committed([one for one in partitions if one not in known])
    at_time: Mapping[PartitionId, int] = {}
    if config.start == "timestamp" and config.start_timestamp_ms is not None:
        at_time = await link.at_time([one for one in partitions if one not in committed and one not in known], config.start_timestamp_ms)
    late = config.start in ("latest", "uncommitted_latest", "timestamp")
    wanted = {partition: StartPosition(lost.offset, mark=lost.mark) for partition, lost in unread.items()}
    for partition in partitions:
        if partition in unread:
            continue
        if stored is not None and partition in stored:
            wanted[partition] = stored[partition]
            continue
        offset, metadata = committed.get(partition, (None, ""))
        note = acked_set.decode(metadata)
        is_own_copy = stored is not None and note is not None and note.is_copy and note.is_by(topology)
        start = None if offset is None or is_own_copy else position_at_commit(config, topology, offset, metadata)
        if start is None:
            beginning = at_time.get(partition, (last if late and partition not in added else first)[partition])
            dropped = acked_set.count(note.runs) if note else 0
            start = StartPosition(beginning, dropped=dropped, unsure=_unsure(note, topology), must_commit=late)
        wanted[partition] = start
    others = await link.logs.divergences({one: (start.read_up_to, start.mark) for one, start in wanted.items() if start.mark is not None})
    found = {}
    for partition, start in wanted.items():
        stable = config.isolation_level == "read_committed" and partition not in unread
        bounds = first[partition], last[partition]
        is_of_ledger = stored is not None and partition in known
        ends_run = is_of_ledger and config.on_lost == "fail"
        out_of_range = "fail" if ends_run else config.out_of_range
        moved = start.within(*bounds, out_of_range, last_is_stable=stable, divergence=others.get(partition))
        if is_of_ledger and moved.missing is None and start.skips and not moved.skips:
            moved = replace(moved, missing=start.read_up_to)  # the records of its set are gone
        moved = replace(moved, ends_run=ends_run)
        found[partition] = _not_after(unread[partition], moved) if partition in unread else moved
    return found


def _not_after(lost: LostPosition, start: StartPosition) -> StartPosition:
    """Return the start position of a running partition that had records in flight. They are read again, unless the broker lost them."""
    has_them = start.missing is None or (start.divergence is not None and start.divergence.offset is not None)
    if not has_them:
        return start
    runs = zip(lost.skips[::2], lost.skips[1::2], strict=True)
    skips = tuple(bound for begin, end in runs if begin < start.offset for bound in (begin, min(end, start.offset)))
    return replace(start, offset=max(start.first, min(start.offset, lost.unfinished)), skips=skips)


def position_at_commit(config: KafkaSpoutConfig, topology: str, offset: int, metadata: str) -> StartPosition | None:
    """Return the start position at a commit. None if the settings name another position."""
    note = acked_set.decode(metadata)
    mine = note.is_by(topology) if note is not None else False
    if mine is False and config.start in ("earliest", "latest"):
        return None
    if mine is None and config.start == "earliest":
        return None  # the beginning loses no record, whoever wrote the commit; "latest" could, so it uses the commit
    mark = note.mark if note is not None and note.base == offset else None
    if mine and note is not None and note.base == offset and config.carries_acked_set:
        return StartPosition(offset, offset, metadata, skips=note.runs, mark=mark)
    foreign = acked_set.shown_name(note.topology) if note is not None and mine is False else None
    dropped = acked_set.count(note.runs) if note else 0
    return StartPosition(offset, offset, None, metadata, dropped=dropped, foreign=foreign, unsure=_unsure(note, topology), mark=mark)


def _unsure(note: acked_set.CommitNote | None, topology: str) -> str | None:
    return acked_set.shown_name(note.topology) if note is not None and note.is_by(topology) is None else None
