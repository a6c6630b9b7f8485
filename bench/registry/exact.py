"""Costs of exactly once in plain topologies."""

from typing import Final

from bench.registry.runs import new_figures, new_percentiles, new_run
from bench.registry.transactions import lines_run, quix_words, transactional_words
from bench.work import Peer, Run, Work

WORDS_LINES: Final = 1_000_000
"""So many that there are several checkpoints."""
_BESIDE: Final = {"warm_secs": 0.5, "measured_secs": 2.0}


def _answers(store: str) -> Run:
    return new_run("bench.exact.answers:measure", _BESIDE, store=store, rate=100.0, warm_secs=2.0, measured_secs=10.0)


def _awaited(store: str) -> Run:
    return new_run("bench.exact.awaited:measure", _BESIDE, store=store, warm_secs=2.0, measured_secs=10.0)


def _failures(case: str) -> Run:
    return new_run("bench.exact.failures:measure", {"rows": 2_000}, timeout_secs=600, case=case, rows=500_000)


EXACT: Final = (
    Work(
        "exact",
        "committed-words",
        "words of a topic counted exactly once in PostgreSQL at checkpoints, beside batches and a peer",
        lines_run("bench.exact.kafka_words:measure", WORDS_LINES, 500_000),
        unit="word",
        peers=(
            Peer("transactional", "the same committer in a transactional topology", transactional_words("postgres", WORDS_LINES)),
            quix_words("quixstreams", "exactly once, Kafka to Kafka, a checkpoint every 2 s", grouped=True),
        ),
        needs=("kafka", "postgres"),
    ),
    Work(
        "exact",
        "exact-latency",
        "emit to ack of a word count in SQLite at 10,000 rows/s, with a checkpoint every 10 s",
        new_run(
            "bench.exact.latency:measure",
            {"rate": 1_000.0, "interval_secs": 1.0, "measured_secs": 2.0},
            store="sqlite",
            rate=10_000.0,
            interval_secs=10.0,
            measured_secs=32.0,
        ),
        new_percentiles("emit to ack", "p50", "p99", "p999") + new_figures("ms", due_p99_ms="due to ack, p99"),
    ),
    Work(
        "exact",
        "settled-answers",
        "p50 of 100 requests/s through a bolt of 200 ms and a state in SQLite, beside no state",
        _answers("sqlite"),
        new_percentiles("request", "p50", "p99"),
        "request",
        (Peer("none", "a dict in place of the state", _answers("none")),),
    ),
    Work(
        "exact",
        "awaited-calls",
        "calls of 200 ms, 100 at once, with a checkpoint every second, beside no checkpoint",
        _awaited("sqlite"),
        unit="call",
        peers=(Peer("none", "a dict in place of the state", _awaited("none")),),
    ),
    Work(
        "exact",
        "exact-recovery",
        "1,000,000 keys in SQLite: start after a kill -9, and death of a task with a full mailbox",
        new_run("bench.exact.recovery:measure", {"keys": 50_000}, keys=1_000_000),
        new_figures("s", start_secs="kill -9 to the first row", death_secs="death of a task to the first row")
        + new_figures("tuples", waiting="in the mailbox at the death"),
    ),
    *(
        Work("exact", f"failing-{case}", f"1 % of the rows fail {text}, beside none", _failures(case), unit="row", peers=(_without,))
        for _without in (Peer("none", "no row fails", _failures("none")),)
        for case, text in (
            ("once-before", "once before the state"),
            ("once-behind", "once behind the state"),
            ("always-behind", "always behind the state"),
        )
    ),
)
