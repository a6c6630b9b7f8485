"""Makes the topology that runs from the transactional topology that the user declared (docs/decisions/0004)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from engine.api import All, Bolt, Spout
from engine.clock import Clock
from engine.config import Config
from engine.errors import FatalError, TopologyError, with_hint
from engine.names import BATCH_STREAM, COMMIT_STREAM, REPORT_STREAM
from engine.raised import raised_text
from engine.state import provider_of
from engine.topology import ComponentSettings, ComponentSpec, Subscription, Topology
from engine.topology.overrides import override_faults
from engine.transactional.admission import Admission
from engine.transactional.basic_bolt_runner import BasicBoltRunner
from engine.transactional.batch_bolt_runner import BatchBoltRunner
from engine.transactional.batch_runner import REPORT_FIELDS, BoltWiring
from engine.transactional.coordinator import BATCH_FIELDS, COMMIT_FIELDS, Coordinator
from engine.transactional.emitter_runner import EmitterRunner
from engine.transactional.spout_adapters import coordinator_adapter, has_partitions, new_emitter, replays_differ
from engine.transactional.spouts import AnySpout
from engine.transactional.transactional_state import TransactionalState


def coordinator_id(spout_id: str) -> str:
    """Return the component id of the coordinator of a spout."""
    return f"{spout_id}/coordinator"


class TransactionalRun:
    """Preparation of one run: opens the state, and adds coordinator, emitter runners and batch runners."""

    def __init__(self, topology: Topology, config: Config, spout: AnySpout, admissions: Mapping[str, Admission]) -> None:
        self._topology = topology
        self._config = config
        self._spout = spout
        self._admissions = admissions
        partitioned = has_partitions(spout)
        provider = provider_of(config.state_provider)
        self._state: Final = TransactionalState(
            topology.name, provider, partitioned=partitioned, timeout_secs=config.state_timeout_secs, standby=config.standby
        )

    async def open(self) -> Topology:
        """Open the state, and return the topology that runs. Raises StateError if another process runs it."""
        await self._state.open()
        return self.running()

    async def close(self) -> None:
        """Close the state."""
        await self._state.close()

    def running(self) -> Topology:
        """Return the topology that runs."""
        described = self._topology.components
        [source] = [spec for spec in described.values() if spec.kind == "spout"]
        bound = source.pending_bound(self._config)
        most_open = bound if isinstance(bound, int) else 1
        late = self._topology.late_components()
        coordinator = coordinator_id(source.component_id)
        components: dict[str, ComponentSpec] = {coordinator: self._coordinator(coordinator, source, most_open)}
        for spec in described.values():
            if spec is source:
                components[spec.component_id] = self._emitter(spec, coordinator)
            else:
                components[spec.component_id] = self._bolt(spec, coordinator, late, most_open)
        return replace(self._topology, components=MappingProxyType(components), prepares=None)

    def _coordinator(self, component_id: str, source: ComponentSpec, most_open: int) -> ComponentSpec:
        spout, state, admissions = self._spout, self._state, self._admissions
        make = _Factory(lambda: Coordinator(spout, state, admissions, emitters=source.parallelism, most_open=most_open))
        streams = MappingProxyType({BATCH_STREAM: BATCH_FIELDS, COMMIT_STREAM: COMMIT_FIELDS})
        settings = replace(source.settings, max_spout_pending=most_open)
        return ComponentSpec(component_id, "spout", make, 1, streams, (), settings, renewed_at_each_error=True)

    def _emitter(self, spec: ComponentSpec, coordinator: str) -> ComponentSpec:
        emitter, fault = _tried(spec.component_id, self._spout, "emitter")
        if fault is not None:
            raise TopologyError([fault], topology_name=self._topology.name)
        takes_part = "commit" not in _engines_own(type(emitter).commit)
        return replace(
            spec,
            kind="bolt",
            factory=_Factory(lambda: EmitterRunner(self._spout, spec)),
            streams=self._with_reports(spec),
            subscriptions=tuple(_all(coordinator, BATCH_STREAM, COMMIT_STREAM if takes_part else None)),
            settings=ComponentSettings(on_error=spec.settings.on_error),
            renewed_at_each_error=True,
        )

    def _bolt(self, spec: ComponentSpec, coordinator: str, late: frozenset[str], most_open: int) -> ComponentSpec:
        sources = frozenset(subscription.source for subscription in spec.subscriptions)
        wiring = BoltWiring(spec, sources - late, sources & late, spec.is_committer, most_open, replays_differ(self._spout))
        settings = spec.settings
        if settings.threads:
            settings = replace(settings, threads=0, concurrency=settings.threads)
        controls = [each for source in sorted(sources) for each in _all(source, REPORT_STREAM)]
        if spec.is_committer:
            controls += _all(coordinator, COMMIT_STREAM)
        return replace(
            spec,
            factory=_Factory(lambda: _bolt_runner(wiring)),
            streams=self._with_reports(spec),
            subscriptions=(*spec.subscriptions, *controls),
            settings=settings,
            renewed_at_each_error=True,
        )

    def _with_reports(self, spec: ComponentSpec) -> Mapping[str, Any]:
        return MappingProxyType({**spec.streams, REPORT_STREAM: REPORT_FIELDS})


@dataclass(frozen=True, slots=True)
class Prepares:
    """`Topology.prepares` of a transactional topology: makes the preparation of each run."""

    spout: AnySpout
    admissions: Mapping[str, Admission]
    """Admissions by component id."""

    def __call__(self, topology: Topology, config: Config, clock: Clock) -> TransactionalRun:
        return TransactionalRun(topology, config, self.spout, self.admissions)

    def trial_faults(self, topology: Topology) -> Iterator[str]:
        """Yield the faults of a coordinator and of an emitter, made as at the start of a run."""
        [source] = topology.spouts
        for part in _MAKERS:
            made, fault = _tried(source.component_id, self.spout, part)
            if fault is not None:
                yield fault
            else:
                yield from override_faults(f"spout {source.component_id!r}", type(made))


_MAKERS: Final[Mapping[str, Callable[[AnySpout], object]]] = {
    "coordinator": lambda spout: coordinator_adapter(spout).wrapped,
    "emitter": new_emitter,
}


def _tried(component_id: str, spout: AnySpout, part: str) -> tuple[Any, str | None]:
    """Return a part that the user's spout makes, or its fault."""
    where = f"spout {component_id!r}: "
    try:
        return _MAKERS[part](spout), None
    except FatalError as error:
        return None, where + with_hint(error.message, error.hint)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the user's own; it becomes a fault
        fix = "Let it make one; what needs the world (files, sockets) belongs in the open() of what it makes."
        return None, f"{where}{type(spout).__name__}.{part}() raised {raised_text(error)}. {fix}"


@dataclass(frozen=True, slots=True)
class _Factory:
    make: Any

    def create(self) -> Spout | Bolt:
        made: Spout | Bolt = self.make()
        return made


def _bolt_runner(wiring: BoltWiring) -> BasicBoltRunner | BatchBoltRunner:
    return BasicBoltRunner(wiring) if not wiring.spec.is_batched else BatchBoltRunner(wiring)


def _all(source: str, *streams: str | None) -> Iterator[Subscription]:
    return (Subscription(source, stream, All()) for stream in streams if stream is not None)


def _engines_own(method: Any) -> tuple[str, ...]:
    """Return the name of a method unless the user has overridden it."""
    return (method.__name__,) if getattr(method, "__module__", None) == "engine.transactional.spouts" else ()
