"""Rules of committers and of other batch bolts, in topologies with batches and without (TX-8, EO-9)."""

from collections.abc import Iterator

from engine.api import FieldsGrouping
from engine.names import FAILED_STREAM, is_reserved
from engine.topology import ComponentSpec, Topology
from engine.topology.factory import Factory, FactoryFault
from engine.topology.spec import AT_CHECKPOINTS, COMMITTER


def interval_faults(topology: Topology) -> Iterator[str]:
    """Yield the faults of the committers and batch bolts of a topology without batches (EO-9)."""
    has_checkpoints = any(not spec.marks.isdisjoint(("keeps_state", COMMITTER)) for spec in topology.bolts)
    for spec in topology.bolts:
        if AT_CHECKPOINTS not in spec.marks:
            continue
        if not has_checkpoints:
            yield (
                f"{spec.where}: is a batch bolt, but this topology has no batches. Build it with TransactionalTopologyBuilder, or declare "
                "a committer by set_committer(), which gives the topology checkpoints."
            )
        yield from _settings_faults(spec)
        declared = _declared(spec)
        if COMMITTER in spec.marks:
            yield from _subscriber_faults(topology, spec)
            if declared is not None:
                yield from committer_faults(spec.where, spec, declared, opaque=False)
        if declared is not None and not isinstance(declared, type):
            yield from field_faults(topology, spec.component_id, tuple(getattr(declared, "reads", ())))


def _declared(spec: ComponentSpec) -> object:
    if not isinstance(spec.factory, Factory):
        return None
    try:
        return spec.factory.declared()
    except FactoryFault:
        return None  # the builder reports it


def _settings_faults(spec: ComponentSpec) -> Iterator[str]:
    if spec.settings.tick_tuple_freq_secs is not None:
        yield f"{spec.where}: a tick belongs to no interval. Leave tick_tuple_freq_secs out."
    if spec.settings.processes:
        yield f"{spec.where}: a committer lives in the process of the run, so processes=True is not possible. Remove it."
    if not spec.subscriptions:
        yield f"{spec.where}: has no input. Subscribe it to a stream: .shuffle_grouping(SOURCE)."


def _subscriber_faults(topology: Topology, spec: ComponentSpec) -> Iterator[str]:
    for bolt in topology.bolts:
        for subscription in bolt.subscriptions:
            stream = subscription.stream
            if subscription.source == spec.component_id and stream != FAILED_STREAM and not is_reserved(stream):
                yield (
                    f"{bolt.where}: subscribes to the committer {spec.component_id!r}, which publishes when a checkpoint counts. What it "
                    "emitted then would belong to the next checkpoint, and be lost with it. Subscribe to the inputs of the committer, or "
                    "build the topology with TransactionalTopologyBuilder."
                )


def field_faults(topology: Topology, component_id: str, names: tuple[str, ...]) -> Iterator[str]:
    """Yield a fault for each named field that an input of the bolt lacks."""
    for subscription in topology.components[component_id].subscriptions:
        source = topology.components.get(subscription.source)
        fields = None if source is None else source.streams.get(subscription.stream)
        for name in names:
            if fields is not None and name not in fields:
                has = ", ".join(fields.names)
                stream = f"stream {subscription.stream!r} of {subscription.source!r}"
                text = f"bolt {component_id!r}: reads the field {name!r}, which {stream} does not have (it has: {has})."
                yield f"{text} Fix key or value of the committer, or the stream."


def committer_faults(where: str, spec: ComponentSpec, declared: object, *, opaque: bool) -> Iterator[str]:
    """Yield the faults of committers that write one key from several tasks, or cannot replace data of a txid (TX-8)."""
    if opaque and getattr(declared, "needs_transactional_spout", False):
        yield (
            f"{where}: {name_of(declared)} cannot replace values that it stored for a txid, and the spout is opaque: its replays may "
            "differ. Take a TransactionalSpout or PartitionedTransactionalSpout (of Kafka: KafkaTransactionalSpout)."
        )
    if spec.parallelism == 1 or not hasattr(declared, "keyed_by"):
        return
    keyed_by = declared.keyed_by
    names = None if keyed_by is None else tuple(keyed_by)
    for subscription in spec.subscriptions:
        grouping = subscription.grouping
        if names is None:
            yield f"{where}: has no key, so it has one task. Set its parallelism to 1, or give it a key."
            return
        if not isinstance(grouping, FieldsGrouping) or tuple(grouping.names) != names:
            fields = ", ".join(map(repr, names))
            yield (
                f"{where}: each key must be written by one task, and {grouping.method}() on {subscription.source!r} does not ensure this. "
                f"Use fields_grouping({subscription.source!r}, {fields}), or one task."
            )


def name_of(declared: object) -> str:
    """Return the name of the class of a component."""
    return declared.__name__ if isinstance(declared, type) else type(declared).__name__
