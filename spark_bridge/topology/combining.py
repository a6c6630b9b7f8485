"""Committers whose tuples are combined on executors: one row for each key comes back, instead of one for each tuple."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from engine.api import Custom, Direct, Fields, FieldsGrouping, Global
from engine.topology import ComponentSpec, Subscription, Topology
from engine.transactional.feature import COMMITTER
from engine.transactional.transactions import MadeBy
from engine.transactional.values.reduction import Reduction
from spark_bridge.process import pickling

PARTIAL_FIELD: Final = "$partial"


@dataclass(frozen=True, slots=True)
class Combined:
    """One input of a committer that is combined on executors."""

    committer: str
    source: str
    stream: str
    reduction: Reduction

    @property
    def partial_stream(self) -> str:
        """Stream of the source with the partial results."""
        return f"$combined {self.committer} {self.stream}"

    @property
    def partial_fields(self) -> Fields:
        """Fields of this stream: the attempt, the key, the partial result."""
        return Fields("attempt", *self.reduction.keyed_by, PARTIAL_FIELD)


def combined_inputs(topology: Topology, late: frozenset[str]) -> tuple[Combined, ...]:
    """Return the inputs of committers that can be combined. late: components outside of the job."""
    return tuple(
        Combined(spec.component_id, each.source, each.stream, reduction)
        for spec in topology.bolts
        if COMMITTER in spec.marks and (reduction := _reduction_of(spec)) is not None
        for each in spec.subscriptions
        if each.source not in late and not isinstance(each.grouping, (Custom, Direct))  # these may leave tuples out
    )


def _reduction_of(spec: ComponentSpec) -> Reduction | None:
    """Return the reduction of a committer. None if it has none, or if its function cannot be sent to executors."""
    reduction = getattr(spec.factory.create(), "reduction", None)
    try:
        pickling.dumps(reduction)
    except ModuleNotFoundError:
        raise
    except Exception:  # noqa: BLE001 - of user code: the committer then gets each tuple, as in one process
        return None
    return reduction if isinstance(reduction, Reduction) else None


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
    return replace(spec, subscriptions=subscriptions, factory=MadeBy(lambda: _merging(spec)))


def _merged(subscription: Subscription, combined: Combined | None) -> Subscription:
    if combined is None:
        return subscription
    # `build()` lets only one task write a key: by this grouping, or because it is the only task.
    is_keyed = isinstance(subscription.grouping, FieldsGrouping) and subscription.grouping.names == combined.reduction.keyed_by
    return Subscription(subscription.source, combined.partial_stream, subscription.grouping if is_keyed else Global())


def _merging(spec: ComponentSpec) -> Any:
    """Return a committer that merges partial results, and executes all other tuples."""
    committer: Any = spec.factory.create()
    execute, merge = committer.execute, committer.merge
    committer.execute = lambda tup: merge(tup) if tup.stream.startswith("$combined ") else execute(tup)
    return committer


def raw_inputs(described: Topology, late: frozenset[str], combined: tuple[Combined, ...]) -> Iterator[tuple[str, str]]:
    """Yield source and stream of each input outside of the job that needs every tuple."""
    merged = {(each.committer, each.source, each.stream) for each in combined}
    for component_id in sorted(late):
        for each in described.components[component_id].subscriptions:
            if each.source not in late and (component_id, each.source, each.stream) not in merged:
                yield each.source, each.stream
