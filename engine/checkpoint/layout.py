"""What the checkpoints of a run store, and whether it fits what an earlier run has stored (CP-9)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from engine.checkpoint.stored_positions import SourceLayout
from engine.errors import StateError
from engine.log import EngineLogger
from engine.state import StatePlace

LOGGER: Final = EngineLogger("engine.checkpoint")


@dataclass(frozen=True, slots=True)
class Layout:
    """What the checkpoints of a run store."""

    places: Collection[StatePlace]
    """One for each task with state."""
    committers: Mapping[str, int]
    """Number of tasks of each committer."""
    sources: Collection[SourceLayout] = ()
    """Those whose positions are in the checkpoint."""


def warn_of_renamed(running: set[str], stored: set[str], topology_name: str) -> None:
    """Warn if bolts have no stored state and stored state has no bolt, because a bolt may have been renamed."""
    if (new := sorted(running - stored)) and (left := sorted(stored - running)):
        LOGGER.warning(
            "topology %r: nothing is stored for %s, which begins with an empty state. State is stored for %s, which is not a bolt of this "
            "run. A bolt finds its state by its id. If you renamed a bolt, give it its old id. To see all: python -m engine state list",
            topology_name, ", ".join(map(repr, new)), ", ".join(map(repr, left)),
        )  # fmt: skip


def check_layout(place: StatePlace, stored: StatePlace | None, topology_name: str) -> None:
    """Raise StateError if stored rows would not be found with this layout (CP-9)."""
    if stored is None:
        return
    where = f"topology {topology_name!r}: bolt {place.component_id!r}"
    if stored.keyed != place.keyed:
        was, now = ("with", "without") if place.keyed else ("without", "with")
        text = f"{where}: its state was stored {was} another grouping than fields groupings, and the bolt is now {now} one"
        raise StateError(text, hint="Keep the groupings, or give the bolt another id.")
    if place.keyed and stored.key_groups != place.key_groups:
        text = f"{where}: its state was stored in {stored.key_groups} key groups, and this run has {place.key_groups}"
        raise StateError(text, hint=f"Run it with Config(key_groups={stored.key_groups}).")
    if not place.keyed and stored.tasks != place.tasks:
        text = (
            f"{where}: its state was stored by {stored.tasks} tasks, and the bolt now has {place.tasks}. "
            "Only fields groupings can redistribute keys"
        )
        raise StateError(text, hint=f"Keep parallelism={stored.tasks}, or feed the bolt by fields groupings alone.")
