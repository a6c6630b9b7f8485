"""Costs of state."""

from typing import Final

from bench.registry.runs import new_figures, new_run, servers_of
from bench.work import Figure, Peer, Run, Work


def word_count_run(store: str, *, bursts: bool, exact: bool = False) -> Run:
    """Return a run of the word count of a text. Store "none" is a dict. After the warm-up no word is new."""
    quick = {"warm_secs": 0.5, "measured_secs": 2.0}
    return new_run("bench.state.word_count:measure", quick, store=store, bursts=bursts, exact=exact, warm_secs=4.0, measured_secs=5.0)


def _beside(store: str, other: str, note: str, *, bursts: bool = False, exact: bool = False) -> Work:
    how = f"{' in bursts' if bursts else ''}{', exactly once' if exact else ''}"
    summary = f"word count of a text{how}, counts in {store} beside counts in {other}"
    name = f"word-count{'-bursts' if bursts else ''}{'-exact' if exact else ''}-{store}-{other}"
    peer = Peer(other, note, word_count_run(other, bursts=bursts))
    run = word_count_run(store, bursts=bursts, exact=exact)
    return Work("state", name, summary, run, unit="word", peers=(peer,), needs=servers_of(store))


def _state_latency(store: str) -> Work:
    figures = new_figures(
        "ms",
        added_p99_ms=f"{store}: due to ack p99, more than without state",
        due_p99_ms=f"{store}: due to ack, p99",
        p99_ms=f"{store}: emit to ack, p99",
        max_ms=f"{store}: emit to ack, longest",
        checkpoint_ms=f"{store}: the checkpoint itself",
    )
    run = new_run("bench.state.latency:measure", {"measured_secs": 3.0}, store=store, measured_secs=10.0)
    return Work(
        "state", f"state-latency-{store}", "emit to ack while 100,000 changed keys are written", run, figures, needs=servers_of(store)
    )


def _values(store: str) -> Work:
    figures = tuple(
        Figure(f"{kind}_{keys}", f"{store}: {kind} values, batches of {keys:,} keys", "keys/s")
        for kind in ("transactional", "opaque")
        for keys in (1_000, 10_000, 50_000)
    )
    run = new_run("bench.state.values:measure", {"rounds": 2}, store=store, rounds=9)
    return Work("state", f"values-{store}", "keys of a map of values that are updated in a second", run, figures, needs=servers_of(store))


_NO_STATE: Final = "counts in a dict, no checkpoints, max_spout_pending 1,000"

STATE: Final = (
    _beside("memory", "none", _NO_STATE),
    _beside("sqlite", "none", _NO_STATE),
    _beside("memory", "none", _NO_STATE, bursts=True),
    _beside("sqlite", "none", _NO_STATE, bursts=True),
    _beside("sqlite", "none", _NO_STATE, exact=True),
    _beside("sqlite", "none", _NO_STATE, bursts=True, exact=True),
    _beside("sqlite", "memory", "counts in memory://, a checkpoint every second"),
    _beside("redis", "memory", "counts in memory://, a checkpoint every second"),
    *(_state_latency(store) for store in ("memory", "sqlite", "redis")),
    *(_values(store) for store in ("memory", "sqlite", "redis", "postgres")),
    Work(
        "state",
        "state-commit",
        "100,000 changed keys committed, beside the bare store",
        new_run("bench.state.commit:measure", {"keys": 5_000, "rounds": 3}, keys=100_000, rounds=7),
        new_figures("×", sqlite_ratio="SQLite: to its own best way", redis_ratio="Redis: to its own best way")
        + new_figures("ms", sqlite_ms="SQLite: 100,000 changed keys committed", sqlite_bare_ms="SQLite alone: one pickled blob")
        + new_figures("ms", redis_ms="Redis: 100,000 changed keys committed", redis_bare_ms="Redis alone: one MULTI"),
    ),
    Work(
        "state",
        "state-recovery",
        "start on 1,000,000 keys after a kill -9, SQLite",
        new_run("bench.state.recovery:measure", {"keys": 200_000}, keys=1_000_000),
        new_figures(
            "s",
            folded_secs="to the first tuple, 100,000 keys in a delta",
            unfolded_secs="to the first tuple, all keys in a delta",
            folded_read_secs="to read every key, after that",
            unfolded_read_secs="the same, all keys in a delta",
        ),
    ),
    Work(
        "state",
        "state-large",
        "5,000,000 keys in SQLite",
        new_run("bench.state.large:measure", {"keys": 100_000}, timeout_secs=900, keys=5_000_000),
        new_figures("MB", put_mb="put, most memory", change_mb="change at random, most memory", read_mb="read all, most memory")
        + new_figures("keys/s", put_per_second="put, rate", change_per_second="change at random, rate", read_per_second="read all, rate"),
    ),
)
