"""Feature of topologies without batches, which refuses batch bolts. `transactions` has the feature of topologies with batches."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from engine.config import Config
from engine.control import Feature, FeatureRun
from engine.topology import Topology

BATCHED: Final = "is_batched"
"""Class attribute of batch bolts (TX-5)."""
COMMITTER: Final = "is_committer"
"""Class attribute of batch bolts that finish in the commit phase (TX-2)."""


def coordinator_id(spout_id: str) -> str:
    """Return the component id of the coordinator of a spout."""
    return f"{spout_id}/coordinator"


class TransactionalFeature(Feature):
    """Refuses batch bolts in a topology without batches. TransactionalTopologyBuilder replaces it by `Transactions`."""

    name = "transactional"
    marks: ClassVar[Any] = {"bolt": (BATCHED, COMMITTER)}

    def graph_faults(self, topology: Topology) -> Iterator[str]:
        """Yield a fault for each batch bolt."""
        for spec in topology.bolts:
            if BATCHED in spec.marks:
                yield f"{spec.where}: is a batch bolt, but this topology has no batches. Build it with TransactionalTopologyBuilder."

    def new_run(self, topology: Topology, config: Config) -> FeatureRun:
        """Return a FeatureRun that does nothing."""
        return FeatureRun()
