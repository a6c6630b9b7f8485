"""`Positions`: how far the last commit and the running PREPARE have come in the sources of a run (EO-1, EO-2). No clock, no store."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from engine.checkpoint.stored_positions import CODEC, SourceLayout, StoredPositions, encoded_positions, partition_named, positions_of
from engine.log import EngineLogger

LOGGER: Final = EngineLogger("engine.checkpoint")


class Positions:
    """The positions of all sources of a run. Those of a PREPARE count when it is committed."""

    def __init__(self, topology_name: str, layouts: Collection[SourceLayout]) -> None:
        self._topology_name = topology_name
        self.layouts: Final = {layout.component_id: layout for layout in layouts}
        self._committed: dict[str, dict[str, bytes]] = {}
        """Encoded positions by component, and by partition or task index, as text."""
        self._taken: dict[str, dict[str, bytes]] = {}
        """Positions of the running PREPARE."""

    def take_up(self, entries: Mapping[str, object], *, has_state: bool) -> set[str]:
        """Read the positions of the last commit from the ledger. Return the spouts that had another parallelism then.

        Raises StateError if the positions do not fit the spouts of this run. has_state: True if a checkpoint has been committed before.
        """
        changed = set[str]()
        for component_id, layout in self.layouts.items():
            stored = positions_of(entries, component_id, self._topology_name)
            if stored is not None and stored.encoded:
                self._committed[component_id] = stored.encoded
                layout.check(stored, self._topology_name)
                if stored.tasks != layout.tasks:
                    changed.add(component_id)
            elif stored is None and has_state:
                LOGGER.warning(
                    "topology %r: there is state, but no position of the spout %r is stored, so it begins as at its first start. If it "
                    "has another id than before, give it the old one. If its rows are counted already, delete the state",
                    self._topology_name, component_id,
                )  # fmt: skip
        return changed

    def begin_prepare(self) -> None:
        """Forget the positions of an earlier PREPARE."""
        self._taken = {component_id: {} for component_id in self.layouts}

    def note_taken(self, component_id: str, task_index: int, position: Any) -> None:
        """Note the position of a task at the barrier. Raises FatalError for a position that cannot be stored."""
        self._taken[component_id] |= encoded_positions(self.layouts[component_id], task_index, position, self._taken[component_id])

    def entries(self) -> dict[str, object]:
        """Return the entries of the ledger with the positions of the PREPARE. A partition that nobody has reported keeps its position."""
        entries: dict[str, object] = {}
        for name, layout in self.layouts.items():
            encoded = self._committed.get(name, {}) | self._taken.get(name, {})
            entries |= StoredPositions(name, layout.partitioned, layout.tasks, encoded).entry()
        return entries

    def note_committed(self) -> bool:
        """The positions of the PREPARE are those of the last commit now. Return False if they were that before."""
        taken, self._taken = self._taken, {}
        for component_id, positions in taken.items():
            self._committed.setdefault(component_id, {}).update(positions)
        return bool(taken)

    def of_task(self, component_id: str, task_index: int) -> Any:
        """Return the committed position of a task, None if there is none. A partitioned spout gets the positions of all its partitions."""
        committed = self._committed.get(component_id, {})
        if self.layouts[component_id].partitioned:
            return {partition_named(name, True): CODEC.decode(position) for name, position in committed.items()} or None
        return CODEC.decode(committed[str(task_index)]) if str(task_index) in committed else None
