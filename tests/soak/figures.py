"""Counts of a soak, and their lines of text."""

import resource
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tests.checkpoint.simulate import Simulated as StateSimulated
from tests.simulation.simulate import Simulated
from tests.soak import campaign
from tests.soak.cluster import ClusterResult
from tests.soak.flow import FlowResult
from tests.soak.kafka import ScenarioResult
from tests.soak.kills import CheckpointsResult
from tests.soak.spark import SparkResult
from tests.transactional.model.simulate import Simulated as TransactionsSimulated

OFFSETS: Final = "offsets"
"""Proof of Kafka's offsets, counted apart from the proofs of tuple DAGs."""

STRICT_ORDER: Final = "strict order"
"""Proof of Kafka partitions in strict order."""

FLOW: Final = "flow"
"""Proof of the flow controller."""


@dataclass
class Figures:
    """Counts since the soak began."""

    simulations: int = 0
    process_simulations: int = 0
    """Part of the simulated runs: those with bolts in processes."""
    roots: int = 0
    replaced: int = 0
    faults: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    """Injected deaths by kind, and (`runs with …`) the runs that had one."""
    virtual_secs: float = 0.0
    states: Counter[str] = field(default_factory=Counter)
    state: Counter[str] = field(default_factory=Counter)
    """Simulated runs with state: runs, ends of their processes, faults by kind, and comparisons."""
    transactions: Counter[str] = field(default_factory=Counter)
    """Simulated transactional topologies: runs by kind of source, ends of their processes, faults, and comparisons."""
    cluster: Counter[str] = field(default_factory=Counter)
    """The same, with their processing phase on Spark's levels."""
    kills: Counter[str] = field(default_factory=Counter)
    """Topologies with state as real processes: kills by store and step, and checked numbers."""
    kafka: dict[str, Counter[str]] = field(default_factory=dict)
    """Groups on a Kafka broker: counts of each scenario."""
    killed_transactions: Counter[str] = field(default_factory=Counter)
    """Transactional topologies as real processes: kills by combination and step."""
    killed_flows: Counter[str] = field(default_factory=Counter)
    """Topologies under flow control as real processes: kills by combination and step, and repeated records."""
    window_kills: Counter[str] = field(default_factory=Counter)
    """Flows with windows: kills by combination and step."""
    exact_kills: Counter[str] = field(default_factory=Counter)
    """Topologies with exact sources: kills by combination and step."""
    killed_processes: Counter[str] = field(default_factory=Counter)
    """Bolts in processes: kills by topology and step."""
    spark: Counter[str] = field(default_factory=Counter)
    """An engine and a pipeline on Spark: kills by victim, and checked numbers."""
    killed_clusters: Counter[str] = field(default_factory=Counter)
    """Topologies on Spark: kills by store and victim."""
    frozen: list[str] = field(default_factory=list)
    """Measurements while Spark was frozen."""
    programs: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    """Violations, each with the command that replays it."""

    def add(self, simulated: Simulated) -> None:
        """Count one simulated run."""
        self.simulations += 1
        self.roots += simulated.roots
        self.replaced += simulated.replaced
        self.killed.update(simulated.killed)
        self.killed.update(f"runs with {kind}" for kind in {*simulated.killed})
        self.faults += simulated.faults
        self.virtual_secs += simulated.secs
        self.states[simulated.state] += 1
        if simulated.violations:
            self.violations.append(simulated.describe())

    def add_process_run(self, simulated: Simulated) -> None:
        """Count one simulated run with bolts in processes."""
        self.process_simulations += 1
        self.add(simulated)

    def add_state(self, simulated: StateSimulated) -> None:
        """Count one simulated topology with state."""
        self.state.update(["runs", *(f"process {outcome}" for outcome in simulated.outcomes)])
        self.state.update({f"struck {kind}": count for kind, count in simulated.strikes.items()})
        self.state.update(cuts=simulated.cuts, rollbacks=simulated.rolled_back)
        self.state.update(replayed=simulated.replayed, unavailable=simulated.unavailable)
        self.state.update(published=simulated.published, resumed=simulated.resumed)
        self.virtual_secs += simulated.secs
        if simulated.violations:
            self.violations.append(simulated.describe())

    def add_process_state(self, simulated: StateSimulated) -> None:
        """Count one simulated topology with state in processes."""
        self.state["runs with processes"] += 1
        self.add_state(simulated)

    def add_transactions(self, simulated: TransactionsSimulated) -> None:
        """Count one simulated transactional topology."""
        self._add_transactions(self.transactions, simulated)

    def add_cluster(self, simulated: TransactionsSimulated) -> None:
        """Count one simulated transactional topology with its processing phase on Spark."""
        self._add_transactions(self.cluster, simulated)

    def _add_transactions(self, counts: Counter[str], simulated: TransactionsSimulated) -> None:
        counts.update(["runs", f"source {simulated.kind}", *(f"process {outcome}" for outcome in simulated.outcomes)])
        counts.update({f"struck {kind}": count for kind, count in simulated.strikes.items()})
        counts.update(batches=simulated.batches, replayed=simulated.replayed)
        counts.update(unavailable=simulated.unavailable, refused=simulated.refused, landed=simulated.landed_late)
        self.virtual_secs += simulated.secs
        if simulated.violations:
            self.violations.append(simulated.describe())

    def add_kills(self, result: CheckpointsResult) -> None:
        """Count rounds of kills of topologies with state."""
        self._add_kills(self.kills, result)
        self.kills.update(numbers=result.numbers, servers=result.servers)

    def add_kafka(self, result: ScenarioResult) -> None:
        """Count one scenario on a Kafka broker."""
        self.kafka.setdefault(result.name, Counter()).update(result.verdict.counts)
        if result.verdict.violations:
            self.violations.append(result.describe())

    def add_killed_transactions(self, result: campaign.KillsResult[Any]) -> None:
        """Count rounds of kills of transactional topologies."""
        self._add_kills(self.killed_transactions, result)

    def add_killed_flows(self, result: FlowResult) -> None:
        """Count rounds of kills of topologies under flow control."""
        counts = self.killed_flows
        self._add_kills(counts, result)
        counts.update(records=result.records, repeats=result.repeats)
        counts["most repeats"] = max(counts["most repeats"], result.most_repeats)

    def add_exact_kills(self, result: campaign.KillsResult[Any]) -> None:
        """Count rounds of kills of topologies with exact sources."""
        self._add_kills(self.exact_kills, result)

    def add_window_kills(self, result: campaign.KillsResult[Any]) -> None:
        """Count rounds of kills of flows with windows."""
        self._add_kills(self.window_kills, result)

    def add_killed_processes(self, result: campaign.KillsResult[Any]) -> None:
        """Count rounds of kills of bolts in processes."""
        self._add_kills(self.killed_processes, result)

    def _add_kills(self, counts: Counter[str], result: campaign.KillsResult[Any]) -> None:
        counts.update(rounds=result.rounds, kills=result.kills)
        counts.update({f"of {combination}": count for combination, count in result.by_combination.items()})
        counts.update({f"died {place}": count for place, count in result.deaths.items()})
        self.violations += result.violations

    def add_spark(self, result: SparkResult) -> None:
        """Count rounds of kills of an engine and a pipeline."""
        self.spark.update(rounds=result.rounds, kills=result.kills, numbers=result.numbers, batches=result.txids)
        self.spark.update({f"died {name}": count for name, count in result.deaths.items()})
        self.frozen += [each.line() for each in result.frozen]
        self.violations += result.violations

    def add_killed_clusters(self, result: ClusterResult) -> None:
        """Count rounds of kills around topologies on Spark."""
        counts = self.killed_clusters
        counts.update(rounds=result.rounds, kills=result.kills)
        counts.update({f"of {store}": count for store, count in result.by_store.items()})
        counts.update({f"died {name}": count for name, count in result.deaths.items()})
        self.violations += result.violations

    @property
    def dags(self) -> Counter[str]:
        """Programs of tuple DAGs."""
        return Counter({name: count for name, count in self.programs.items() if name not in (OFFSETS, STRICT_ORDER, FLOW)})

    def line(self, secs: float) -> str:
        """Return one line of progress."""
        return (
            f"{secs:7.0f} s  {self.simulations:,} runs, {self.roots:,} roots, {self.faults:,} faults; "
            f"{self.dags.total():,} DAGs; {self.programs[OFFSETS] + self.programs[STRICT_ORDER]:,} partitions; "
            f"{self.programs[FLOW]:,} schedules; "
            f"{self.state['runs']:,} runs with state; {self.transactions['runs']:,} with transactions; {self.kills['kills']:,} kills; "
            f"{len(self.violations)} violations; {peak_mib():.0f} MiB"
        )

    def summary(self) -> str:
        """Return all totals."""
        states = ", ".join(f"{count:,} {state}" for state, count in sorted(self.states.items()))
        programs = ", ".join(f"{count:,} through {name}" for name, count in self.dags.items())
        kinds = ("bolt", "spout", "acker")
        deaths = ", ".join(f"{self.killed[kind]:,} {kind}s in {self.killed[f'runs with {kind}']:,} runs" for kind in kinds)
        lines = [
            f"random tuple DAGs against the tree model: {self.dags.total():,} ({programs or 'none'})",
            f"histories of Kafka partitions against sets of offsets: {self.programs[OFFSETS]:,}",
            f"the same in strict order: {self.programs[STRICT_ORDER]:,}",
            f"schedules of a flow against sets of records and a table: {self.programs[FLOW]:,}",
            f"simulated runs: {self.simulations:,} ({states or 'none'}), {self.virtual_secs / 3600:.1f} h of virtual time",
            f"  {self.process_simulations:,} of them with bolts in processes; their children: {list_counts(self.killed, 'child ')}",
            f"  {self.roots:,} roots, {self.faults:,} injected faults, {self.replaced:,} instances replaced",
            f"  killed: {deaths}",
            *self.state_lines(),
            *transaction_lines("simulated transactional topologies", self.transactions),
            *transaction_lines("the same on Spark's levels", self.cluster),
            *self.kill_lines(),
            *self.kafka_lines(),
            *self.killed_transactions_lines(),
            *self.killed_flows_lines(),
            *self.exact_kills_lines(),
            *self.window_kills_lines(),
            *self.killed_processes_lines(),
            *self.spark_lines(),
            *self.killed_clusters_lines(),
            f"violations: {len(self.violations)}",
            *self.violations,
        ]
        return "\n".join(lines)

    def state_lines(self) -> list[str]:
        """Totals of the simulated runs with state."""
        counts = self.state
        return [
            f"simulated topologies with state: {counts['runs']:,}; their processes: {list_counts(counts, 'process ')}",
            f"  {counts['runs with processes']:,} of them with state in child processes",
            f"  struck: {list_counts(counts, 'struck ')}; {counts['unavailable']:,} times the store did not answer",
            f"  compared: {counts['cuts']:,} committed cuts, {counts['rollbacks']:,} states after a rollback; "
            f"{counts['replayed']:,} messages replayed",
            f"  judged: {counts['published']:,} rows that committers have published; {counts['resumed']:,} starts in COMMITTING",
        ]

    def kill_lines(self) -> list[str]:
        """Totals of the kills of topologies with state."""
        counts = self.kills
        return [
            f"kill -9 of topologies with state: {counts['kills']:,}, in {counts['rounds']:,} rounds; "
            f"{counts['servers']:,} times the server; {counts['numbers']:,} numbers judged",
            f"  by store: {list_counts(counts, 'of ')}",
            f"  by step: {list_counts(counts, 'died ')}",
        ]

    def killed_transactions_lines(self) -> list[str]:
        """Totals of the kills of transactional topologies."""
        counts = self.killed_transactions
        return [
            f"kill -9 of transactional topologies: {counts['kills']:,}, in {counts['rounds']:,} rounds",
            f"  by combination: {list_counts(counts, 'of ')}",
            f"  by step: {list_counts(counts, 'died ')}",
        ]

    def killed_flows_lines(self) -> list[str]:
        """Totals of the kills of topologies under flow control."""
        counts = self.killed_flows
        return [
            f"kill -9 of topologies under flow control: {counts['kills']:,}, in {counts['rounds']:,} rounds; "
            f"{counts['records']:,} records, {counts['repeats']:,} repeats, {counts['most repeats']:,} of one task at once",
            f"  by combination: {list_counts(counts, 'of ')}",
            f"  by step: {list_counts(counts, 'died ')}",
        ]

    def exact_kills_lines(self) -> list[str]:
        """Totals of the kills of topologies with exact sources."""
        counts = self.exact_kills
        return [
            f"kill -9 of topologies with exact sources: {counts['kills']:,}, in {counts['rounds']:,} rounds",
            f"  by combination: {list_counts(counts, 'of ')}",
            f"  by step: {list_counts(counts, 'died ')}",
        ]

    def window_kills_lines(self) -> list[str]:
        """Totals of the kills of flows with windows."""
        counts = self.window_kills
        return [
            f"kill -9 of flows with windows: {counts['kills']:,}, in {counts['rounds']:,} rounds",
            f"  by combination: {list_counts(counts, 'of ')}",
            f"  by step: {list_counts(counts, 'died ')}",
        ]

    def killed_processes_lines(self) -> list[str]:
        """Totals of the kills of bolts in processes."""
        counts = self.killed_processes
        return [
            f"kill -9 of bolts in processes, and of their runs: {counts['kills']:,}, in {counts['rounds']:,} rounds",
            f"  by topology: {list_counts(counts, 'of ')}",
            f"  by step: {list_counts(counts, 'died ')}",
        ]

    def spark_lines(self) -> list[str]:
        """Totals of the kills of an engine and a pipeline."""
        counts = self.spark
        return [
            f"kill -9 around Spark: {counts['kills']:,}, in {counts['rounds']:,} rounds; {counts['numbers']:,} numbers in "
            f"{counts['batches']:,} batches, judged in each sink",
            f"  by victim: {list_counts(counts, 'died ')}",
            *(f"  {line}" for line in self.frozen),
        ]

    def killed_clusters_lines(self) -> list[str]:
        """Totals of the kills around topologies on Spark."""
        counts = self.killed_clusters
        return [
            f"kill -9 around topologies on Spark: {counts['kills']:,}, in {counts['rounds']:,} rounds",
            f"  by store: {list_counts(counts, 'of ')}",
            f"  by victim: {list_counts(counts, 'died ')}",
        ]

    def kafka_lines(self) -> list[str]:
        """Totals of the groups on a Kafka broker."""
        lines = [f"  {name}: {list_counts(counts, '')}" for name, counts in self.kafka.items()]
        return [f"groups on a Kafka broker: {len(self.kafka)} scenarios", *lines]


def transaction_lines(name: str, counts: Counter[str]) -> list[str]:
    """Totals of simulated transactional topologies."""
    return [
        f"{name}: {counts['runs']:,} ({list_counts(counts, 'source ')}); their processes: {list_counts(counts, 'process ')}",
        f"  struck: {list_counts(counts, 'struck ')}; {counts['unavailable']:,} times the store did not answer",
        f"  compared: {counts['batches']:,} committed batches; {counts['replayed']:,} attempts replayed; of writes that nobody waited "
        f"for {counts['landed']:,} came late, {counts['refused']:,} were refused",
    ]


def list_counts(counts: Counter[str], prefix: str) -> str:
    """List the counts whose names begin with the prefix."""
    found = sorted((name.removeprefix(prefix), count) for name, count in counts.items() if name.startswith(prefix))
    return ", ".join(f"{count:,} {name}" for name, count in found) or "none"


def peak_mib() -> float:
    """Peak memory of this process in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024
