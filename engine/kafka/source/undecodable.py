"""Handles records that the client cannot decode. The spout reads up to the record, then an error with its offset ends the run (KS-8)."""

import shlex
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from aiokafka import errors

from engine.errors import FatalError
from engine.kafka.client.errors import describe_error, hint_of
from engine.kafka.client.partition import BrokenRecord, PartitionId
from engine.kafka.source.offset_manager import OffsetManager

_MOST_TRIES: Final = 5
"""Number of repeated fetches after a wrong checksum, because the record may be damaged in transit. Other errors are not retried."""


class UndecodableRecord:
    """Place of the record that cannot be decoded, if any. Contains no I/O.

    A poll that reaches such a record returns nothing. So the spout polls the records before the undecodable record one at a time.
    """

    def __init__(self) -> None:
        self._place: BrokenRecord | None = None
        self._tries = 0

    def most_records(self, owned: Mapping[PartitionId, OffsetManager], usual: int) -> int:
        """Return the maximum number of records for the next poll."""
        if self._place is None:
            return usual
        partition, offset, _ = self._place
        if partition in owned and owned[partition].position <= offset:
            return 1
        self._place = None
        return usual

    def is_reached(self, place: BrokenRecord, owned: Mapping[PartitionId, OffsetManager], error: Exception) -> bool:
        """Note that a poll reached the record. Return True if all earlier records were read and no retry is left."""
        self._tries = self._tries + 1 if place == self._place else 1
        self._place = place
        partition, offset, _ = place
        if partition not in owned or owned[partition].position < offset:
            return False
        return not isinstance(error, errors.CorruptRecordException) or self._tries > _MOST_TRIES


Move: TypeAlias = Callable[[PartitionId, object], str]
"""Returns the command that moves a position to an offset."""


def set_position(topology: str, spout: str, partition: PartitionId, offset: object) -> str:
    """Return the command that moves a position of an exact spout. URL stands for the state provider.

    >>> set_position("words", "lines", PartitionId("text", 0), 7)
    'python -m engine positions set URL words lines text-0=7'
    """
    return f"python -m engine positions set URL {shlex.quote(topology)} {shlex.quote(spout)} {partition}={offset}"


def reset_group(group: str, partition: PartitionId, offset: object) -> str:
    """Return the command that moves the position of a group."""
    return f"python -m engine kafka reset --group {group} --topic {partition.topic} --partition {partition.partition} --to {offset}"


def undecodable_error(place: BrokenRecord, error: Exception, move: Move | None) -> FatalError:
    """Return the error that ends the run at such a record. move: None if no position is stored.

    The hint skips the whole batch. A fetch from a later offset of the batch returns the batch, and fails in the same way.
    """
    partition, offset, after = place
    at = f"offset {after}" if after is not None else "the first offset after its batch"
    skip = f"start at {at}"
    if move is not None:
        skip = f"go on at {at}: `{move(partition, 'N' if after is None else after)}`"
    codec = hint_of(error) if isinstance(error, errors.UnsupportedCodecError) else None
    hint = codec or f"The record is damaged, or a header name is not UTF-8. To skip its batch, {skip}."
    found = FatalError(f"{partition}: the record at offset {offset} cannot be decoded: {describe_error(error)}", hint=hint)
    found.__cause__ = error
    return found
