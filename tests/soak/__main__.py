"""Random faults for minutes or hours. The seed comes from the operating system and is printed. Status 1 after a violation.

Usage:

    python -m tests.soak --minutes 10             rounds of all parts for ten minutes
    python -m tests.soak --full                   each part once, with the counts of a release; --help shows them
                                                  and the tests marked soak
    python -m tests.soak --full --only kills      one part
    python -m tests.soak --seed 42 ...            repeat an earlier soak
"""

import argparse
import gc
import importlib.util
import logging
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from tests.checkpoint.simulate import simulate as simulate_state
from tests.model.proofs import PROOFS, prove
from tests.project.sources import ROOT
from tests.simulation.simulate import simulate
from tests.soak import campaign, cluster, exact, flow, kafka, kills, processes, spark, transactions, windows
from tests.soak.figures import FLOW, OFFSETS, STRICT_ORDER, Figures
from tests.transactional.model.simulate import simulate as simulate_transactions

CHECKPOINTS, TRANSACTIONS, FLOWS, PROCESSES = kills.Checkpoints(), transactions.Transactions(), flow.Flow(), processes.Processes()
EXACT: Final = exact.Exact()
WINDOWS: Final = windows.Windows()
PARTS: Final = (
    *("dags", "offsets", "flow", "runs", "process-runs", "state", "process-state", "transactions", "cluster"),
    *("kills", "exact-kills", "windows", "kafka", "transaction-kills", "flow-kills", "process-kills", "spark", "cluster-kills"),
    "tests",
)
BATCH: Final = 250
"""Programs of a proof that share a seed."""
LINE_EVERY_SECS: Final = 10.0
MOST_VIOLATIONS: Final = 20

SimulatedT = TypeVar("SimulatedT")


@dataclass(frozen=True)
class Counts:
    """How much each part does: proofs in programs, simulations in runs, kills in processes."""

    dags: Mapping[str, int]
    offsets: int
    """Kafka partitions, as many in strict order as in any other."""
    flow: int
    runs: int
    process_runs: int
    """Simulated runs with bolts in processes."""
    state: int
    process_state: int
    """The same with bolts in processes."""
    transactions: int
    cluster: int
    kills: int
    exact_kills: int
    window_kills: int
    kafka: Mapping[str, int]
    transaction_kills: int
    flow_kills: int
    process_kills: int
    spark_kills: int
    cluster_kills: int
    frozen_secs: float
    has_tests: bool = False
    """Whether the tests marked `soak` run, too."""

    def __str__(self) -> str:
        return (
            f"{sum(self.dags.values()):,} DAGs, {self.offsets:,} Kafka partitions, {self.flow:,} schedules of a flow, "
            f"{self.runs:,} runs, {self.process_runs:,} with processes, "
            f"{self.state:,} runs with state, {self.process_state:,} with state in processes, {self.transactions:,} with transactions, "
            f"{self.cluster:,} with transactions on Spark, {self.kills:,} kills, {self.exact_kills:,} with exact sources, "
            f"{self.window_kills:,} with windows, "
            f"{sum(self.kafka.values()):,} faults of Kafka and its groups, {self.transaction_kills:,} kills of transactions, "
            f"{self.flow_kills:,} of flows, {self.process_kills:,} of bolts in processes, {self.spark_kills:,} kills around Spark, "
            f"{self.cluster_kills:,} around topologies on Spark{', the tests marked soak' if self.has_tests else ''}"
        )


FULL: Final = Counts(
    dags={"ledgers": 5000, "cores": 5000, "runs": 1500, "number of ackers": 500, "bursts": 1500, "processes": 300},
    offsets=5000,
    flow=10_000,
    runs=1000,
    process_runs=500,
    state=2000,
    process_state=300,
    transactions=5000,
    cluster=1000,
    kills=CHECKPOINTS.full,
    exact_kills=EXACT.full,
    window_kills=WINDOWS.full,
    kafka=kafka.FULL,
    transaction_kills=TRANSACTIONS.full,
    flow_kills=FLOWS.full,
    process_kills=PROCESSES.full,
    spark_kills=spark.FULL,
    cluster_kills=cluster.FULL,
    frozen_secs=spark.FROZEN_SECS,
    has_tests=True,
)
ROUND: Final = Counts(
    dags={"ledgers": 200, "cores": 200, "runs": 40, "number of ackers": 20, "bursts": 40, "processes": 10},
    offsets=200,
    flow=200,
    runs=40,
    process_runs=15,
    state=80,
    process_state=8,
    transactions=100,
    cluster=20,
    kills=kills.ROUND,
    exact_kills=exact.ROUND,
    window_kills=windows.ROUND,
    kafka=kafka.ROUND,
    transaction_kills=transactions.ROUND,
    flow_kills=flow.ROUND,
    process_kills=processes.ROUND,
    spark_kills=spark.ROUND,
    cluster_kills=cluster.ROUND,
    frozen_secs=spark.ROUND_FROZEN_SECS,
)


class Soak:
    """One soak: its figures, and when it is over."""

    def __init__(self, seed: int, minutes: float | None, parts: Collection[str] = PARTS) -> None:
        self.parts = parts
        self.draws = random.Random(seed)
        self.figures = Figures()
        self.began = self.next_line = time.monotonic()
        self.printed = 0
        """Number of violations that were printed."""
        self.ends = None if minutes is None else self.began + 60 * minutes

    @property
    def is_over(self) -> bool:
        """Whether the time is up, or there are too many violations."""
        late = self.ends is not None and time.monotonic() >= self.ends
        return late or len(self.figures.violations) >= MOST_VIOLATIONS

    def run(self, counts: Counts) -> None:
        """Run each selected part once."""
        figures = self.figures
        parts: dict[str, Callable[[], None]] = {
            "dags": lambda: self.prove(counts.dags),
            "offsets": lambda: self.prove({OFFSETS: counts.offsets, STRICT_ORDER: counts.offsets}),
            "runs": lambda: self.simulate(simulate, figures.add, counts.runs),
            "process-runs": lambda: self.simulate(partial(simulate, processes=True), figures.add_process_run, counts.process_runs),
            "state": lambda: self.simulate(simulate_state, figures.add_state, counts.state),
            "process-state": lambda: self.simulate(
                partial(simulate_state, processes=True), figures.add_process_state, counts.process_state
            ),
            "kills": lambda: self.kill(CHECKPOINTS, figures.add_kills, counts.kills),
            "exact-kills": lambda: self.kill(EXACT, figures.add_exact_kills, counts.exact_kills),
            "windows": lambda: self.kill(WINDOWS, figures.add_window_kills, counts.window_kills),
            "flow": lambda: self.prove({FLOW: counts.flow}),
            "transactions": lambda: self.simulate(simulate_transactions, figures.add_transactions, counts.transactions),
            "cluster": lambda: self.simulate_on_spark(counts.cluster),
            "kafka": lambda: self.torture_kafka(counts.kafka),
            "transaction-kills": lambda: self.kill(TRANSACTIONS, figures.add_killed_transactions, counts.transaction_kills),
            "flow-kills": lambda: self.kill(FLOWS, figures.add_killed_flows, counts.flow_kills),
            "process-kills": lambda: self.kill(PROCESSES, figures.add_killed_processes, counts.process_kills),
            "spark": lambda: self.kill_around_spark(counts.spark_kills, counts.frozen_secs),
            "cluster-kills": lambda: self.kill_around_cluster(counts.cluster_kills),
            "tests": lambda: self.run_tests() if counts.has_tests else None,
        }
        for name, run_part in parts.items():
            if name in self.parts and not self.is_over:
                run_part()

    def prove(self, counts: Mapping[str, int]) -> None:
        """Run each proof with its number of programs, in batches with a seed each."""
        for name, count in counts.items():
            for first in range(0, count, BATCH):
                if self.is_over:
                    return
                self.prove_batch(name, min(BATCH, count - first))
                self.report()

    def prove_batch(self, name: str, count: int) -> None:
        """Run one proof; hypothesis shrinks a counterexample, which becomes a violation."""
        seed = self.draws.getrandbits(32)
        try:
            prove(name, count, seed=seed)
        except Exception:
            replay = f'python -c "from tests.model.proofs import prove; prove({name!r}, {count}, seed={seed})"'
            self.figures.violations.append(f"{name}, seed {seed}:\n{traceback.format_exc()}\nReplay: {replay}")
        self.figures.programs[name] += count

    def simulate(self, one: Callable[[int], SimulatedT], add: Callable[[SimulatedT], None], count: int) -> None:
        """Run simulations, each with a new seed."""
        for _ in range(count):
            if self.is_over:
                return
            add(one(self.draws.getrandbits(40)))
            self.report()

    def simulate_on_spark(self, count: int) -> None:
        """Run simulations of transactions with their processing phase on Spark's levels. They need pyspark's pickling, and no JVM."""
        if importlib.util.find_spec("pyspark") is not None:
            from tests.spark_bridge.topology.model.simulate import simulate as simulate_cluster

            self.simulate(simulate_cluster, self.figures.add_cluster, count)

    def kill(self, kind: campaign.Campaign[Any, Any], add: Callable[[Any], None], count: int) -> None:
        """Kill processes of one kind of topology, which prints its violations itself."""
        if kind.why_not() is None:
            add(kind.run(count, self.draws.getrandbits(40), lambda: self.is_over))
            self.report(are_printed=True)

    def torture_kafka(self, counts: Mapping[str, int]) -> None:
        """Run each scenario on a Kafka broker, with its number of faults."""
        for name, count in counts.items():
            if self.is_over or kafka.why_not():
                return
            result = kafka.run(name, count, self.draws.getrandbits(40))
            self.figures.add_kafka(result)
            print(f"  Kafka, {name}: {result.verdict.line()}", flush=True)
            self.report()

    def kill_around_spark(self, count: int, frozen_secs: float) -> None:
        """Kill processes of an engine and a pipeline, then freeze Spark."""
        if spark.why_not() is None:
            self.figures.add_spark(spark.run(count, self.draws.getrandbits(40), frozen_secs, lambda: self.is_over))
            self.report(are_printed=True)

    def kill_around_cluster(self, count: int) -> None:
        """Kill processes around topologies on Spark."""
        if cluster.why_not() is None:
            self.figures.add_killed_clusters(cluster.run(count, self.draws.getrandbits(40), lambda: self.is_over))
            self.report(are_printed=True)

    def run_tests(self) -> None:
        """Run the tests marked `soak`, which print their failures."""
        status = subprocess.run(["scripts/run-tests", "test-soak", sys.executable, "auto"], cwd=ROOT, check=False).returncode
        if status != 0:
            self.figures.violations.append(f"tests marked soak have failed (status {status}). Replay: make test-soak")
        self.report()

    def report(self, *, are_printed: bool = False) -> None:
        """Print new violations at once, and a line of progress every ten seconds."""
        for violation in () if are_printed else self.figures.violations[self.printed :]:
            print(violation, flush=True)
        self.printed = len(self.figures.violations)
        now = time.monotonic()
        if now >= self.next_line:
            self.next_line = now + LINE_EVERY_SECS
            print(self.figures.line(now - self.began), flush=True)


def main() -> int:
    """Run the soak of the command line; status 1 after a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Long random faults.")
    parser.add_argument("--minutes", type=float, default=10.0, help="duration (default 10)")
    parser.add_argument("--full", action="store_true", help=f"{FULL}, however long it takes")
    parser.add_argument("--seed", type=int, help="seed of all draws (default: from the operating system)")
    parser.add_argument("--only", choices=PARTS, help="run one part alone")
    arguments = parser.parse_args()
    assert set(PROOFS) - {OFFSETS, STRICT_ORDER, FLOW} == set(FULL.dags) == set(ROUND.dags)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().getrandbits(48)
    span = FULL if arguments.full else f"{arguments.minutes:g} minutes"
    print(f"seed {seed}: {span}, Python {sys.version.split()[0]}", flush=True)
    logging.getLogger("engine").setLevel(logging.CRITICAL)
    gc.freeze()  # a run collects garbage often; imported modules are none
    soak = Soak(seed, None if arguments.full else arguments.minutes, [arguments.only] if arguments.only else PARTS)
    for part, reason in {"Kafka": kafka.why_not(), "kills of transactions": TRANSACTIONS.why_not(), "Spark": spark.why_not()}.items():
        if reason:
            print(f"skipped: {part}: {reason}", flush=True)
    try:
        if arguments.full:
            soak.run(FULL)
        while not arguments.full and not soak.is_over:
            soak.run(ROUND)
    except KeyboardInterrupt:
        print("interrupted")
    print(f"\nafter {time.monotonic() - soak.began:.0f} s, seed {seed}:\n{soak.figures.summary()}")
    return 1 if soak.figures.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
