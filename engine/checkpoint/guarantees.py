"""Says who is exact, before a run starts: each source with its guarantee and the reason, and each bolt with its part (EO-7).

Plain computation. The checks of `build()`, the start of a run, the commands `check` and `graph`, the snapshot and the page all show what
`guarantees` returns.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from engine.config import Config
from engine.topology import ComponentSpec, Topology
from engine.topology.spec import AT_CHECKPOINTS, COMMITTER

KEEPS_STATE: Final = "keeps_state"
"""Class attribute of stateful bolts."""
REWINDS: Final = "rewinds"
EMITS_RESULTS: Final = "emits_results"
"""What a bolt emits on its default stream belongs to no row, such as results of windows. All rows that it takes end there."""
PARTITIONED: Final = "partitioned"
"""Class attributes of spouts whose positions are in the checkpoint."""

SourceGuarantee: TypeAlias = Literal["exactly once", "at least once"]
BoltPart: TypeAlias = Literal["stateful", "committer", "stateless"]
EXACTLY_ONCE: Final[SourceGuarantee] = "exactly once"
AT_LEAST_ONCE: Final[SourceGuarantee] = "at least once"


@dataclass(frozen=True, slots=True)
class Source:
    """How often a row of a spout counts."""

    component_id: str
    guarantee: SourceGuarantee
    why: str
    """The reason, such as "it has no seek() and position()"."""


@dataclass(frozen=True, slots=True)
class Guarantees:
    """Who is exact in a topology that keeps state or has a committer."""

    sources: tuple[Source, ...]
    """The user's spouts, in the order of declaration."""
    parts: Mapping[str, BoltPart]
    """The part that each bolt has in a checkpoint, by component id."""
    may_repeat: tuple[str, ...]
    """Bolts whose effects outside, such as a mail, may happen again after a failure."""

    def bolts(self, part: BoltPart) -> tuple[str, ...]:
        """Return the bolts that have this part."""
        return tuple(component_id for component_id, each in self.parts.items() if each == part)

    def lines(self) -> Iterator[str]:
        """Yield the sentences of a log or a terminal."""
        for source in self.sources:
            yield f"{source.component_id!r} {source.guarantee}: {source.why}"
        if self.may_repeat:
            yield f"effects outside of {_names(self.may_repeat)} may happen again after a failure"

    def labels(self) -> Mapping[str, str]:
        """Return a few words for each component that a drawing marks."""
        labels: dict[str, str] = {source.component_id: source.guarantee for source in self.sources}
        labels |= {component_id: part for component_id, part in self.parts.items() if part != "stateless"}
        return labels | dict.fromkeys(self.may_repeat, "effects may repeat")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Guarantees":
        """Return the guarantees of a result of `dataclasses.asdict` that was JSON."""
        return cls(tuple(Source(**each) for each in value["sources"]), dict(value["parts"]), tuple(value["may_repeat"]))


def guarantees(topology: Topology, config: Config) -> Guarantees | None:
    """Return who is exact in a run with this config. None for a topology without state and committers, which has no checkpoints."""
    parts: dict[str, BoltPart] = {spec.component_id: _part(spec) for spec in topology.bolts}
    if set(parts.values()) <= {"stateless"}:
        return None
    sources = tuple(_source(spec, config) for spec in topology.spouts)
    may_repeat = tuple(bolt for bolt, part in parts.items() if part == "stateless" and not topology.targets(bolt))
    return Guarantees(sources, parts, may_repeat)


def rewinding_spouts(topology: Topology, config: Config) -> list[ComponentSpec]:
    """Return the spouts whose rows are processed exactly once in a run with this config."""
    return [spec for spec in topology.spouts if _source(spec, config).guarantee == EXACTLY_ONCE]


def inexact(topology: Topology, config: Config) -> Iterator[str]:
    """Yield the reasons for which a topology with state cannot be exact, with their remedies (EO-7)."""
    wish = "processing_guarantee='exactly_once'"
    for spec in topology.spouts:
        source = _source(spec, config)
        if source.guarantee != EXACTLY_ONCE:
            yield (
                f"{spec.where}: {wish} needs a source that can rewind, and {source.why}. Give it these methods, or write "
                "@spout(..., positions=True) or @spout(..., repeatable=True)."
            )
    if _is_lost(config):
        yield f"state_provider={config.state_provider!r}: {wish} needs a store that survives the process, such as sqlite:///state.db."


def _source(spec: ComponentSpec, config: Config) -> Source:
    if config.processing_guarantee == "at_least_once":
        return Source(spec.component_id, AT_LEAST_ONCE, "processing_guarantee='at_least_once'")
    if REWINDS not in spec.marks:
        return Source(spec.component_id, AT_LEAST_ONCE, "it has no seek() and position()")
    until = ", until the process ends, because state_provider='memory://' ends with it" if _is_lost(config) else ""
    return Source(spec.component_id, EXACTLY_ONCE, f"it has seek() and position(){until}")


def _part(spec: ComponentSpec) -> BoltPart:
    if spec.marks.issuperset((COMMITTER, AT_CHECKPOINTS)):
        return "committer"
    return "stateful" if KEEPS_STATE in spec.marks else "stateless"


def _is_lost(config: Config) -> bool:
    """Tell whether the state is lost with the process."""
    return config.state_provider.startswith("memory:")


def _names(component_ids: Iterable[str]) -> str:
    return ", ".join(map(repr, component_ids))
