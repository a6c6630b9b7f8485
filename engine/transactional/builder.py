"""`TransactionalTopologyBuilder`: builds a topology from a spout of batches and its bolts (GRP-5, TX-8)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NoReturn, Unpack

from engine.api import BasicBolt, Fields
from engine.api import BurstBolt as TrackedBurstBolt
from engine.api.fields import Streams
from engine.config import Config
from engine.errors import UsageError
from engine.names import is_reserved
from engine.topology import ComponentSpec, Topology, TopologyBuilder
from engine.topology.builder import Declaration, Judged, judge
from engine.topology.factory import FactoryFault
from engine.topology.settings import SpoutSettings
from engine.topology.spec import BATCHED, COMMITTER
from engine.transactional.admission import Admission
from engine.transactional.batch_bolt import BurstBolt
from engine.transactional.batch_collectors import ATTEMPT_FIELD
from engine.transactional.committer_rules import committer_faults, field_faults, name_of
from engine.transactional.feature import coordinator_id
from engine.transactional.spout_adapters import new_emitter, replays_differ
from engine.transactional.spouts import AnySpout, OpaquePartitionedTransactionalSpout, PartitionedTransactionalSpout, TransactionalSpout
from engine.transactional.transactions import Transactions, late_components

SPOUT_KINDS: Final = (TransactionalSpout, PartitionedTransactionalSpout, OpaquePartitionedTransactionalSpout)


class TransactionalTopologyBuilder(TopologyBuilder):
    """Collects the declarations of a transactional topology, which has one spout and its bolts. `build()` reports all faults.

    The id names the topology and its stored transactions. A later run with the same id and state provider continues after the last
    committed batch. Settings of the spout: `max_spout_pending` (number of open batches, 1 by default) and `on_error`.
    """

    def __init__(
        self,
        id: str,
        spout_id: str,
        spout: AnySpout,
        parallelism: int = 1,
        config: Config | None = None,
        **settings: Unpack[SpoutSettings],
    ) -> None:
        super().__init__(id, config)
        self._spout = spout
        self._coordinator_id = coordinator_id(spout_id)
        self._reads: dict[str, tuple[str, ...]] = {}
        """Fields that a bolt declares in `reads`, by component. The inputs of the bolt must have these fields."""
        self._admissions: dict[str, Admission] = {}
        declaration = self._declare("spout", spout_id, spout, parallelism, settings)
        declaration.factory = _SpoutFactory(spout)

    def set_spout(self, component_id: str, factory: object, parallelism: int = 1, **settings: Unpack[SpoutSettings]) -> NoReturn:
        """Raise UsageError, because the constructor has declared the only spout."""
        raise UsageError(
            f"topology {self.name!r} has its spout already: the one that TransactionalTopologyBuilder was given",
            hint="A transactional topology has one spout. Give it several partitions.",
        )

    def _graph_faults(self, topology: Topology, unknown: Collection[str]) -> list[str]:
        faults = super()._graph_faults(topology, unknown)
        for component_id, names in self._reads.items():
            faults.extend(field_faults(topology, component_id, names))
        return faults

    def _topology(self, components: Mapping[str, ComponentSpec]) -> Topology:
        transactions = Transactions(self._spout, MappingProxyType(dict(self._admissions)))
        return _with_labels(super()._topology(components)).with_feature(transactions)

    def _judge(self, declaration: Declaration) -> Judged:
        judged = judge(declaration)
        spec, faults = judged.spec, list(judged.faults)
        if spec.component_id == self._coordinator_id:
            faults.append(f"{declaration.where}: {spec.component_id!r} is the engine's own id, of the coordinator of the spout. Rename it.")
        if declaration.kind == "bolt" and judged.declared is not None:
            faults.extend(_bolt_faults(declaration.where, spec, judged.declared))
            spec = replace(spec, settings=replace(spec.settings, retries=0, diverts=False))  # refused, so no fault follows from them
            if not isinstance(judged.declared, type):
                self._reads[spec.component_id] = tuple(getattr(judged.declared, "reads", ()))
            faults.extend(committer_faults(declaration.where, spec, judged.declared, opaque=replays_differ(self._spout)))
            admission = getattr(judged.declared, "admission", None)
            if admission is not None:
                self._admissions[spec.component_id] = admission
        streams, stream_faults = _with_attempt(declaration.where, spec)
        return replace(judged, spec=replace(spec, streams=streams), faults=faults + stream_faults)


@dataclass(frozen=True, slots=True)
class _SpoutFactory:
    """Makes the emitters of a transactional spout."""

    spout: Any

    def declared(self) -> Any:
        """Return the spout. Raises FactoryFault unless it is a transactional spout with declared fields."""
        if isinstance(self.spout, type) and issubclass(self.spout, SPOUT_KINDS):
            raise FactoryFault(f"was given the class {self.spout.__name__}. Pass an instance: {self.spout.__name__}(...).")
        if not isinstance(self.spout, SPOUT_KINDS):
            names = ", ".join(kind.__name__ for kind in SPOUT_KINDS)
            raise FactoryFault(f"was given {self.spout!r}, which is not a transactional spout. Derive it from {names}.")
        if self.spout.output_fields is None:
            raise FactoryFault(f"{type(self.spout).__name__} declares no output_fields. Declare them, without the attempt.")
        return self.spout

    def create(self) -> Any:
        """Return a new emitter."""
        return new_emitter(self.spout)


def _with_labels(topology: Topology) -> Topology:
    """Return the topology with the phase of each bolt as its label. Mark the spout, because each run replaces it."""
    late = late_components(topology)
    components = {}
    for component_id, spec in topology.components.items():
        if spec.kind == "spout":
            components[component_id] = replace(spec, is_replaced=True)
        elif COMMITTER in spec.marks:
            components[component_id] = replace(spec, label=f"committer × {spec.parallelism}", is_outlined=True)
        else:
            phase = "commit" if component_id in late else "processing"
            components[component_id] = replace(spec, label=f"bolt × {spec.parallelism}, {phase} phase")
    return replace(topology, components=MappingProxyType(components))


def _with_attempt(where: str, spec: ComponentSpec) -> tuple[Streams, list[str]]:
    """Return the streams with the attempt in front of their fields (TX-1)."""
    faults = []
    streams: dict[str, Fields] = {}
    for stream, fields in spec.streams.items():
        if is_reserved(stream):
            continue
        if ATTEMPT_FIELD in fields.names:
            faults.append(
                f"{where}: stream {stream!r} declares the field {ATTEMPT_FIELD!r}, which the engine puts in front of every tuple. "
                f"Leave it out of {spec.fields_declared_at}, or rename it."
            )
            streams[stream] = fields
        else:
            streams[stream] = Fields(ATTEMPT_FIELD, *fields.names, direct=fields.direct)
    return MappingProxyType(streams), faults


def _bolt_faults(where: str, spec: ComponentSpec, declared: object) -> Iterator[str]:
    """Yield the faults of a bolt that a transactional topology cannot run."""
    bolt_class = declared if isinstance(declared, type) else type(declared)
    if "keeps_state" in spec.marks:
        yield f"{where}: {name_of(declared)} is a stateful bolt. In a transactional topology store values by a Committer (TX-8)."
    elif BATCHED not in spec.marks and not issubclass(bolt_class, BasicBolt):
        text = f"{where}: {name_of(declared)} is a Bolt, which acks its inputs itself, but transactions ack whole batches."
        bases = "engine.transactional.BurstBolt" if issubclass(bolt_class, TrackedBurstBolt) else "BasicBolt or BatchBolt"
        yield f"{text} Derive it from {bases}."
    for setting, is_set in (("retries=", spec.settings.retries), ("on_error='divert'", spec.settings.diverts)):
        if is_set:
            yield f"{where}: {setting} has no effect in a transactional topology, where a failed batch is replayed as a whole. Remove it."
    if spec.settings.tick_tuple_freq_secs is not None:
        yield f"{where}: a tick belongs to no batch. Leave tick_tuple_freq_secs out."
    if BATCHED in spec.marks and spec.settings.concurrency != 1:
        yield f"{where}: concurrency= has no effect: calls of one batch never overlap, and calls of other batches may. Remove it."
    if BATCHED in spec.marks and not spec.subscriptions:
        yield f"{where}: has no input, so a batch never ends there. Subscribe it to a stream: .shuffle_grouping(SOURCE)."
    burst_rows: object = getattr(bolt_class, "burst_rows", 1)
    if issubclass(bolt_class, BurstBolt) and (type(burst_rows) is not int or burst_rows < 1):
        yield f"{where}: {name_of(declared)} has burst_rows = {burst_rows!r}. Give a number of tuples, at least 1."
