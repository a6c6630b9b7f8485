"""The rules of flows that depend on the config of a run: names of stages with state, and committers that need an exact source."""

from collections.abc import Iterator
from typing import ClassVar

from engine.checkpoint.guarantees import EXACTLY_ONCE, guarantees
from engine.config import Config
from engine.topology import Topology
from engine.topology.spec import TopologyFeature


class StreamsFeature(TopologyFeature):
    """Checks the topology of a flow."""

    name: ClassVar[str] = "streams"

    def __init__(self, unnamed: tuple[str, ...]) -> None:
        """unnamed: stages with state to which the user has given no name."""
        self._unnamed = unnamed

    def run_faults(self, topology: Topology, config: Config) -> Iterator[str]:
        """Yield the faults of a flow with this config. `Flow.topology` and each new run call this."""
        if not config.state_provider.startswith("memory:"):
            for stage in self._unnamed:
                yield (
                    f"stage {stage!r}: state_provider={config.state_provider!r} keeps its state under this name, which the engine has "
                    "made. Give the stage a name of your own: name=..., so that a later version of the program finds its state."
                )
        yield from self._committer_faults(topology, config)

    def _committer_faults(self, topology: Topology, config: Config) -> Iterator[str]:
        found = guarantees(topology, config)
        committers = found.bolts("committer") if found is not None else ()
        if found is None or not committers:
            return
        for source in found.sources:
            if source.guarantee != EXACTLY_ONCE:
                yield (
                    f"source {source.component_id!r}: its rows come at least once, because {source.why}. So {committers[0]!r} would not "
                    "commit them exactly once. Take a source with seek() and position(), or write to a sink that sets values."
                )
