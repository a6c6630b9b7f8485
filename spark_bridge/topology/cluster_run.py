"""Runs a transactional topology on Spark. Committers and all durable state stay in the engine's process (docs/decisions/0011)."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from engine.api import Direct, Global
from engine.config import Config
from engine.control import FeatureRun, RunHandle, SnapshotEntry
from engine.errors import UsageError
from engine.names import BATCH_STREAM, COMMIT_STREAM
from engine.randomness import RunRandom
from engine.runtime.run import Run
from engine.runtime.run import run as run_here
from engine.topology import ComponentSettings, ComponentSpec, Subscription, Topology
from engine.topology.task_port import RunPort
from engine.transactional.feature import coordinator_id
from engine.transactional.given_up import RowPolicy
from engine.transactional.spout_adapters import can_plan, new_emitter, replays_differ
from engine.transactional.transactions import (
    MadeBy,
    TransactionalRun,
    Transactions,
    all_of,
    late_components,
    takes_part_in_commits,
    with_reports,
)
from spark_bridge.process import SparkConfig, pickling
from spark_bridge.topology.combining import combined_inputs, with_merged_inputs, with_partial_streams
from spark_bridge.topology.job_runner import RESULTS_FIELDS, RESULTS_STREAM, JobRunner, JobSettings
from spark_bridge.topology.local_stores import local_store_faults
from spark_bridge.topology.program import NO_INSTANCES, Program
from spark_bridge.topology.result_runner import ResultRunner
from spark_bridge.topology.status import ENTRY, JobsEntry

_QUICK_COMPILER: Final = "-XX:TieredStopAtLevel=1"
"""The JVM only schedules and moves blocks. Its optimising compiler took a tenth of all CPU time, also after hundreds of batches.

It is a default option. Spark puts `extraJavaOptions` of the user behind it, also those of `spark-defaults.conf`.
"""
SPARK_DEFAULTS: Final = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.driver.defaultJavaOptions": _QUICK_COMPILER,
    "spark.executor.defaultJavaOptions": _QUICK_COMPILER,
}
"""Settings of jobs, unless the user gives others. Fair scheduling runs the jobs of several batches side by side."""


def run(topology: Topology, config: Config | None = None, *, spark: SparkConfig | None = None, spool: str | None = None) -> Run:
    """Create a run of a transactional topology, with its processing phase on Spark. Use it like `engine.run`.

    spark: the session. Default: `local[*]`. spool: folder that this machine and all executors reach under the same path. Default: a folder
    for temporary files if Spark runs on this machine. Otherwise rows go through the driver. Raises TopologyError with all reasons if the
    topology cannot run there (CL-4).

    >>> # async with spark_bridge.run(topology, Config(state_provider="sqlite:///words.db"), spark=SparkConfig(master="local[4]")) as run:
    >>> #     await run.completed()
    """
    return run_here(on_spark(topology, spark, spool=spool), config)


def on_spark(topology: Topology, spark: SparkConfig | None = None, *, spool: str | None = None) -> Topology:
    """Return the topology with its processing phase on Spark. Arguments as in `run`."""
    given: object = topology
    if not isinstance(given, Topology):
        raise UsageError(f"run() was given {given!r}", hint="Pass the result of TransactionalTopologyBuilder(...).build().")
    feature = next((each for each in topology.features if isinstance(each, Transactions)), None)
    if feature is None:
        raise UsageError(
            f"topology {topology.name!r} has no batches, so it cannot run on Spark", hint="Build it with TransactionalTopologyBuilder."
        )
    return topology.with_feature(ClusterTransactions(feature, spark or SparkConfig(), spool))


class ClusterTransactions(Transactions):
    """Transactions with their processing phase on Spark."""

    def __init__(self, feature: Transactions, spark: SparkConfig, spool: str | None) -> None:
        super().__init__(feature.spout, feature.admissions)
        self.spark = _with_defaults(spark)
        self.spool = spool

    def run_faults(self, topology: Topology, config: Config) -> Iterator[str]:
        """Yield the reasons why the topology cannot run on Spark (CL-4)."""
        yield from super().run_faults(topology, config)
        if self.spark.kind == "connect":
            text = f"SparkConfig(master={self.spark.master!r}) is a Spark Connect server, which cannot run the bolts of a topology."
            yield f"{text} Use a classic master, such as spark://host:7077."
        if self.spool is not None and not os.path.isdir(self.spool):
            yield f"spool={self.spool!r} is no folder here. Make it, or give another folder that this machine and all executors reach."
        late = late_components(topology)
        for spec in topology.bolts:
            if spec.component_id not in late:
                faults = list(_pickle_faults(spec.where, spec.factory))
                yield from faults
                if not faults and not self.spark.is_on_this_machine:
                    yield from local_store_faults(spec.where, spec.factory)
                for each in spec.subscriptions:
                    yield from _pickle_faults(f"{spec.where}: the grouping of {each.source!r}", each.grouping)
        if can_plan(new_emitter(self.spout)):
            [source] = topology.spouts
            yield from _pickle_faults(source.where, self.spout)

    def new_run(self, topology: Topology, config: Config) -> FeatureRun:
        """Return the transactions of a new run."""
        return ClusterRun(topology, config, self)


def _with_defaults(spark: SparkConfig) -> SparkConfig:
    return replace(spark, conf=SPARK_DEFAULTS | dict(spark.conf))


def _pickle_faults(where: str, value: Any) -> Iterator[str]:
    """Yield the reason why a value cannot be sent to the executors."""
    try:
        pickling.dumps(value)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # noqa: BLE001 - of user code; it becomes a fault
        text = f"{where}: cannot be sent to Spark's executors: {type(error).__name__}: {error}."
        yield f"{text} Open files, connections and locks in prepare() or open(), and keep plain values in the factory."


class ClusterRun(TransactionalRun):
    """The transactions of one run on Spark. The job runner replaces the emitters, and result runners replace the bolts of the job."""

    def __init__(self, topology: Topology, config: Config, feature: ClusterTransactions) -> None:
        super().__init__(topology, config, feature.spout, feature.admissions)
        self.row_policy = RowPolicy(None, leaves_out=False)  # Spark executes the rows of a batch (CL-3)
        self._feature = feature
        self._emitter = new_emitter(feature.spout)
        self._combined = combined_inputs(topology, self._late)
        self._jobs_port: RunPort | None = None

    def running(self) -> Topology:
        """Return the topology that runs in this process. Its task ids are those of a run in one process."""
        source = self.source.component_id
        coordinator, job = coordinator_id(source), f"{source}/job"
        components: dict[str, ComponentSpec] = {coordinator: self.coordinator_spec(coordinator, emitters=1)}
        for spec in self._topology.components.values():
            if spec.component_id in self._late:
                components[spec.component_id] = self.runner_spec(with_merged_inputs(spec, self._combined), coordinator)
            else:
                components[spec.component_id] = _result_spec(with_partial_streams(spec, self._combined), job)
        components[job] = self._job_spec(job, coordinator)
        return replace(self._topology, components=MappingProxyType(components))

    def join(self, handle: RunHandle) -> None:
        """Store the port that reads coordinator and job runner."""
        super().join(handle)
        self._jobs_port = handle.port

    def snapshot_entries(self) -> Iterable[SnapshotEntry]:
        """Return the entries `transactions` and `jobs`."""
        shown = () if self._jobs_port is None else self._jobs_port.shown(ENTRY)
        return (*super().snapshot_entries(), JobsEntry(next(iter(shown), None)))

    def program(self) -> Program:
        """Return the program of the jobs."""
        executors_emit = can_plan(self._emitter)
        seed = RunRandom(self._config.seed).seed
        spout = self._feature.spout
        return Program(self._described(), spout, replays_differ(spout), self._config, seed, executors_emit, self._combined)

    def _job_spec(self, component_id: str, coordinator: str) -> ComponentSpec:
        settings = JobSettings(self.program(), self._feature.spark, self._feature.spool)
        commits = COMMIT_STREAM if takes_part_in_commits(self._emitter) else None
        return ComponentSpec(
            component_id,
            "bolt",
            MadeBy(lambda: JobRunner(settings)),
            1,
            MappingProxyType({RESULTS_STREAM: RESULTS_FIELDS}),
            tuple(all_of(coordinator, BATCH_STREAM, commits)),
            ComponentSettings(),
            replaced_at_each_error=True,
        )

    def _described(self) -> Topology:
        """Return the user's topology without the parts that executors do not need."""
        components: dict[str, ComponentSpec] = {}
        for component_id, spec in self._topology.components.items():
            if component_id in self._late:
                spec = replace(spec, factory=NO_INSTANCES, subscriptions=tuple(map(_without_rule, spec.subscriptions)))
            elif spec is self.source:
                spec = replace(spec, factory=NO_INSTANCES)
            components[component_id] = spec
        return Topology(self._topology.name, MappingProxyType(components))


def _without_rule(subscription: Subscription) -> Subscription:
    """Return a subscription of a component in the engine's process. Only direct streams are routed on Spark."""
    return subscription if isinstance(subscription.grouping, Direct) else replace(subscription, grouping=Global())


def _result_spec(spec: ComponentSpec, job: str) -> ComponentSpec:
    return replace(
        spec,
        kind="bolt",
        factory=MadeBy(lambda: ResultRunner(spec)),
        streams=with_reports(spec),
        subscriptions=tuple(all_of(job, RESULTS_STREAM)),
        settings=ComponentSettings(on_error=spec.settings.on_error),
        replaced_at_each_error=True,
    )
