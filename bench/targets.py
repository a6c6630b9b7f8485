"""Targets, which are bounds on measured ratios, figures and rates, and their verdicts."""

from dataclasses import dataclass
from typing import Literal

from bench.results import Results

Kind = Literal["time-ratio", "speed-ratio", "figure", "rate"]


@dataclass(frozen=True)
class Target:
    """One bound on a ratio to a peer, or on a figure or a rate of the engine."""

    work: str
    what: str
    kind: Kind
    source: str
    """Name of the peer, or key of the figure."""
    bound: float
    unit: str = ""

    @property
    def at_least(self) -> bool:
        """Return True if more is better."""
        return self.kind in ("speed-ratio", "rate")

    @property
    def bound_text(self) -> str:
        """Return the bound as the table shows it."""
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}{self.unit}"


@dataclass(frozen=True)
class Verdict:
    """A target and its measured value, None if it was not measured."""

    target: Target
    value: float | None
    detail: str

    @property
    def text(self) -> str:
        """Return "reached", "NOT reached" or "not measured"."""
        if self.value is None:
            return "not measured"
        reached = self.value >= self.target.bound if self.target.at_least else self.value <= self.target.bound
        return "reached" if reached else "NOT reached"


def _ratios(work: str, bare: float, peers: dict[str, float]) -> list[Target]:
    own = Target(work, "time, to the bare loop", "time-ratio", "bare-loop", bare, " ×")
    return [own, *(Target(work, f"speed, to {peer}", "speed-ratio", peer, bound, " ×") for peer, bound in peers.items())]


TARGETS = (
    *_ratios("const-null", 1.25, {"storm": 2.0}),
    *_ratios("const-id-null", 1.25, {"storm": 2.0}),
    *_ratios("un-acked", 1.25, {}),
    *_ratios("word-count", 1.25, {"bytewax-256": 1.05, "storm": 4.0}),
    *_ratios("const-null-bursts", 1.25, {"storm": 4.0}),
    *_ratios("const-id-null-bursts", 1.25, {}),
    *_ratios("word-count-bursts", 1.25, {"bytewax-256": 2.5, "bytewax-256-logic": 1.3}),
    Target("text-count-bursts-none", "a text without state, speed, to flink", "speed-ratio", "flink", 1.0, " ×"),
    Target("text-count-bursts-sqlite", "the same in SQLite, speed, to flink", "speed-ratio", "flink", 0.7, " ×"),
    Target("text-count-bursts-sqlite-exact", "the same exactly once, speed, to flink", "speed-ratio", "flink", 0.75, " ×"),
    Target("un-acked-bursts", "speed, to storm", "speed-ratio", "storm", 1.0, " ×"),
    Target("latency", "p99 emit to ack at 10,000 tuples/s", "figure", "p99_ms", 1.0, " ms"),
    Target("open-trees", "ledger, 1,000,000 open trees", "figure", "ledger_bytes_per_tree", 64, " bytes/tree"),
    Target("open-trees", "all in all, 1,000,000 open trees", "figure", "bytes_per_tree", 300, " bytes/tree"),
    Target("idle", "CPU of 8 idle tasks", "figure", "core_percent", 1.0, " % of a core"),
    Target("start-up", "python -m engine run to the first tuple", "figure", "first_tuple_ms", 500, " ms"),
    Target("start-up", "import engine", "figure", "import_ms", 100, " ms"),
    Target("computing-in-processes", "speed, to the run's own process", "speed-ratio", "own-process", 1.8, " ×"),
    Target("process-round-trip", "CPU of the run for a tuple through a child", "figure", "cpu_us", 4, " µs"),
    Target("process-round-trip", "tuples through a child", "rate", "per_second", 250_000, "/s"),
    Target("process-start", "start of a child", "figure", "start_ms", 150, " ms"),
    Target("many-processes", "16 children at 100,000 tuples/s: CPU of the run", "figure", "core_percent", 50, " % of a core"),
    Target("word-count-memory-none", "memory:// with checkpoints, to no state", "speed-ratio", "none", 0.6, " ×"),
    Target("word-count-sqlite-none", "SQLite with checkpoints, to no state", "speed-ratio", "none", 0.8, " ×"),
    Target("word-count-bursts-memory-none", "the same in bursts, memory://", "speed-ratio", "none", 0.5, " ×"),
    Target("word-count-bursts-sqlite-none", "the same in bursts, SQLite", "speed-ratio", "none", 0.5, " ×"),
    Target("word-count-exact-sqlite-none", "SQLite exactly once, to no state", "speed-ratio", "none", 0.9, " ×"),
    Target("word-count-bursts-exact-sqlite-none", "the same in bursts", "speed-ratio", "none", 0.8, " ×"),
    Target("committed-words", "a committer at checkpoints, speed, to batches", "speed-ratio", "transactional", 1.0, " ×"),
    Target("committed-words", "the same, speed, to quixstreams", "speed-ratio", "quixstreams", 10.0, " ×"),
    Target("exact-latency", "exactly once at 10,000 rows/s: p99 emit to ack", "figure", "p99_ms", 5, " ms"),
    Target("settled-answers", "answers before the commit: p50, to no state", "speed-ratio", "none", 0.91, " ×"),
    Target("awaited-calls", "calls of 200 ms with a checkpoint every second, to none", "speed-ratio", "none", 0.95, " ×"),
    Target("exact-recovery", "1,000,000 keys, a source that rewinds, to the first row", "figure", "start_secs", 2, " s"),
    Target("exact-recovery", "a task dies with a full mailbox, to the first row", "figure", "death_secs", 1, " s"),
    *(
        Target(f"failing-{case}", f"1 % of the rows fail {text}, to none", "speed-ratio", "none", bound, " ×")
        for case, text, bound in (
            ("once-before", "once before the state", 0.8),
            ("once-behind", "once behind it", 0.4),
            ("always-behind", "always behind it", 0.2),
        )
    ),
    Target("word-count-sqlite-memory", "SQLite, to memory://", "speed-ratio", "memory", 0.95, " ×"),
    Target("word-count-redis-memory", "Redis, to memory://", "speed-ratio", "memory", 0.9, " ×"),
    *(
        Target(f"state-latency-{store}", f"p99 that {name} adds while 100,000 keys are written", "figure", "added_p99_ms", 10, " ms")
        for store, name in (("sqlite", "SQLite"), ("redis", "Redis"))
    ),
    *(
        Target("state-commit", f"100,000 changed keys, to {name}'s best way", "figure", f"{store}_ratio", 1.5, " ×")
        for store, name in (("sqlite", "SQLite"), ("redis", "Redis"))
    ),
    Target("state-recovery", "1,000,000 keys, SQLite, to the first tuple", "figure", "folded_secs", 3, " s"),
    Target("state-recovery", "the same where no fold was made", "figure", "unfolded_secs", 3, " s"),
    Target("windows-field", "counts per minute of 100,000 keys, speed, to Flink on both cores", "speed-ratio", "flink", 0.7, " ×"),
    Target("windows-few-keys-field", "counts per minute by field name, speed, to bytewax", "speed-ratio", "bytewax", 3.0, " ×"),
    Target("windows-few-keys-lambda", "the same by lambda, speed, to bytewax", "speed-ratio", "bytewax", 2.0, " ×"),
    Target("sessions-recovery", "1,000,000 open sessions, SQLite, kill -9 to the first row", "figure", "start_secs", 5, " s"),
    Target("windows-sliding", "60 s every second, time, to tumbling", "time-ratio", "tumbling", 1.5, " ×"),
    *(Target("kafka-source", f"speed, to {peer}", "speed-ratio", peer, 1.5, " ×") for peer in ("aiokafka", "aiokafka-uvloop")),
    *(Target("kafka-source", f"speed, to {peer}", "speed-ratio", peer, 1.0, " ×") for peer in ("bytewax", "storm", "quixstreams", "faust")),
    *(
        Target(f"kafka-{unit}-count", f"speed, to {peer}", "speed-ratio", peer, 0.95, " ×")
        for unit in ("word", "line")
        for peer in ("aiokafka", "aiokafka-uvloop")
    ),
    *(
        Target("kafka-sink", f"speed, to {peer}", "speed-ratio", peer, 0.8, " ×")
        for peer in ("aiokafka-producer", "aiokafka-producer-turns")
    ),
    Target("kafka-memory", "records of one partition beyond max_uncommitted_offsets: one poll", "figure", "beyond", 2000),
    Target("kafka-memory", "records of other partitions held back by a poison record", "figure", "behind", 0),
    Target("kafka-latency", "p99 append to ack at 10,000 records/s", "figure", "p99_ms", 10, " ms"),
    Target("batches-of-1000", "speed, to acked single tuples", "speed-ratio", "acked", 1.0, " ×"),
    Target("batches-of-1000", "speed, to acked tuples in bursts", "speed-ratio", "acked-in-bursts", 1.0, " ×"),
    Target("batches-of-1-memory", "batches of one tuple, memory://", "rate", "per_second", 3000, "/s"),
    Target("batches-of-1-sqlite", "batches of one tuple, SQLite, synchronous FULL", "rate", "per_second", 1000, "/s"),
    Target("pipelining", "4 batches at once, to one at a time", "speed-ratio", "one-at-a-time", 3.5, " ×"),
    *(Target(f"kafka-words-{store}", "speed, to quixstreams", "speed-ratio", "quixstreams", 5.0, " ×") for store in ("postgres", "redis")),
    Target("hand-over", "rows to Spark, speed, to pyarrow alone", "speed-ratio", "pyarrow", 0.8, " ×"),
    Target("words-on-spark", "word count on Spark, speed, to PySpark by hand", "speed-ratio", "pyspark-by-hand", 1.0, " ×"),
    Target("words-on-spark", "the same, to one core", "speed-ratio", "one-core", 1.5, " ×"),
    Target("computing-on-spark", "a bolt of 20 µs a line on two cores, to one core", "speed-ratio", "one-core-computing", 1.8, " ×"),
    Target("tiny-batches", "a batch on Spark beside its work", "figure", "one_ms", 250, " ms"),
    Target("tiny-batches", "four batches at once, to one at a time", "rate", "four_at_once", 3.0, " ×"),
    Target("two-workers", "two workers of one core, to one worker", "speed-ratio", "one-worker", 1.8, " ×"),
    Target("planned-partitions", "a plan to 64 partitions, more than to 2", "figure", "added_ms", 100, " ms"),
    Target("unlike-tasks flow", "12 unlike tasks: rate, to what they can do", "rate", "of_ideal", 0.95, " ×"),
    Target("unlike-tasks", "the same: rate, to a hash", "rate", "hash_per_second", 3.0, " ×"),
    *(Target("unlike-tasks", f"the same: rate, to {way}", "rate", f"{way}_per_second", 1.0, " ×") for way in ("shuffle", "load-aware")),
    Target("unlike-tasks", "the same: p99, to shuffle with its best window", "figure", "shuffle_p99_ms", 1.0, " ×"),
    Target("unlike-tasks flow", "from the end of a stall to the full rate", "figure", "recovery_secs", 2.0, " s"),
    Target("controller-cost", "the controller, per tuple", "figure", "all_of_1_ns", 1000, " ns"),
    Target("auto-pending-word-count", 'max_spout_pending="auto", to the best fixed value', "rate", "fixed_per_second", 0.95, " ×"),
    *(
        Target("auto-pending-word-count", f"emit to ack {share}, to that of the best fixed value", "figure", f"fixed_{share}_ms", 2.0, " ×")
        for share in ("p50", "p99")
    ),
    *(
        target
        for store, name, bound_ms, bound_rate in (("none", "without state", 1, 20_000), ("sqlite", "SQLite", 15, 2_000))
        for target in (
            Target(f"calls-{store}", f"calls of an inlet, {name}, 1 client: p50", "figure", "one_p50_ms", bound_ms, " ms"),
            Target(f"calls-{store}", f"calls of an inlet, {name}, 100 clients", "rate", "per_second", bound_rate, "/s"),
        )
    ),
    Target("state-large", "memory while 5,000,000 keys are put", "figure", "put_mb", 500, " MB"),
)


def verdicts(results: Results) -> list[Verdict]:
    """Judge every target by the results."""
    return [_judge(target, results) for target in TARGETS]


def _judge(target: Target, results: Results) -> Verdict:
    if target.kind in ("figure", "rate"):
        found = results.find(target.work)
        spreads = [s for figure, s in found.figures if figure.key == target.source] if found else []
        return Verdict(target, spreads[0].median, f"{spreads[0].low:.3g} - {spreads[0].high:.3g}") if spreads else Verdict(target, None, "")
    pairing = results.pairing(target.work, target.source)
    if pairing is None:
        return Verdict(target, None, "")
    own, other = pairing.own_ns.median, pairing.peer_ns.median
    pairwise = pairing.time.pairwise
    low, high = (1 / pairwise.high, 1 / pairwise.low) if target.at_least else (pairwise.low, pairwise.high)
    value = pairing.speed if target.at_least else pairing.time.of_medians
    return Verdict(target, value, f"{own:,.0f} ns beside {other:,.0f} ns per {pairing.unit}; pairs {low:.2f} - {high:.2f}")
