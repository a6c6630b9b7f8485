"""Batches and transactions."""

from typing import Any, Final

from bench.registry.runs import PER_SECOND, new_run, servers_of
from bench.work import Peer, Run, Work


def _batches(tuples: int, quick_tuples: int, **arguments: Any) -> Run:
    given = {"store": "memory", "take": 1000, "waits": False, **arguments}
    return new_run("bench.transactions.batches:measure", {"tuples": quick_tuples}, timeout_secs=300, tuples=tuples, **given)


def _single_tuples(emit: str) -> Run:
    return new_run("bench.transactions.single_tuples:measure", {"tuples": 100_000}, tuples=3_000_000, emit=emit)


def _small_batches(store: str) -> Work:
    name, summary = f"batches-of-1-{store}", f"batches of 1 tuple, 8 at once, state in {store}"
    run = _batches(20_000 if store in ("memory", "sqlite") else 10_000, 2_000, take=1, pending=8, store=store)
    return Work("transactions", name, summary, run, PER_SECOND, needs=servers_of(store))


def lines_run(function: str, lines: int, quick_lines: int, package: str = "", **arguments: Any) -> Run:
    """Return a run that reads a topic of lines."""
    prepare = "bench.kafka.topics:fill_with_lines"
    return new_run(function, {"records": quick_lines}, package=package, prepare=prepare, records=lines, **arguments)


def quix_words(name: str, note: str, *, grouped: bool) -> Peer:
    """Return the peer that counts the words of a topic."""
    return Peer(name, note, lines_run("bench.peers.quix_apps:count_words", 30_000, 2_000, "kafka/quixstreams", grouped=grouped))


def transactional_words(store: str, lines: int = 300_000) -> Run:
    """Return a run that counts the words of a topic in a transactional topology."""
    return lines_run("bench.transactions.kafka_words:measure", lines, 60_000, store=store)


def _kafka_words(store: str) -> Work:
    partitions = "the same without grouping: counts of each partition, which are no word count"
    return Work(
        "transactions",
        f"kafka-words-{store}",
        f"words of a topic counted exactly once in {store}, beside a peer's count from topic to topic",
        transactional_words(store),
        unit="word",
        peers=(
            quix_words("quixstreams", "exactly once, Kafka to Kafka, a checkpoint every 2 s", grouped=True),
            quix_words("quixstreams-by-partition", partitions, grouped=False),
        ),
        needs=("kafka", store),
    )


TRANSACTIONS: Final = (
    Work(
        "transactions",
        "batches-of-1000",
        "a global count in batches of 1,000 tuples, 2 at once, beside single tuples",
        _batches(3_000_000, 100_000, pending=2),
        peers=(
            Peer("acked", "no transactions; each tuple with a message id, acked; 1,000 open", _single_tuples("one by one")),
            Peer("acked-in-bursts", "the same, emitted by emit_many, 250 at once", _single_tuples("in bursts")),
        ),
    ),
    Work(
        "transactions",
        "pipelining",
        "batches of 1,000 tuples whose processing waits 10 ms, 4 at once, beside one at a time",
        _batches(400_000, 40_000, pending=4, waits=True),
        peers=(Peer("one-at-a-time", "the same with max_spout_pending=1", _batches(400_000, 40_000, pending=1, waits=True)),),
    ),
    *(_small_batches(store) for store in ("memory", "sqlite", "redis", "zookeeper")),
    _kafka_words("postgres"),
    _kafka_words("redis"),
)
