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
from engine.dead_letters import ENTRY as LETTERS_ENTRY
from engine.dead_letters import DeadLettersEntry
from engine.errors import FatalError, TopologyError, with_hint
from engine.names import BATCH_STREAM, COMMIT_STREAM, REPORT_STREAM, ROWS_STREAM
from engine.raised import raised_text
from engine.topology import ComponentSettings, ComponentSpec, Subscription, Topology
from engine.topology.overrides import override_faults
from engine.topology.process_factory import without_user_code
from engine.topology.spec import BATCHED, COMMITTER
from engine.topology.task_port import RunPort
from engine.transactional.admission import Admission
from engine.transactional.basic_bolt_runner import BasicBoltRunner
from engine.transactional.batch_bolt_runner import BatchBoltRunner
from engine.transactional.batch_runner import REPORT_FIELDS, BoltWiring
from engine.transactional.coordinator import BATCH_FIELDS, COMMIT_FIELDS, ROWS_FIELDS, Coordinator
from engine.transactional.emitter_runner import EmitterRunner
from engine.transactional.feature import TransactionalFeature, coordinator_id
from engine.transactional.given_up import RowPolicy
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
        self.spout = spout
        self.admissions = admissions

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
            made, fault = _tried(source.component_id, self.spout, part)
            if fault is not None:
                yield fault
            else:
                yield from override_faults(source.where, type(made))

    def stored(self, topology: Topology) -> Iterator[str]:
        """Yield the record of the transactions."""
        yield "the position of its transactions"

    def new_run(self, topology: Topology, config: Config) -> FeatureRun:
        """Return the transactions of a new run."""
        return TransactionalRun(topology, config, self.spout, self.admissions)


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
        self._late = late_components(topology)
        self._port: RunPort | None = None
        [self.source] = topology.spouts
        """The spout as the user declared it."""
        bound = self.source.pending_bound(config)
        self.most_open = bound if isinstance(bound, int) else 1
        """Largest number of open batches."""
        self.row_policy = RowPolicy(config.max_retries)

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
        shown, letters = ((), ()) if self._port is None else (self._port.shown(ENTRY), self._port.shown(LETTERS_ENTRY))
        return (TransactionsEntry(next(iter(shown), None)), DeadLettersEntry(next(iter(letters), None)))

    async def close(self, *, clean: bool) -> None:
        """Wait a limited time for the cleanups of instances whose task was killed and has no new runner. Then cancel the rest."""
        cleanups = {cleanup for wiring in self._wirings for of_task in wiring.cleanups.values() for cleanup in of_task}
        if cleanups:
            _, late = await asyncio.wait(cleanups, timeout=CLOSE_TIMEOUT_SECS)
            await cancel_and_wait(late)

    def running(self) -> Topology:
        """Return the topology that runs."""
        coordinator = coordinator_id(self.source.component_id)
        components: dict[str, ComponentSpec] = {coordinator: self.coordinator_spec(coordinator, emitters=self.source.parallelism)}
        for spec in self._topology.components.values():
            is_source = spec is self.source
            components[spec.component_id] = self.emitter_spec(spec, coordinator) if is_source else self.runner_spec(spec, coordinator)
        return replace(self._topology, components=MappingProxyType(components))

    def coordinator_spec(self, component_id: str, *, emitters: int) -> ComponentSpec:
        """Return the coordinator. emitters: number of tasks that answer its requests."""
        spout, state, admissions = self._spout, self._state, self._admissions
        make = MadeBy(
            lambda: Coordinator(spout, state, admissions, emitters=emitters, most_open=self.most_open, row_policy=self.row_policy)
        )
        settings = replace(self.source.settings, max_spout_pending=self.most_open)
        return ComponentSpec(component_id, "spout", make, 1, COORDINATOR_STREAMS, (), settings, replaced_at_each_error=True)

    def emitter_spec(self, spec: ComponentSpec, coordinator: str) -> ComponentSpec:
        """Return the emitters that run in the place of the user's spout."""
        emitter, fault = _tried(spec.component_id, self._spout, "emitter")
        if fault is not None:
            raise TopologyError([fault], topology_name=self._topology.name)
        commits = takes_part_in_commits(emitter)
        return emitter_spec(self._spout, spec, tuple(all_of(coordinator, BATCH_STREAM, COMMIT_STREAM if commits else None)))

    def runner_spec(self, spec: ComponentSpec, coordinator: str) -> ComponentSpec:
        """Return the runners that run in the place of a user's bolt."""
        wiring = bolt_wiring(self._topology, spec, self._late, self.most_open, differ=replays_differ(self._spout))
        wiring = replace(wiring, tells_rows=self.row_policy.leaves_out)
        self._wirings.append(wiring)
        streams = (ROWS_STREAM if wiring.tells_rows else None, COMMIT_STREAM if wiring.is_committer else None)
        return runner_spec(wiring, tuple(all_of(coordinator, *streams)))


COORDINATOR_STREAMS: Final = MappingProxyType({BATCH_STREAM: BATCH_FIELDS, COMMIT_STREAM: COMMIT_FIELDS, ROWS_STREAM: ROWS_FIELDS})


def emitter_spec(spout: AnySpout, spec: ComponentSpec, subscriptions: tuple[Subscription, ...]) -> ComponentSpec:
    """Return the emitters of a spout. subscriptions: to the streams of the coordinator."""
    return replace(
        spec,
        kind="bolt",
        factory=MadeBy(lambda: EmitterRunner(spout, spec)),
        streams=with_reports(spec),
        subscriptions=subscriptions,
        settings=ComponentSettings(on_error=spec.settings.on_error),
        replaced_at_each_error=True,
    )


def takes_part_in_commits(emitter: Any) -> bool:
    """Return whether the user's emitter has a method `commit`."""
    return getattr(type(emitter).commit, "__module__", None) != "engine.transactional.spouts"


def bolt_wiring(topology: Topology, spec: ComponentSpec, late: frozenset[str], most_open: int, *, differ: bool) -> BoltWiring:
    """Return the wiring of a bolt. differ: replays of a batch may differ."""
    sources = frozenset(subscription.source for subscription in spec.subscriptions)
    return BoltWiring(spec, sources - late, sources & late, COMMITTER in spec.marks, most_open, differ)


def runner_spec(wiring: BoltWiring, orders: tuple[Subscription, ...]) -> ComponentSpec:
    """Return the runners of a user's bolt. orders: subscriptions to streams of the coordinator."""
    spec = wiring.spec
    settings = spec.settings
    if settings.threads:
        settings = replace(settings, threads=0, concurrency=settings.threads)
    reports = [each for source in sorted(wiring.processing_sources | wiring.commit_sources) for each in all_of(source, REPORT_STREAM)]
    return replace(
        spec,
        factory=RunnerFactory(wiring),
        streams=with_reports(spec),
        subscriptions=(*spec.subscriptions, *reports, *orders),
        settings=settings,
        replaced_at_each_error=True,
    )


def with_reports(spec: ComponentSpec) -> Mapping[str, Any]:
    """Return the streams of a component, with the stream of reports."""
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
class MadeBy:
    """Factory of a component of the engine. Calls `make` for each instance."""

    make: Callable[[], Any]

    def create(self) -> Spout | Bolt:
        made: Spout | Bolt = self.make()
        return made


@dataclass(frozen=True, slots=True)
class RunnerFactory:
    """Makes the runners of a user's bolt, in this process or in child processes (PR-1)."""

    wiring: BoltWiring

    def create(self) -> BasicBoltRunner | BatchBoltRunner:
        """Return a new runner."""
        return BasicBoltRunner(self.wiring) if BATCHED not in self.wiring.spec.marks else BatchBoltRunner(self.wiring)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the user's factory and the names of the neighbours. A child process needs no groupings."""
        spec = replace(without_user_code(self.wiring.spec), factory=self.wiring.spec.factory)
        return RunnerFactory, (replace(self.wiring, spec=spec, cleanups={}, aio_tasks={}),)


def all_of(source: str, *streams: str | None) -> Iterator[Subscription]:
    """Yield subscriptions by an all grouping to streams of a component. None is no stream."""
    return (Subscription(source, stream, All()) for stream in streams if stream is not None)
