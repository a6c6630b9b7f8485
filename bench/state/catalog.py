"""The benchmarks of state by name, and its word count on one store beside another. Imports no engine: only their children do."""

from bench.benchmark import Benchmark, Figure
from bench.child import Child, RunFailed, module_child
from bench.results import Missing, Results, paired
from bench.rounds import Say, alternate
from bench.state.stores import STORES, VALUE_STORES, why_not

COMMIT = (
    Figure("sqlite_ratio", "SQLite: to its own best way", "×"),
    Figure("sqlite_ms", "SQLite: 100,000 changed keys committed", "ms"),
    Figure("sqlite_bare_ms", "SQLite alone: one pickled blob", "ms"),
    Figure("redis_ratio", "Redis: to its own best way", "×"),
    Figure("redis_ms", "Redis: 100,000 changed keys committed", "ms"),
    Figure("redis_bare_ms", "Redis alone: one MULTI", "ms"),
)
RECOVERY = (
    Figure("folded_secs", "to the first tuple, 100,000 keys in a delta", "s"),
    Figure("unfolded_secs", "to the first tuple, all keys in a delta", "s"),
    Figure("folded_read_secs", "to read every key, after that", "s"),
    Figure("unfolded_read_secs", "the same, all keys in a delta", "s"),
)
LARGE = tuple(
    Figure(f"{step}_{key}", f"{what}, {text}", unit)
    for step, what in (("put", "put 5,000,000 keys"), ("change", "change keys at random"), ("read", "read all of them"))
    for key, text, unit in (("mb", "most memory", "MB"), ("per_second", "rate", "keys/s"))
)
PAIRS = (("memory", "none"), ("sqlite", "memory"), ("redis", "memory"))
"""A word count whose counts are in the first, beside one whose counts are in the second."""
NOTES = {
    "none": "counts in a dict, no checkpoints, max_spout_pending 1,000",
    "memory": "counts in memory://, a checkpoint every second",
}


def _latency(store: str) -> Benchmark:
    figures = (
        Figure("added_p99_ms", f"{store}: due to ack p99, more than without state", "ms"),
        Figure("due_p99_ms", f"{store}: due to ack, p99", "ms"),
        Figure("p99_ms", f"{store}: emit to ack, p99", "ms"),
        Figure("max_ms", f"{store}: emit to ack, longest", "ms"),
        Figure("checkpoint_ms", f"{store}: the checkpoint itself", "ms"),
    )

    def child(quick: bool) -> Child:
        return module_child("bench.state.latency", store, "--secs", 3 if quick else 10)

    return Benchmark("state", f"state-latency-{store}", "emit to ack while 100,000 changed keys are written", figures, child)


def _values(store: str) -> Benchmark:
    figures = tuple(
        Figure(f"{kind}_{keys}", f"{store}: {kind} values, batches of {keys:,} keys", "keys/s")
        for kind in ("transactional", "opaque")
        for keys in (1_000, 10_000, 50_000)
    )

    def child(quick: bool) -> Child:
        return module_child("bench.state.values", store, "--rounds", 2 if quick else 9)

    return Benchmark("state", f"values-{store}", "keys of a map of values that are updated in a second", figures, child)


def _commit(quick: bool) -> Child:
    return module_child("bench.state.commit", "--keys", 5000 if quick else 100_000, "--rounds", 3 if quick else 7)


def _recovery(quick: bool) -> Child:
    return module_child("bench.state.recovery", "--keys", 200_000 if quick else 1_000_000)


def _large(quick: bool) -> Child:
    return module_child("bench.state.large", "--keys", 100_000 if quick else 5_000_000, timeout_secs=900)


STATE = (
    *(_latency(store) for store in STORES),
    *(_values(store) for store in VALUE_STORES),
    Benchmark("state", "state-commit", "100,000 changed keys committed, beside the bare store", COMMIT, _commit),
    Benchmark("state", "state-recovery", "start on 1,000,000 keys after a kill -9, SQLite", RECOVERY, _recovery),
    Benchmark("state", "state-large", "5,000,000 keys in SQLite", LARGE, _large),
)


def pair_name(store: str, beside: str) -> str:
    """The name of a pairing."""
    return f"word-count-{store}-{beside}"


PAIR_NAMES = tuple(pair_name(*pair) for pair in PAIRS)


def word_counts(names: list[str], rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure the word count on one store beside another, in alternating pairs."""
    results = Results()
    for store, beside in PAIRS:
        name = pair_name(store, beside)
        if names and name not in names:
            continue
        reason = why_not(store)
        if reason is not None:
            say(f"{name}: skipped: {reason}")
            results += Results(missing=(Missing("state", name, reason),))
            continue
        say(f"word count: {store} | {beside}")
        try:
            readings = alternate(lambda of=store: _word_count(of, quick), lambda of=beside: _word_count(of, quick), rounds, say)  # type: ignore[misc]
        except RunFailed as error:
            say(f"  failed: {error}")
            results += Results(missing=(Missing("state", name, str(error)),))
            continue
        results += Results(pairings=(paired((name, "word"), (beside, NOTES[beside]), *readings),))
    return results


def _word_count(store: str, quick: bool) -> Child:
    warm, secs = (0.5, 2) if quick else (2, 5)
    return module_child("bench.state.word_count", store, "--warm-secs", warm, "--secs", secs)
