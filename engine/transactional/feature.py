"""Feature of topologies without batches, whose committers work at checkpoints. `transactions` has that of the others."""

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

from engine.config import Config
from engine.control import Feature, FeatureRun, RunStart
from engine.topology import Topology
from engine.topology.spec import AT_CHECKPOINTS, BATCHED, COMMITTER


def coordinator_id(spout_id: str) -> str:
    """Return the component id of the coordinator of a spout."""
    return f"{spout_id}/coordinator"


class TransactionalFeature(Feature):
    """Runs committers and other batch bolts at checkpoints (EO-9). TransactionalTopologyBuilder replaces it by `Transactions`."""

    name = "transactional"
    marks: ClassVar[Any] = {"bolt": (BATCHED, COMMITTER)}

    def graph_faults(self, topology: Topology) -> Iterator[str]:
        """Yield the faults of batch bolts."""
        if any(AT_CHECKPOINTS in spec.marks for spec in topology.bolts):
            from engine.transactional.committer_rules import interval_faults  # here, because most programs need neither

            yield from interval_faults(topology)

    def new_run(self, topology: Topology, config: Config) -> FeatureRun:
        """Return the committers of a new run."""
        return CommittersRun(config)


class CommittersRun(FeatureRun):
    """The committers of one run. Does nothing in a run without any."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def open(self, topology: Topology, start: RunStart) -> Topology:
        """Return the topology in which a bolt of the engine gives the rows of each interval to an instance of the user's bolt."""
        batched = [spec for spec in topology.bolts if AT_CHECKPOINTS in spec.marks]
        if not batched:
            return topology
        from engine.state.codec import codec_named
        from engine.transactional.interval_bolt import IntervalFactory

        components, codec = dict(topology.components), codec_named(self._config.state_codec)
        # The checkpoints, which are opened before, have marked the spouts that cannot rewind, and whose rows reach a bolt that they know.
        may_count_with_failures = any(spec.holds_acks for spec in topology.spouts)
        for spec in batched:
            factory = IntervalFactory(spec, codec, COMMITTER in spec.marks, may_count_with_failures)
            components[spec.component_id] = replace(spec, factory=factory)
        return replace(topology, components=MappingProxyType(components))
