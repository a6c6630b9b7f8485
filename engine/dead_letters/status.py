"""Snapshot of the dead letters of a topology, and its entry in the run's snapshot (DL-4)."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from engine.control import SnapshotEntry
from engine.dead_letters.letter import clipped
from engine.metrics import Family, Sample

ENTRY: Final = "dead_letters"
"""Entry of the snapshot."""
ERROR_IN_VIEWS: Final = 100


@dataclass(frozen=True, slots=True)
class DeadLettersSnapshot:
    """The dead letters of a topology at one moment."""

    stored: int
    """Letters in the state provider, those of earlier runs included."""
    given_up: int = 0
    """Rows that this run has given up."""
    last_component_id: str | None = None
    last_error: str | None = None
    """Component and error of the newest letter. None: there is no letter."""


class DeadLettersEntry(SnapshotEntry):
    """Dead letters in a snapshot. `snapshot.entry(DeadLettersEntry).value` is None before the store has been read."""

    name = ENTRY
    value: DeadLettersSnapshot | None

    def __init__(self, value: DeadLettersSnapshot | None) -> None:
        self.value = value

    def to_json(self) -> Any:
        """Return the fields of the value."""
        return None if self.value is None else asdict(self.value)

    @classmethod
    def from_json(cls, value: Any) -> "DeadLettersEntry":
        """Return the entry of a result of `to_json`."""
        return cls(None if value is None else DeadLettersSnapshot(**value))

    def families(self, topology_name: str) -> Iterable[Family]:
        """Return the numbers of letters."""
        if self.value is not None:
            labels = {"topology": topology_name}
            stored, given_up = Sample(labels, self.value.stored), Sample(labels, self.value.given_up, "_total")
            yield Family("stormcell_dead_letters", "gauge", "Rows that were given up, in the state provider.", (stored,))
            yield Family("stormcell_rows_given_up", "counter", "Rows that this run has given up.", (given_up,))

    def text(self) -> str | None:
        """Return the number of letters with the newest error. None without letters."""
        value = self.value
        if value is None or not value.stored:
            return None
        last = f" · last {value.last_component_id} {self._last_error}" if value.last_component_id is not None else ""
        return f"dead letters {value.stored:,}{last}"

    def end_text(self) -> str | None:
        """Return the number of letters of this run with the newest error. None if it has given up no row."""
        value = self.value
        if value is None or not value.given_up:
            return None
        rows = "1 row is a dead letter" if value.given_up == 1 else f"{value.given_up:,} rows are dead letters"
        last = f" (last error, of {value.last_component_id!r}: {self._last_error})" if value.last_component_id is not None else ""
        return f"{rows} of this run{last}. List them: python -m engine dead-letters list"

    @property
    def _last_error(self) -> str:
        error = None if self.value is None else self.value.last_error
        return "" if error is None else clipped(error.partition("\n")[0], ERROR_IN_VIEWS)
