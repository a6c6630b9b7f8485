"""Defines the feature of topologies with stateful bolts.

Checks the rules of these topologies, opens the checkpoints of a run, and exports snapshots and metrics.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_args

from engine.checkpoint.guarantees import EMITS_RESULTS, KEEPS_STATE, PARTITIONED, REWINDS, Guarantees, guarantees, inexact, rewinding_spouts
from engine.checkpoint.status import CheckpointSnapshot, CheckpointStep
from engine.config import Config
from engine.control import Feature, FeatureRun, RunHandle, RunStart, SnapshotEntry
from engine.log import EngineLogger
from engine.metrics.openmetrics import Family, Measure, secs_of_ms, stateset
from engine.topology import ComponentSpec, Topology
from engine.topology.spec import AT_CHECKPOINTS, COMMITTER
from engine.topology.validate import arrows, path_between

if TYPE_CHECKING:
    from engine.checkpoint.checkpoints import Checkpoints

LOGGER: Final = EngineLogger("engine.checkpoint")


def _stateful_bolts(topology: Topology) -> list[ComponentSpec]:
    return [spec for spec in topology.bolts if KEEPS_STATE in spec.marks]


def _durable_bolts(topology: Topology) -> list[ComponentSpec]:
    """Return the bolts that store something at checkpoints: stateful bolts, committers, and batch bolts in front of committers."""
    return [spec for spec in topology.bolts if not spec.marks.isdisjoint((KEEPS_STATE, AT_CHECKPOINTS))]


def _committers(topology: Topology) -> list[ComponentSpec]:
    return [spec for spec in topology.bolts if spec.marks.issuperset((COMMITTER, AT_CHECKPOINTS))]


def _names(specs: Iterable[ComponentSpec]) -> str:
    return ", ".join(repr(spec.component_id) for spec in specs)


def _kinds(durable: Iterable[ComponentSpec]) -> str:
    """Return `stateful bolts ('count'), committers ('totals')`, or one of them."""
    kinds: dict[str, list[ComponentSpec]] = {}
    for spec in durable:
        kinds.setdefault("stateful bolts" if KEEPS_STATE in spec.marks else "committers", []).append(spec)
    return ", ".join(f"{kind} ({_names(specs)})" for kind, specs in kinds.items())


class CheckpointFeature(Feature):
    """Makes state durable by aligned barriers (CP-1 to CP-9). Active in topologies with stateful bolts."""

    name = "checkpoint"
    marks: ClassVar[Any] = {"bolt": (KEEPS_STATE, EMITS_RESULTS), "spout": (REWINDS, PARTITIONED)}

    def graph_faults(self, topology: Topology) -> Iterator[str]:
        """Yield the faults of cycles that a barrier cannot pass, and of stateful bolts with concurrent calls (GRP-5, ACK-10)."""
        durable = _durable_bolts(topology)
        if not durable:
            return
        for source, target in sorted(topology.closing_edges()):
            cycle = arrows(path_between(topology, target, source))
            yield f"{_kinds(durable)}: a barrier cannot pass the cycle {cycle}. Remove the cycle, or keep no state."
        for spec in durable:
            if spec.settings.concurrency != 1 or spec.settings.threads:
                kind = "stateful bolt" if KEEPS_STATE in spec.marks else "committer"
                yield f"{spec.where}: a {kind} takes one input at a time. Remove concurrency= or threads=."

    def run_faults(self, topology: Topology, config: Config) -> Iterator[str]:
        """Yield the settings that stateful bolts and committers do not allow (GRP-5, CP-3)."""
        durable = _durable_bolts(topology)
        if not durable:
            return
        if config.forgotten_ack == "wait" and (exact := rewinding_spouts(topology, config)):
            yield (
                f"{exact[0].where}: its rows are processed exactly once, but forgotten_ack='wait' would commit rows that nobody has acked. "
                "Set forgotten_ack='fail', or processing_guarantee='at_least_once'."
            )
        if config.processing_guarantee == "exactly_once":
            yield from inexact(topology, config)
        if config.acker_executors == 0:
            yield f"{durable[0].where}: checkpoints need tracked tuples, and acker_executors=0 switches tracking off. Set it to 1 or more."

    def stored(self, topology: Topology) -> Iterator[str]:
        """Yield a description of the stored state."""
        stateful = _stateful_bolts(topology)
        if stateful:
            yield f"the state of {_names(stateful)}"
        if committers := _committers(topology):
            yield f"the staged output of {_names(committers)}"

    def new_run(self, topology: Topology, config: Config) -> "CheckpointRun":
        """Return the checkpoints of a new run."""
        return CheckpointRun(config)


class CheckpointRun(FeatureRun):
    """The checkpoints of one run. Does nothing in a run without stateful bolts."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._checkpoints: Checkpoints | None = None
        self._guarantees: Guarantees | None = None

    async def open(self, topology: Topology, start: RunStart) -> Topology:
        """Read the record, and return the topology with the checkpoint spout and the barrier handlers."""
        if not _durable_bolts(topology):
            return topology
        from engine.checkpoint.barrier_wiring import state_places, with_checkpoints  # here, because a run without state must not import it
        from engine.checkpoint.checkpoints import Checkpoints
        from engine.checkpoint.layout import Layout
        from engine.checkpoint.stored_positions import SourceLayout

        assert start.provider is not None
        shown = self._guarantees = guarantees(topology, self._config)
        assert shown is not None
        LOGGER.info("topology %r: %s", topology.name, "; ".join(shown.lines()))
        places = state_places(_stateful_bolts(topology), self._config.key_groups)
        sources = [
            SourceLayout(spec.component_id, spec.parallelism, PARTITIONED in spec.marks)
            for spec in rewinding_spouts(topology, self._config)
        ]
        committers = {spec.component_id: spec.parallelism for spec in _committers(topology)}
        self._checkpoints = Checkpoints(topology.name, start.provider, self._config, start.clock, Layout(places, committers, sources))
        await self._checkpoints.open()
        return with_checkpoints(topology, self._checkpoints, places)

    def join(self, handle: RunHandle) -> None:
        """Hold the spouts until every state is loaded."""
        if self._checkpoints is not None:
            self._checkpoints.join(handle.port, handle.component_of, handle.end_run)

    @property
    def has_work(self) -> bool:
        """True until everything is committed."""
        return self._checkpoints is not None and not self._checkpoints.is_settled

    async def finish(self) -> None:
        """Make checkpoints until everything is committed."""
        if self._checkpoints is not None:
            await self._checkpoints.commit_all()

    async def close(self, *, clean: bool) -> None:
        """Close the states. After a clean end, fold their changes first."""
        if self._checkpoints is not None:
            await self._checkpoints.close(fold=clean)

    def snapshot_entries(self) -> Iterable[SnapshotEntry]:
        """Return the entries `checkpoint` and `dead_letters`."""
        if self._checkpoints is None:
            return (CheckpointEntry(None),)
        from engine.dead_letters import DeadLettersEntry  # here, because a run without state must not import it

        sources = self._checkpoints.sources
        has_letters = (sources or self._checkpoints.outputs) and sources.letters is not None
        letters = [DeadLettersEntry(sources.letters.snapshot())] if has_letters and sources.letters is not None else []
        return (CheckpointEntry(replace(self._checkpoints.snapshot(), guarantees=self._guarantees)), *letters)


class CheckpointEntry(SnapshotEntry):
    """Checkpoints in a snapshot. `snapshot.entry(CheckpointEntry).value` is None in a run without state."""

    name = "checkpoint"
    value: CheckpointSnapshot | None

    def __init__(self, value: CheckpointSnapshot | None) -> None:
        self.value = value

    def to_json(self) -> Any:
        """Return the fields of the value."""
        return None if self.value is None else asdict(self.value)

    def holds_run(self) -> str | None:
        """Return a sentence while the store is unavailable, the states recover, or a checkpoint takes too long."""
        now = self.value
        if now is None or now.held is None:
            return None
        cause = "" if now.cause is None else f" The reason is: {now.cause.rstrip('.')}."
        return f"The spouts wait, because {now.held.rstrip('.')}.{cause}" + ("" if now.step == "idle" else f" {_step_text(now)}")

    def delays_acks(self, component_id: str) -> str | None:
        """Return a sentence if acks of this spout wait for a checkpoint (EO-4)."""
        if self.value is None or component_id not in self.value.held_acks:
            return None
        step = "" if self.value.step == "idle" else f" {_step_text(self.value)}"
        return f"Acks wait for the next checkpoint. Raise max_spout_pending, or lower state_checkpoint_interval_ms.{step}"

    @classmethod
    def from_json(cls, value: Any) -> "CheckpointEntry":
        """Return the entry of a result of `to_json`."""
        if value is None:
            return cls(None)
        known = value.get("guarantees")
        made: dict[str, Any] = {name: tuple(value[name]) for name in ("waits_for", "held_acks")}
        made["guarantees"] = None if known is None else Guarantees.from_json(known)
        return cls(CheckpointSnapshot(**{**value, **made}))

    def families(self, topology_name: str) -> Iterator[Family]:
        """Yield the families of `stormcell_checkpoint_…`."""
        if self.value is None:
            return
        labels = {"topology": topology_name}
        yield stateset("stormcell_checkpoint_step", "Step in progress.", [(labels, self.value.step)], get_args(CheckpointStep))
        for measure in _MEASURES:
            yield measure.family("stormcell_checkpoint_", [(labels, self.value)])


def _step_text(now: CheckpointSnapshot) -> str:
    """Return the step in progress, and the first task that it waits for."""
    waits_for = f": {now.waits_for[0]}" if now.waits_for else ""
    return f"The step {now.step!r} has taken {now.step_secs:.1f} s{waits_for}."


_MEASURES: Final[tuple[Measure[CheckpointSnapshot], ...]] = (
    Measure("txid", "gauge", "", "The last committed txid; -1: none.", lambda now: now.txid),
    Measure("commits", "counter", "", "Checkpoints that this run has committed.", lambda now: now.committed),
    Measure("recoveries", "counter", "", "Times that a step failed or a task died.", lambda now: now.recoveries),
    Measure("step_seconds", "gauge", "seconds", "Time since the step in progress began.", lambda now: now.step_secs),
    Measure("since_commit_seconds", "gauge", "seconds", "Time since the last commit or the start.", lambda now: now.since_commit_secs),
    Measure("holds_sources", "gauge", "", "1 while the sources are not polled, because of a checkpoint.", lambda now: now.held is not None),
    Measure("last_seconds", "gauge", "seconds", "Duration of the last checkpoint.", lambda now: secs_of_ms(now.last_ms)),
    Measure("last_keys", "gauge", "keys", "Keys that the last checkpoint changed.", lambda now: now.last_keys),
    Measure("last_bytes", "gauge", "bytes", "Bytes that the last checkpoint staged.", lambda now: now.last_bytes),
    Measure("last_alignment_seconds", "gauge", "seconds", "Longest time that a source was held.", lambda now: now.last_alignment_ms / 1000),
    Measure("owed_rows", "gauge", "rows", "Rows that have failed and wait to be retried alone.", lambda now: now.owed),
    Measure("store_away", "gauge", "", "1 while the store cannot be reached.", lambda now: now.trouble is not None),
)
