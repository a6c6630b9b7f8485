"""What stands in the checkpoint's ledger, written and read here alone: the record, the codec, the layouts, and the mark of a deletion."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final, cast

from engine.checkpoint.machine import Record
from engine.errors import StateError
from engine.state import Codec, StatePlace, codec_named

LEDGER: Final = "$checkpoint"
ALL: Final = "$all"
"""In the mark of a deletion: the whole topology; no component may have this id."""
_LAYOUT: Final = "layout:"
_DELETING: Final = "deleting"
_CHECKSUMS: Final = "checksums"


def record_entry(record: Record) -> dict[str, object]:
    """The record of the machine."""
    counted = [list(each) for each in record.counted]
    return {"record": [record.phase, record.txid, record.round, record.prepared_round, counted]}


def codec_entry(codec: Codec) -> dict[str, object]:
    """What values and deltas are written with."""
    return {"codec": [codec.name, codec.format]}


def checksums_entry(*, all_blocks: bool) -> dict[str, object]:
    """Whether all rows and deltas have checksums, or only those that were written since a version with checksums runs the topology."""
    return {_CHECKSUMS: all_blocks}


def layout_entries(places: Iterable[StatePlace]) -> dict[str, object]:
    """How the state of each component is divided among its tasks."""
    return {f"{_LAYOUT}{place.component_id}": [place.keyed, place.tasks, place.key_groups] for place in places}


def deletion_entry(component_ids: Iterable[str]) -> dict[str, object]:
    """The mark of what is being deleted, which no run may take for whole; ALL for a topology. Without any the mark is removed."""
    return {_DELETING: sorted(component_ids) or None}


def deleted_layout_entry(component_id: str) -> dict[str, object]:
    """A component whose state is deleted has no layout."""
    return {f"{_LAYOUT}{component_id}": None}


class StoredEntries:
    """The entries of a topology's ledger, decoded. Raises StateError for what is none of ours."""

    def __init__(self, entries: Mapping[str, object], topology_name: str) -> None:
        self._entries = entries
        self._topology_name = topology_name

    @cached_property
    def record(self) -> Record:
        """The record of the machine; the first one where none is stored."""
        entry = self._entries.get("record")
        if entry is None:
            return Record()
        try:
            phase, txid, round_, prepared_round, counted = cast(tuple[Any, int, int, int, list[tuple[int, int]]], entry)
            record = Record(phase, txid, round_, prepared_round, tuple((each[0], each[1]) for each in counted))
        except (TypeError, ValueError, LookupError):
            raise self._damaged("record", entry) from None
        numbers = (txid, round_, prepared_round, *(number for each in record.counted for number in each))
        if phase not in ("committed", "preparing", "committing") or not all(type(number) is int for number in numbers):
            raise self._damaged("record", entry)
        return record

    @cached_property
    def layouts(self) -> dict[str, StatePlace]:
        """The layout of each component that has ever stored something, as the place of its first task."""
        layouts = {}
        for name, entry in self._entries.items():
            if name.startswith(_LAYOUT):
                component_id = name.removeprefix(_LAYOUT)
                try:
                    keyed, tasks, key_groups = cast(tuple[Any, int, int], entry)
                except (TypeError, ValueError):
                    raise self._damaged(name, entry) from None
                if type(keyed) is not bool or not all(type(number) is int and number > 0 for number in (tasks, key_groups)):
                    raise self._damaged(name, entry)
                layouts[component_id] = StatePlace(component_id, 0, tasks, keyed, key_groups)
        return layouts

    @cached_property
    def deleting(self) -> frozenset[str]:
        """The components whose deletion has begun, or ALL."""
        entry = self._entries.get(_DELETING)
        if entry is None:
            return frozenset()
        if not isinstance(entry, list) or not all(isinstance(each, str) for each in entry):
            raise self._damaged(_DELETING, entry)
        return frozenset(entry)

    @property
    def has_bare_blocks(self) -> bool:
        """True where rows or deltas may be stored without a checksum: a version that wrote none has run the topology."""
        return "record" in self._entries and self._entries.get(_CHECKSUMS) is not True

    @cached_property
    def codec(self) -> Codec | None:
        """A codec for what is stored; None where nothing is. Raises StateError where a newer version wrote it."""
        name_and_format = self._codec
        if name_and_format is None:
            return None
        name, format_ = name_and_format
        codec = codec_named(cast(Any, name))
        self._check_format(format_, codec)
        return codec

    @cached_property
    def _codec(self) -> tuple[str, int] | None:
        entry = self._entries.get("codec")
        try:
            return None if entry is None else (str(entry[0]), int(entry[1]))  # type: ignore[index]
        except (TypeError, ValueError, LookupError):
            raise self._damaged("codec", entry) from None

    def check_codec(self, codec: Codec) -> None:
        """Refuse a run whose codec is another than that of what is stored."""
        if self._codec is None:
            return
        name, format_ = self._codec
        if name != codec.name:
            raise StateError(
                f"the state of topology {self._topology_name!r} was written with state_codec={name!r}, and this run has {codec.name!r}",
                hint=f"Run it with Config(state_codec={name!r}), or begin with an empty state.",
            )
        self._check_format(format_, codec)

    def _check_format(self, format_: int, codec: Codec) -> None:
        if format_ > codec.format:
            raise StateError(
                f"the state of topology {self._topology_name!r} was written by a newer version of the engine",
                hint="Install that version; nothing was changed.",
            )

    def check_whole(self) -> None:
        """Refuse what a deletion has begun to take away."""
        if not self.deleting:
            return
        what = "" if ALL in self.deleting else f" of {', '.join(map(repr, sorted(self.deleting)))}"
        raise StateError(
            f"the state{what} of topology {self._topology_name!r} is being deleted, and no longer whole",
            hint="Where nobody does it now, it was interrupted. Finish it: python -m engine state delete, as before.",
        )

    def _damaged(self, name: str, entry: object) -> StateError:
        return StateError(
            f"the entry {name!r} of topology {self._topology_name!r} cannot be read: {entry!r}",
            hint="It is damaged, or of a newer version of the engine.",
        )
