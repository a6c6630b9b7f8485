"""Records that the client cannot decode: read up to, and then told, since whoever skips one has to know which (KS-8)."""

from collections.abc import Mapping
from typing import Final

from aiokafka import errors

from engine.errors import FatalError
from engine.kafka.client.errors import describe_error, hint_of
from engine.kafka.client.partition import PartitionId
from engine.kafka.source.offset_manager import OffsetManager

_MOST_TRIES: Final = 5
"""A record whose checksum is wrong may have been damaged on its way, and is fetched so often; no other fetch mends the rest."""


class UndecodableRecord:
    """The record that is in the way, while there is one. Decides; does nothing.

    The client gives back nothing of a poll that comes upon such a record, so until it is reached one record is polled at a time.
    """

    def __init__(self) -> None:
        self._place: tuple[PartitionId, int] | None = None
        self._tries = 0

    def most_records(self, owned: Mapping[PartitionId, OffsetManager], usual: int) -> int:
        """Return how many records to poll."""
        if self._place is None:
            return usual
        partition, offset = self._place
        if partition in owned and owned[partition].position <= offset:
            return 1
        self._place = None
        return usual

    def is_reached(self, place: tuple[PartitionId, int], owned: Mapping[PartitionId, OffsetManager], error: Exception) -> bool:
        """Note that a poll came upon it; True where all before it was read, and no other try would do better."""
        self._tries = self._tries + 1 if place == self._place else 1
        self._place = partition, offset = place
        if partition not in owned or owned[partition].position < offset:
            return False
        return not isinstance(error, errors.CorruptRecordException) or self._tries > _MOST_TRIES


def undecodable_error(place: tuple[PartitionId, int], error: Exception, group: str | None) -> FatalError:
    """Return the error that such a record ends the run with."""
    partition, offset = place
    skip = f"commit an offset beyond it for group {group!r}" if group else "start beyond it"
    codec = hint_of(error) if isinstance(error, errors.UnsupportedCodecError) else None
    hint = codec or f"Names of headers have to be UTF-8, and the record whole. To go on without it, {skip}."
    found = FatalError(f"{partition}: the record at offset {offset} cannot be decoded: {describe_error(error)}", hint=hint)
    found.__cause__ = error
    return found
