"""What a soak has done so far, counted, and as lines for a person."""

import resource
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tests.checkpoint.simulate import Simulated as StateSimulated
from tests.simulation.simulate import Simulated
from tests.soak import campaign
from tests.soak.flow import Played as PlayedFlows
from tests.soak.kafka import Played
from tests.soak.kills import Played as PlayedCheckpoints
from tests.soak.spark import Played as PlayedSpark
from tests.transactional.model.simulate import Simulated as TransactionsSimulated

OFFSETS: Final = "offsets"
"""The proof of the offsets of Kafka partitions, counted apart from those of tuple DAGs."""

FLOW: Final = "flow"
"""The proof of the flow controller."""


@dataclass
class Figures:
    """Counts since the soak began."""

    simulations: int = 0
    roots: int = 0
    replaced: int = 0
    faults: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    """By kind: injected deaths, and (`runs with …`) the runs that had one."""
    virtual_secs: float = 0.0
    states: Counter[str] = field(default_factory=Counter)
    state: Counter[str] = field(default_factory=Counter)
    """Of simulated runs with state: runs, processes by how they ended, faults by kind, and what was compared."""
    transactions: Counter[str] = field(default_factory=Counter)
    """Of simulated transactional topologies: runs by the kind of their source, processes by how they ended, faults, what was compared."""
    kills: Counter[str] = field(default_factory=Counter)
    """Of real processes of topologies with state: how many were killed, by store and by step, and what was judged."""
    kafka: dict[str, Counter[str]] = field(default_factory=dict)
    """Of groups on a Kafka broker: what was counted, by scenario."""
    killed_transactions: Counter[str] = field(default_factory=Counter)
    """Of real processes of transactional topologies: how many were killed, by combination and by step."""
    killed_flows: Counter[str] = field(default_factory=Counter)
    """Of real processes of topologies under flow control: how many were killed, by combination and by step, and what was repeated."""
    spark: Counter[str] = field(default_factory=Counter)
    """Of an engine and a pipeline on Spark: how many were killed, by victim, and what was judged."""
    frozen: list[str] = field(default_factory=list)
    """What was measured while Spark stood still."""
    programs: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    """Each with the command that replays it."""

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

    def add_state(self, simulated: StateSimulated) -> None:
        """Count one simulated topology with state."""
        self.state.update(["runs", *(f"process {outcome}" for outcome in simulated.outcomes)])
        self.state.update({f"struck {kind}": count for kind, count in simulated.strikes.items()})
        self.state.update(cuts=simulated.cuts, rollbacks=simulated.rolled_back)
        self.state.update(replayed=simulated.replayed, unavailable=simulated.unavailable)
        self.virtual_secs += simulated.secs
        if simulated.violations:
            self.violations.append(simulated.describe())

    def add_transactions(self, simulated: TransactionsSimulated) -> None:
        """Count one simulated transactional topology."""
        self.transactions.update(["runs", f"source {simulated.kind}", *(f"process {outcome}" for outcome in simulated.outcomes)])
        self.transactions.update({f"struck {kind}": count for kind, count in simulated.strikes.items()})
        self.transactions.update(batches=simulated.batches, replayed=simulated.replayed)
        self.transactions.update(unavailable=simulated.unavailable, refused=simulated.refused, landed=simulated.landed_late)
        self.virtual_secs += simulated.secs
        if simulated.violations:
            self.violations.append(simulated.describe())

    def add_kills(self, played: PlayedCheckpoints) -> None:
        """Count rounds of kills of topologies with state."""
        self._add_played(self.kills, played)
        self.kills.update(numbers=played.numbers, servers=played.servers)

    def add_kafka(self, played: Played) -> None:
        """Count one scenario on a Kafka broker."""
        self.kafka.setdefault(played.name, Counter()).update(played.verdict.counts)
        if played.verdict.violations:
            self.violations.append(played.describe())

    def add_killed_transactions(self, played: campaign.Played[Any]) -> None:
        """Count rounds of kills of transactional topologies."""
        self._add_played(self.killed_transactions, played)

    def add_killed_flows(self, played: PlayedFlows) -> None:
        """Count rounds of kills of topologies under flow control."""
        counts = self.killed_flows
        self._add_played(counts, played)
        counts.update(records=played.records, repeats=played.repeats)
        counts["most repeats"] = max(counts["most repeats"], played.most_repeats)

    def _add_played(self, counts: Counter[str], played: campaign.Played[Any]) -> None:
        counts.update(rounds=played.rounds, kills=played.kills)
        counts.update({f"of {combination}": count for combination, count in played.by_combination.items()})
        counts.update({f"died {place}": count for place, count in played.deaths.items()})
        self.violations += played.violations

    def add_spark(self, played: PlayedSpark) -> None:
        """Count rounds of kills of an engine and a pipeline."""
        self.spark.update(rounds=played.rounds, kills=played.kills, numbers=played.numbers, batches=played.txids)
        self.spark.update({f"died {name}": count for name, count in played.deaths.items()})
        self.frozen += [each.line() for each in played.frozen]
        self.violations += played.violations

    @property
    def dags(self) -> Counter[str]:
        """Of `programs`, those of tuple DAGs."""
        return Counter({name: count for name, count in self.programs.items() if name not in (OFFSETS, FLOW)})

    def line(self, secs: float) -> str:
        """One line of progress."""
        return (
            f"{secs:7.0f} s  {self.simulations:,} runs, {self.roots:,} roots, {self.faults:,} faults; "
            f"{self.dags.total():,} DAGs; {self.programs[OFFSETS]:,} partitions; {self.programs[FLOW]:,} schedules; "
            f"{self.state['runs']:,} runs with state; {self.transactions['runs']:,} with transactions; {self.kills['kills']:,} kills; "
            f"{len(self.violations)} violations; {peak_mib():.0f} MiB"
        )

    def summary(self) -> str:
        """What it came to."""
        states = ", ".join(f"{count:,} {state}" for state, count in sorted(self.states.items()))
        programs = ", ".join(f"{count:,} through {name}" for name, count in self.dags.items())
        kinds = ("bolt", "spout", "acker")
        deaths = ", ".join(f"{self.killed[kind]:,} {kind}s in {self.killed[f'runs with {kind}']:,} runs" for kind in kinds)
        lines = [
            f"random tuple DAGs against the tree model: {self.dags.total():,} ({programs or 'none'})",
            f"lives of Kafka partitions against sets of offsets: {self.programs[OFFSETS]:,}",
            f"schedules of a flow against sets of records and a table: {self.programs[FLOW]:,}",
            f"simulated runs: {self.simulations:,} ({states or 'none'}), {self.virtual_secs / 3600:.1f} h of virtual time",
            f"  {self.roots:,} roots, {self.faults:,} injected faults, {self.replaced:,} instances replaced",
            f"  killed: {deaths}",
            *self.state_lines(),
            *self.transaction_lines(),
            *self.kill_lines(),
            *self.kafka_lines(),
            *self.killed_transactions_lines(),
            *self.killed_flows_lines(),
            *self.spark_lines(),
            f"violations: {len(self.violations)}",
            *self.violations,
        ]
        return "\n".join(lines)

    def state_lines(self) -> list[str]:
        """What the simulated runs with state came to."""
        counts = self.state
        return [
            f"simulated topologies with state: {counts['runs']:,}; their processes: {listed(counts, 'process ')}",
            f"  struck: {listed(counts, 'struck ')}; {counts['unavailable']:,} times the store did not answer",
            f"  compared: {counts['cuts']:,} committed cuts, {counts['rollbacks']:,} states after a rollback; "
            f"{counts['replayed']:,} messages replayed",
        ]

    def transaction_lines(self) -> list[str]:
        """What the simulated transactional topologies came to."""
        counts = self.transactions
        return [
            f"simulated transactional topologies: {counts['runs']:,} ({listed(counts, 'source ')}); "
            f"their processes: {listed(counts, 'process ')}",
            f"  struck: {listed(counts, 'struck ')}; {counts['unavailable']:,} times the store did not answer",
            f"  compared: {counts['batches']:,} committed batches; {counts['replayed']:,} attempts replayed; of writes that nobody waited "
            f"for {counts['landed']:,} came late, {counts['refused']:,} were refused",
        ]

    def kill_lines(self) -> list[str]:
        """What the kills of topologies with state came to."""
        counts = self.kills
        return [
            f"kill -9 of topologies with state: {counts['kills']:,}, in {counts['rounds']:,} rounds; "
            f"{counts['servers']:,} times the server; {counts['numbers']:,} numbers judged",
            f"  by store: {listed(counts, 'of ')}",
            f"  by step: {listed(counts, 'died ')}",
        ]

    def killed_transactions_lines(self) -> list[str]:
        """What the kills of transactional topologies came to."""
        counts = self.killed_transactions
        return [
            f"kill -9 of transactional topologies: {counts['kills']:,}, in {counts['rounds']:,} rounds",
            f"  by combination: {listed(counts, 'of ')}",
            f"  by step: {listed(counts, 'died ')}",
        ]

    def killed_flows_lines(self) -> list[str]:
        """What the kills of topologies under flow control came to."""
        counts = self.killed_flows
        return [
            f"kill -9 of topologies under flow control: {counts['kills']:,}, in {counts['rounds']:,} rounds; "
            f"{counts['records']:,} records, {counts['repeats']:,} repeats, {counts['most repeats']:,} of one task at once",
            f"  by combination: {listed(counts, 'of ')}",
            f"  by step: {listed(counts, 'died ')}",
        ]

    def spark_lines(self) -> list[str]:
        """What the kills of an engine and a pipeline came to."""
        counts = self.spark
        return [
            f"kill -9 around Spark: {counts['kills']:,}, in {counts['rounds']:,} rounds; {counts['numbers']:,} numbers in "
            f"{counts['batches']:,} batches, judged in each sink",
            f"  by victim: {listed(counts, 'died ')}",
            *(f"  {line}" for line in self.frozen),
        ]

    def kafka_lines(self) -> list[str]:
        """What the groups on a Kafka broker came to."""
        lines = [f"  {name}: {listed(counts, '')}" for name, counts in self.kafka.items()]
        return [f"groups on a Kafka broker: {len(self.kafka)} scenarios", *lines]


def listed(counts: Counter[str], prefix: str) -> str:
    """What begins with the prefix, as a list."""
    found = sorted((name.removeprefix(prefix), count) for name, count in counts.items() if name.startswith(prefix))
    return ", ".join(f"{count:,} {name}" for name, count in found) or "none"


def peak_mib() -> float:
    """The most memory that this process had, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024
