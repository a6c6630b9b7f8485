"""Encodes and decodes the entries of the checkpoint ledger.

The entries are the record, the codec, the checksum mark, the layouts, and the mark of a deletion. Only this module knows their form.
"""

from collections.abc import Container, Iterable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple, cast

from engine.checkpoint.machine import Record
from engine.errors import StateError
from engine.state import Codec, StatePlace, codec_named

LEDGER: Final = "$checkpoint"
ALL: Final = "$all"
"""Stands for the whole topology in the mark of a deletion. No component may have this id."""
_LAYOUT: Final = "layout:"
_OUTPUT: Final = "output:"
_REFUSED: Final = "refused:"
_STAGERS: Final = "stagers:"
_PUBLISHING: Final = "publishing"
_DELETING: Final = "deleting"
_CHECKSUMS: Final = "checksums"


def record_entry(record: Record) -> dict[str, object]:
    """Return the entry of the machine's record."""
    counted = [list(each) for each in record.counted]
    return {"record": [record.phase, record.txid, record.round, record.prepared_round, counted]}


def codec_entry(codec: Codec) -> dict[str, object]:
    """Return the entry of the codec of values and deltas."""
    return {"codec": [codec.name, codec.format]}


def checksums_entry(*, all_blocks: bool) -> dict[str, object]:
    """Return the entry that tells whether all rows and deltas have checksums. Old versions wrote none."""
    return {_CHECKSUMS: all_blocks}


def layout_entries(places: Iterable[StatePlace]) -> dict[str, object]:
    """Return the entries of the layouts. A layout tells how the state of a component is divided among its tasks."""
    return {f"{_LAYOUT}{place.component_id}": [place.keyed, place.tasks, place.key_groups] for place in places}


def output_entries(tasks: Mapping[str, int | None]) -> dict[str, object]:
    """Return the entries of the committers: by component id, the number of tasks that have staged a commit. None removes the entry."""
    return {f"{_OUTPUT}{component_id}": count for component_id, count in tasks.items()}


def stager_entries(tasks: Mapping[str, int | None]) -> dict[str, object]:
    """Return the entries of what may have staged output: by component id, the number of tasks. None removes the entry."""
    return {f"{_STAGERS}{component_id}": count for component_id, count in tasks.items()}


class Publishing(NamedTuple):
    """Processes that have ended while they published a checkpoint (EO-9)."""

    txid: int
    deaths: int
    component_ids: tuple[str, ...]
    """The committers whose output was not published when the last of them began."""
    is_under_way: bool
    """True if one more process was publishing when this was written."""

    @property
    def ended(self) -> int:
        """Number of processes that have ended so, if none runs."""
        return self.deaths + self.is_under_way


def publishing_entry(publishing: Publishing | None) -> dict[str, object]:
    """Return the entry of the processes that have ended while they published. None, or no process, removes the entry."""
    if publishing is None or not publishing.ended:
        return {_PUBLISHING: None}
    return {_PUBLISHING: [publishing.txid, publishing.deaths, list(publishing.component_ids), publishing.is_under_way]}


class Refused(NamedTuple):
    """Rows of a staged output that the target of a committer refuses (EO-9)."""

    txid: int
    round: int
    rows: frozenset[int]
    """Their numbers in the output."""


def refused_entry(component_id: str, task_index: int, refused: Refused) -> dict[str, object]:
    """Return the entry of the rows that the target of a committer refuses."""
    return {f"{_REFUSED}{task_index}:{component_id}": [refused.txid, refused.round, sorted(refused.rows)]}


def deletion_entry(component_ids: Iterable[str]) -> dict[str, object]:
    """Return the entry with the mark of a deletion: the component ids, or ALL for a topology. Without ids the entry removes the mark."""
    return {_DELETING: sorted(component_ids) or None}


def deleted_layout_entry(component_id: str) -> dict[str, object]:
    """Return the entry that removes the layout of a component."""
    return {f"{_LAYOUT}{component_id}": None}


class StoredEntries:
    """Decoded entries of a topology's ledger. The properties raise StateError for damaged entries."""

    def __init__(self, entries: Mapping[str, object], topology_name: str) -> None:
        self.entries = entries
        self._topology_name = topology_name

    @cached_property
    def record(self) -> Record:
        """The record of the machine. If none is stored, a new record."""
        entry = self.entries.get("record")
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
        """Layouts of all components that have stored something, as the place of the first task."""
        layouts = {}
        for name, entry in self.entries.items():
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
    def outputs(self) -> dict[str, int]:
        """Number of tasks that have staged the output of the last commit, by the component id of the committer."""
        return self._task_numbers(_OUTPUT)

    @cached_property
    def stagers(self) -> dict[str, int]:
        """Number of tasks that may have staged output, also such that never counts, by the component id of the committer."""
        return self._task_numbers(_STAGERS)

    def _task_numbers(self, prefix: str) -> dict[str, int]:
        numbers = {}
        for name, entry in self.entries.items():
            if name.startswith(prefix):
                if type(entry) is not int or entry < 1:
                    raise self._damaged(name, entry)
                numbers[name.removeprefix(prefix)] = entry
        return numbers

    @property
    def publishing(self) -> Publishing | None:
        """Processes that have ended while they published a checkpoint. None: none has."""
        entry = self.entries.get(_PUBLISHING)
        if entry is None:
            return None
        try:
            txid, deaths, component_ids, is_under_way = cast(tuple[int, int, list[str], bool], entry)
        except (TypeError, ValueError):
            raise self._damaged(_PUBLISHING, entry) from None
        if type(txid) is not int or type(deaths) is not int or not all(isinstance(each, str) for each in component_ids):
            raise self._damaged(_PUBLISHING, entry)
        return Publishing(txid, deaths, tuple(component_ids), bool(is_under_way))

    def refused(self, component_id: str) -> dict[int, Refused]:
        """Return the rows that the target of a committer has refused, by task index."""
        refused = {}
        for name, entry in self.entries.items():
            task_index, _, owner = name.removeprefix(_REFUSED).partition(":")
            if name.startswith(_REFUSED) and owner == component_id:
                try:
                    txid, round_, rows = cast(tuple[int, int, list[int]], entry)
                    refused[int(task_index)] = Refused(txid, round_, frozenset(rows))
                except (TypeError, ValueError):
                    raise self._damaged(name, entry) from None
        return refused

    @cached_property
    def deleting(self) -> frozenset[str]:
        """Component ids whose deletion has begun, or ALL."""
        entry = self.entries.get(_DELETING)
        if entry is None:
            return frozenset()
        if not isinstance(entry, list) or not all(isinstance(each, str) for each in entry):
            raise self._damaged(_DELETING, entry)
        return frozenset(entry)

    @property
    def has_bare_blocks(self) -> bool:
        """True if rows or deltas may have no checksum, because an old version has run the topology."""
        return "record" in self.entries and self.entries.get(_CHECKSUMS) is not True

    @cached_property
    def codec(self) -> Codec | None:
        """Codec of the stored values. None if nothing is stored. Raises StateError if a newer version wrote the values."""
        name_and_format = self._codec
        if name_and_format is None:
            return None
        name, format_ = name_and_format
        codec = codec_named(cast(Any, name))
        self._check_format(format_, codec)
        return codec

    @cached_property
    def _codec(self) -> tuple[str, int] | None:
        entry = self.entries.get("codec")
        try:
            return None if entry is None else (str(entry[0]), int(entry[1]))  # type: ignore[index]
        except (TypeError, ValueError, LookupError):
            raise self._damaged("codec", entry) from None

    def check_codec(self, codec: Codec) -> None:
        """Raise StateError if the run has another codec than the stored values."""
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
                hint="Install that version. Nothing was changed.",
            )

    def check_whole(self) -> None:
        """Raise StateError if a deletion has begun."""
        if not self.deleting:
            return
        what = "" if ALL in self.deleting else f" of {', '.join(map(repr, sorted(self.deleting)))}"
        raise StateError(
            f"the state{what} of topology {self._topology_name!r} is being deleted, and is incomplete",
            hint="If no deletion runs now, it was interrupted. To finish it, repeat the same command: python -m engine state delete.",
        )

    def check_committers(self, component_ids: Container[str]) -> None:
        """Raise StateError if a committer is not among these, and its output of a decided checkpoint may not be published."""
        lost = sorted(each for each in self.outputs if each not in component_ids)
        if lost and self.record.phase == "committing":
            text = f"topology {self._topology_name!r}: checkpoint {self.record.txid} counts, but its output of {', '.join(map(repr, lost))}"
            raise StateError(f"{text} may not be published, and this run has no such committer", hint="Run it once more with it.")

    def _damaged(self, name: str, entry: object) -> StateError:
        return StateError(
            f"the entry {name!r} of topology {self._topology_name!r} cannot be read: {entry!r}",
            hint="It is damaged, or of a newer version of the engine.",
        )
