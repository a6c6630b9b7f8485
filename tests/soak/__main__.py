"""Random faults for minutes or hours. Every seed comes from the operating system and is printed; status 1 on a violation.

python -m tests.soak --minutes 10     as many as fit
python -m tests.soak --full           12,000 random DAGs, 5,000 Kafka partitions, 10,000 schedules of a flow, 1,000 runs, 2,000 with
                                      state, 5,000 with transactions, kills, Kafka, kills of transactions, of flows and around
                                      Spark, once
python -m tests.soak --full --only kills
python -m tests.soak --seed 42 ...    the same again
"""

import argparse
import gc
import logging
import random
import sys
import time
import traceback
from collections.abc import Collection, Mapping

from tests.checkpoint.simulate import simulate as simulate_state
from tests.model.proofs import PROOFS, prove
from tests.simulation.simulate import simulate
from tests.soak import flow, kafka, kills, spark, transactions
from tests.soak.figures import FLOW, OFFSETS, Figures
from tests.transactional.model.simulate import simulate as simulate_transactions

FULL_SIMULATIONS = 1000
FULL_PROGRAMS = {"ledgers": 5000, "cores": 5000, "runs": 1500, "number of ackers": 500}
FULL_OFFSETS = 5000
ROUND_OFFSETS = 200
FULL_SCHEDULES = 10_000
ROUND_SCHEDULES = 200
ROUND_SIMULATIONS = 40
ROUND_PROGRAMS = {"ledgers": 200, "cores": 200, "runs": 40, "number of ackers": 20}
FULL_STATE_SIMULATIONS = 2000
ROUND_STATE_SIMULATIONS = 80
FULL_TRANSACTIONS = 5000
ROUND_TRANSACTIONS = 100
PARTS = ("dags", "offsets", "flow", "runs", "state", "transactions", "kills", "kafka", "transaction-kills", "flow-kills", "spark")
BATCH = 250
CHECKPOINTS, TRANSACTIONS, FLOWS = kills.Checkpoints(), transactions.Transactions(), flow.Flow()
LINE_EVERY_SECS = 10.0
MOST_VIOLATIONS = 20


class Soak:
    """One soak: what was done, and when it is over."""

    def __init__(self, seed: int, minutes: float | None, parts: Collection[str] = PARTS) -> None:
        self.parts = parts
        self.draws = random.Random(seed)
        self.figures = Figures()
        self.began = self.next_line = time.monotonic()
        self.told = 0
        self.ends = None if minutes is None else self.began + 60 * minutes

    @property
    def is_over(self) -> bool:
        """True when the time is up, or more than enough has gone wrong."""
        late = self.ends is not None and time.monotonic() >= self.ends
        return late or len(self.figures.violations) >= MOST_VIOLATIONS

    def run_full(self) -> None:
        """The full counts, once."""
        self.run_once(FULL_PROGRAMS, FULL_OFFSETS, FULL_SIMULATIONS, FULL_STATE_SIMULATIONS)
        self.kill_checkpoints(CHECKPOINTS.full)
        self.prove_flow(FULL_SCHEDULES)
        self.simulate_transactions(FULL_TRANSACTIONS)
        self.torture_kafka(kafka.FULL)
        self.kill_transactions(TRANSACTIONS.full)
        self.kill_flows(FLOWS.full)
        self.kill_around_spark(spark.FULL, spark.FROZEN_SECS)

    def run_rounds(self) -> None:
        """Rounds of everything until it is over."""
        while not self.is_over:
            self.run_once(ROUND_PROGRAMS, ROUND_OFFSETS, ROUND_SIMULATIONS, ROUND_STATE_SIMULATIONS)
            self.kill_checkpoints(kills.ROUND)
            self.prove_flow(ROUND_SCHEDULES)
            self.simulate_transactions(ROUND_TRANSACTIONS)
            self.torture_kafka(kafka.ROUND)
            self.kill_transactions(transactions.ROUND)
            self.kill_flows(flow.ROUND)
            self.kill_around_spark(spark.ROUND, spark.ROUND_FROZEN_SECS)

    def run_once(self, programs: dict[str, int], offsets: int, simulations: int, state_simulations: int) -> None:
        """Run each part that is asked for, so often."""
        if "dags" in self.parts:
            self.prove(programs)
        if "offsets" in self.parts:
            self.prove({OFFSETS: offsets})
        if "runs" in self.parts:
            self.simulate(simulations)
        if "state" in self.parts:
            self.simulate_state(state_simulations)

    def simulate(self, runs: int) -> None:
        """Simulate so many runs, each of a new seed."""
        for _ in range(runs):
            if self.is_over:
                return
            self.figures.add(simulate(self.draws.getrandbits(40)))
            self.tell()

    def simulate_state(self, runs: int) -> None:
        """Simulate so many topologies with state, each of a new seed."""
        for _ in range(runs):
            if self.is_over:
                return
            self.figures.add_state(simulate_state(self.draws.getrandbits(40)))
            self.tell()

    def simulate_transactions(self, runs: int) -> None:
        """Simulate so many transactional topologies, each of a new seed."""
        for _ in range(runs):
            if self.is_over or "transactions" not in self.parts:
                return
            self.figures.add_transactions(simulate_transactions(self.draws.getrandbits(40)))
            self.tell()

    def kill_checkpoints(self, count: int) -> None:
        """Kill so many processes of topologies with state."""
        if "kills" not in self.parts or self.is_over:
            return
        self.figures.add_kills(CHECKPOINTS.play(count, self.draws.getrandbits(40), lambda: self.is_over))
        self.told = len(self.figures.violations)  # they have been printed
        self.tell()

    def torture_kafka(self, counts: Mapping[str, int]) -> None:
        """Play each scenario on a Kafka broker, striking so often."""
        for name, count in counts.items():
            if "kafka" not in self.parts or self.is_over or kafka.why_no():
                return
            played = kafka.play(name, count, self.draws.getrandbits(40))
            self.figures.add_kafka(played)
            print(f"  Kafka, {name}: {played.verdict.line()}", flush=True)
            self.tell()

    def kill_transactions(self, kills: int) -> None:
        """Kill so many processes of transactional topologies."""
        if "transaction-kills" not in self.parts or self.is_over or TRANSACTIONS.why_no():
            return
        self.figures.add_killed_transactions(TRANSACTIONS.play(kills, self.draws.getrandbits(40), lambda: self.is_over))
        self.told = len(self.figures.violations)  # they have been printed
        self.tell()

    def kill_flows(self, kills: int) -> None:
        """Kill so many processes of topologies under flow control."""
        if "flow-kills" not in self.parts or self.is_over:
            return
        self.figures.add_killed_flows(FLOWS.play(kills, self.draws.getrandbits(40), lambda: self.is_over))
        self.told = len(self.figures.violations)  # they have been printed
        self.tell()

    def kill_around_spark(self, kills: int, frozen_secs: float) -> None:
        """Kill so many processes of an engine and a pipeline, then have Spark stand still."""
        if "spark" not in self.parts or self.is_over or spark.why_no():
            return
        self.figures.add_spark(spark.play(kills, self.draws.getrandbits(40), frozen_secs, lambda: self.is_over))
        self.told = len(self.figures.violations)  # they have been printed
        self.tell()

    def prove_flow(self, schedules: int) -> None:
        """Run the proof of the flow controller with so many schedules."""
        if "flow" in self.parts:
            self.prove({FLOW: schedules})

    def prove(self, counts: dict[str, int]) -> None:
        """Run each proof with so many programs, in batches of their own seeds."""
        for name, count in counts.items():
            for first in range(0, count, BATCH):
                if self.is_over:
                    return
                self.prove_batch(name, min(BATCH, count - first))
                self.tell()

    def prove_batch(self, name: str, count: int) -> None:
        """Run one proof with so many programs; a counterexample is shrunk and noted."""
        seed = self.draws.getrandbits(32)
        try:
            prove(name, count, seed=seed)
        except Exception:
            replay = f'python -c "from tests.model.proofs import prove; prove({name!r}, {count}, seed={seed})"'
            self.figures.violations.append(f"{name}, seed {seed}:\n{traceback.format_exc()}\nReplay: {replay}")
        self.figures.programs[name] += count

    def tell(self) -> None:
        """Print violations at once, and a line of progress now and then."""
        for violation in self.figures.violations[self.told :]:
            print(violation, flush=True)
        self.told = len(self.figures.violations)
        now = time.monotonic()
        if now >= self.next_line:
            self.next_line = now + LINE_EVERY_SECS
            print(self.figures.line(now - self.began), flush=True)


def main() -> int:
    """Soak; status 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Long random faults.")
    parser.add_argument("--minutes", type=float, default=10.0, help="for how long (default 10)")
    counts = (
        f"{sum(FULL_PROGRAMS.values()):,} DAGs, {FULL_OFFSETS:,} Kafka partitions, "
        f"{FULL_SCHEDULES:,} schedules of a flow, {FULL_SIMULATIONS:,} runs, "
        f"{FULL_STATE_SIMULATIONS:,} runs with state, {FULL_TRANSACTIONS:,} with transactions, {CHECKPOINTS.full:,} kills"
        f", {sum(kafka.FULL.values()):,} faults of Kafka and its groups, {TRANSACTIONS.full:,} kills of transactions"
        f", {FLOWS.full:,} of flows"
        f", {spark.FULL:,} kills around Spark"
    )
    parser.add_argument("--full", action="store_true", help=f"{counts}, however long it takes")
    parser.add_argument("--seed", type=int, help="of all draws; default: from the operating system")
    parser.add_argument("--only", choices=PARTS, help="one of its parts")
    arguments = parser.parse_args()
    assert set(PROOFS) - {OFFSETS, FLOW} == set(FULL_PROGRAMS) == set(ROUND_PROGRAMS)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().getrandbits(48)
    span = counts if arguments.full else f"{arguments.minutes:g} minutes"
    print(f"seed {seed}: {span}, Python {sys.version.split()[0]}", flush=True)
    logging.getLogger("engine").setLevel(logging.CRITICAL)
    gc.freeze()  # each run collects its garbage; what was imported is none
    soak = Soak(seed, None if arguments.full else arguments.minutes, [arguments.only] if arguments.only else PARTS)
    if reason := kafka.why_no():
        print(f"no Kafka: {reason}", flush=True)
    if reason := TRANSACTIONS.why_no():
        print(f"no kills of transactions: {reason}", flush=True)
    if reason := spark.why_no():
        print(f"no kills around Spark: {reason}", flush=True)
    try:
        soak.run_full() if arguments.full else soak.run_rounds()
    except KeyboardInterrupt:
        print("interrupted")
    print(f"\nafter {time.monotonic() - soak.began:.0f} s, seed {seed}:\n{soak.figures.summary()}")
    return 1 if soak.figures.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
