"""Checks a transactional topology, and makes the topology that runs in its place (docs/decisions/0004)."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from engine.api import All, Bolt, Spout
from engine.cancellation import CLOSE_TIMEOUT_SECS, cancel_and_wait
from engine.config import Config
from engine.control import FeatureRun, RunHandle, RunStart, SnapshotEntry
from engine.errors import FatalError, TopologyError, with_hint
from engine.names import BATCH_STREAM, COMMIT_STREAM, REPORT_STREAM
from engine.raised import raised_text
from engine.topology import ComponentSettings, ComponentSpec, Subscription, Topology
from engine.topology.overrides import override_faults
from engine.topology.task_port import RunPort
from engine.transactional.admission import Admission
from engine.transactional.basic_bolt_runner import BasicBoltRunner
from engine.transactional.batch_bolt_runner import BatchBoltRunner
from engine.transactional.batch_runner import REPORT_FIELDS, BoltWiring
from engine.transactional.coordinator import BATCH_FIELDS, COMMIT_FIELDS, Coordinator
from engine.transactional.emitter_runner import EmitterRunner
from engine.transactional.feature import BATCHED, COMMITTER, TransactionalFeature, coordinator_id
from engine.transactional.spout_adapters import coordinator_adapter, has_partitions, new_emitter, replays_differ
from engine.transactional.spouts import AnySpout
from engine.transactional.status import ENTRY, TransactionsEntry
from engine.transactional.transactional_state import TransactionalState


def late_components(topology: Topology) -> frozenset[str]:
    """Return the components that finish in the commit phase. These are committers, and all components downstream of them (TX-5)."""
    late = {spec.component_id for spec in topology.bolts if COMMITTER in spec.marks}
    waiting = list(late)
    while waiting:
        for target in topology.targets(waiting.pop()):
            if target not in late:
                late.add(target)
                waiting.append(target)
    return frozenset(late)


class Transactions(TransactionalFeature):
    """Transactions in a topology of TransactionalTopologyBuilder (TX-1 to TX-10)."""

    def __init__(self, spout: AnySpout, admissions: Mapping[str, Admission]) -> None:
        """admissions: by component id."""
        self._spout = spout
        self._admissions = admissions

    def graph_faults(self, topology: Topology) -> Iterator[str]:
        """Yield a fault for max_spout_pending="auto", because the setting is the number of open batches here."""
        yield from (_adapted_batches(spec) for spec in topology.spouts if spec.settings.max_spout_pending == "auto")

    def run_faults(self, topology: Topology, config: Config) -> Iterator[str]:
        """Yield a fault for each setting that transactions do not allow."""
        for spec in topology.spouts:
            if spec.settings.max_spout_pending is None and spec.pending_bound(config) == "auto":
                yield _adapted_batches(spec)
        if config.acker_executors == 0:
            yield "a transactional topology needs tracked tuples, and acker_executors=0 switches tracking off. Set it to 1 or more."

    def trial_faults(self, topology: Topology) -> Iterator[str]:
        """Yield the faults of a coordinator and of an emitter, made as at the start of a run."""
        [source] = topology.spouts
        for part in _MAKERS:
            made, fault = _tried(source.component_id, self._spout, part)
            if fault is not None:
                yield fault
            else:
                yield from override_faults(source.where, type(made))

    def stored(self, topology: Topology) -> Iterator[str]:
        """Yield the record of the transactions."""
        yield "the position of its transactions"

    def new_run(self, topology: Topology, config: Config) -> FeatureRun:
        """Return the transactions of a new run."""
        return TransactionalRun(topology, config, self._spout, self._admissions)


def _adapted_batches(spec: ComponentSpec) -> str:
    """Return the fault of max_spout_pending="auto" in a transactional topology."""
    return (
        f"{spec.where}: max_spout_pending is the number of open batches in a transactional topology, so 'auto' is not possible. "
        "Set a number, or remove the setting (default 1)."
    )


class TransactionalRun(FeatureRun):
    """The transactions of one run. Adds the coordinator, the emitter runners and the batch runners to the topology."""

    def __init__(self, topology: Topology, config: Config, spout: AnySpout, admissions: Mapping[str, Admission]) -> None:
        self._topology = topology
        self._config = config
        self._spout = spout
        self._admissions = admissions
        self._wirings: list[BoltWiring] = []
        self._port: RunPort | None = None

    async def open(self, topology: Topology, start: RunStart) -> Topology:
        """Return the topology that runs."""
        assert start.provider is not None
        config, partitioned = self._config, has_partitions(self._spout)
        self._state = TransactionalState(topology.name, start.provider, partitioned=partitioned, timeout_secs=config.state_timeout_secs)
        return self.running()

    def join(self, handle: RunHandle) -> None:
        """Store the port that reads the coordinator."""
        self._port = handle.port

    def snapshot_entries(self) -> Iterable[SnapshotEntry]:
        """Return the entry `transactions`."""
        shown = () if self._port is None else self._port.shown(ENTRY)
        return (TransactionsEntry(next(iter(shown), None)),)

    async def close(self, *, clean: bool) -> None:
        """Wait a limited time for the cleanups of instances whose task was killed and has no new runner. Then cancel the rest."""
        cleanups = {cleanup for wiring in self._wirings for of_task in wiring.cleanups.values() for cleanup in of_task}
        if cleanups:
            _, late = await asyncio.wait(cleanups, timeout=CLOSE_TIMEOUT_SECS)
            await cancel_and_wait(late)

    def running(self) -> Topology:
        """Return the topology that runs."""
        described = self._topology.components
        [source] = [spec for spec in described.values() if spec.kind == "spout"]
        bound = source.pending_bound(self._config)
        most_open = bound if isinstance(bound, int) else 1
        late = late_components(self._topology)
        coordinator = coordinator_id(source.component_id)
        components: dict[str, ComponentSpec] = {coordinator: self._coordinator(coordinator, source, most_open)}
        for spec in described.values():
            if spec is source:
                components[spec.component_id] = self._emitter(spec, coordinator)
            else:
                components[spec.component_id] = self._bolt(spec, coordinator, late, most_open)
        return replace(self._topology, components=MappingProxyType(components))

    def _coordinator(self, component_id: str, source: ComponentSpec, most_open: int) -> ComponentSpec:
        spout, state, admissions = self._spout, self._state, self._admissions
        make = _Factory(lambda: Coordinator(spout, state, admissions, emitters=source.parallelism, most_open=most_open))
        streams = MappingProxyType({BATCH_STREAM: BATCH_FIELDS, COMMIT_STREAM: COMMIT_FIELDS})
        settings = replace(source.settings, max_spout_pending=most_open)
        return ComponentSpec(component_id, "spout", make, 1, streams, (), settings, replaced_at_each_error=True)

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
            replaced_at_each_error=True,
        )

    def _bolt(self, spec: ComponentSpec, coordinator: str, late: frozenset[str], most_open: int) -> ComponentSpec:
        sources = frozenset(subscription.source for subscription in spec.subscriptions)
        wiring = BoltWiring(spec, sources - late, sources & late, COMMITTER in spec.marks, most_open, replays_differ(self._spout))
        self._wirings.append(wiring)
        settings = spec.settings
        if settings.threads:
            settings = replace(settings, threads=0, concurrency=settings.threads)
        controls = [each for source in sorted(sources) for each in _all(source, REPORT_STREAM)]
        if COMMITTER in spec.marks:
            controls += _all(coordinator, COMMIT_STREAM)
        return replace(
            spec,
            factory=_Factory(lambda: _bolt_runner(wiring)),
            streams=self._with_reports(spec),
            subscriptions=(*spec.subscriptions, *controls),
            settings=settings,
            replaced_at_each_error=True,
        )

    def _with_reports(self, spec: ComponentSpec) -> Mapping[str, Any]:
        return MappingProxyType({**spec.streams, REPORT_STREAM: REPORT_FIELDS})


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
        fix = "Return a new object. Open files and sockets in its open()."
        return None, f"{where}{type(spout).__name__}.{part}() raised {raised_text(error)}. {fix}"


@dataclass(frozen=True, slots=True)
class _Factory:
    make: Any

    def create(self) -> Spout | Bolt:
        made: Spout | Bolt = self.make()
        return made


def _bolt_runner(wiring: BoltWiring) -> BasicBoltRunner | BatchBoltRunner:
    return BasicBoltRunner(wiring) if BATCHED not in wiring.spec.marks else BatchBoltRunner(wiring)


def _all(source: str, *streams: str | None) -> Iterator[Subscription]:
    return (Subscription(source, stream, All()) for stream in streams if stream is not None)


def _engines_own(method: Any) -> tuple[str, ...]:
    """Return the name of a method unless the user has overridden it."""
    return (method.__name__,) if getattr(method, "__module__", None) == "engine.transactional.spouts" else ()
