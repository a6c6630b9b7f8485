"""Committers whose tuples are combined on executors: one row for each key comes back, instead of one for each tuple."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from engine.api import Custom, Direct, Fields, FieldsGrouping, Global, Grouping
from engine.topology import ComponentSpec, InstanceFactory, Subscription, Topology
from engine.topology.spec import COMMITTER
from engine.transactional.combining import Combining
from spark_bridge.process import pickling

PARTIAL_FIELD: Final = "$partial"


@dataclass(frozen=True, slots=True)
class Combined:
    """One input of a committer that is combined on executors."""

    committer: str
    source: str
    stream: str
    combining: Combining

    @property
    def partial_stream(self) -> str:
        """Stream of the source with the partial results. Shown to users as an edge of the run."""
        return f"{self.stream}, combined for {self.committer}"

    @property
    def partial_fields(self) -> Fields:
        """Fields of this stream: the attempt, the key, the partial result."""
        return Fields("attempt", *self.combining.keyed_by, PARTIAL_FIELD)


def combined_inputs(topology: Topology, late: frozenset[str]) -> tuple[Combined, ...]:
    """Return the inputs of committers that can be combined. late: components outside of the job."""
    return tuple(
        Combined(spec.component_id, each.source, each.stream, combining)
        for spec in topology.bolts
        if COMMITTER in spec.marks and (combining := _combining_of(spec)) is not None
        for each in spec.subscriptions
        if each.source not in late and _keeps_tasks(spec, each.grouping, combining)
    )


def _keeps_tasks(spec: ComponentSpec, grouping: Grouping, combining: Combining) -> bool:
    """Return whether partial results reach the same task as their tuples would."""
    if isinstance(grouping, (Custom, Direct)):  # these may leave tuples out
        return False
    return spec.parallelism == 1 or _is_keyed(grouping, combining)


def _is_keyed(grouping: Grouping, combining: Combining) -> bool:
    return isinstance(grouping, FieldsGrouping) and grouping.names == combining.keyed_by


def _combining_of(spec: ComponentSpec) -> Combining | None:
    """Return how a committer combines. None if it does not, or if a function of it cannot be sent to executors."""
    committer = spec.factory.create()
    combining: Combining | None = getattr(committer, "combining", None)
    if not callable(getattr(combining, "combiner", None)) or not callable(getattr(committer, "merge", None)):
        return None  # another attribute of this name
    try:
        pickling.dumps(combining)
    except ModuleNotFoundError:
        raise
    except Exception:  # noqa: BLE001 - of user code: the committer then gets each tuple, as in one process
        return None
    return combining


def with_partial_streams(spec: ComponentSpec, combined: tuple[Combined, ...]) -> ComponentSpec:
    """Return a component of the job with the streams of its partial results."""
    partial = {each.partial_stream: each.partial_fields for each in combined if each.source == spec.component_id}
    return replace(spec, streams={**spec.streams, **partial}) if partial else spec


def with_merged_inputs(spec: ComponentSpec, combined: tuple[Combined, ...]) -> ComponentSpec:
    """Return a committer that merges partial results. Any other component is returned unchanged."""
    own = {(each.source, each.stream): each for each in combined if each.committer == spec.component_id}
    if not own:
        return spec
    subscriptions = tuple(_merged(each, own.get((each.source, each.stream))) for each in spec.subscriptions)
    streams = {each.partial_stream for each in own.values()}
    return replace(spec, subscriptions=subscriptions, factory=MergingFactory(spec.factory, frozenset(streams)))


def _merged(subscription: Subscription, combined: Combined | None) -> Subscription:
    if combined is None:
        return subscription
    grouping = subscription.grouping if _is_keyed(subscription.grouping, combined.combining) else Global()
    return Subscription(subscription.source, combined.partial_stream, grouping)


@dataclass(frozen=True, slots=True)
class MergingFactory:
    """Makes committers that merge the tuples of these streams, and execute all others. It is pickled for child processes (PR-1)."""

    factory: InstanceFactory
    streams: frozenset[str]

    def create(self) -> Any:
        """Return a new committer."""
        committer, streams = self.factory.create(), self.streams
        execute, merge = committer.execute, committer.merge
        committer.execute = lambda tup: merge(tup) if tup.stream in streams else execute(tup)
        return committer


def raw_inputs(described: Topology, late: frozenset[str], combined: tuple[Combined, ...]) -> Iterator[tuple[str, str]]:
    """Yield source and stream of each input outside of the job that needs every tuple."""
    merged = {(each.committer, each.source, each.stream) for each in combined}
    for component_id in sorted(late):
        for each in described.components[component_id].subscriptions:
            if each.source not in late and (component_id, each.source, each.stream) not in merged:
                yield each.source, each.stream
