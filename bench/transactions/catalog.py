"""What is measured of transactions, by name. Imports no engine and no client: only the children do."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.benchmark import PER_SECOND, Benchmark
from bench.child import Child, module_child
from bench.kafka.job import Job
from bench.python_peers import KAFKA as PEERS
from bench.transactions.ledgers import LEDGERS

TUPLES, QUICK_TUPLES = 3_000_000, 100_000
LINES, QUICK_LINES = 300_000, 20_000
PEER_LINES, QUICK_PEER_LINES = 30_000, 2_000
WORDS_PER_LINE = 10


def lines_topic(lines: int) -> str:
    """Return the name of the topic of so many lines."""
    return f"stormcell-bench-lines-{lines}"


@dataclass(frozen=True)
class Peer:
    """What the engine's batches run beside."""

    name: str
    note: str
    child: Callable[[bool], Child]


@dataclass(frozen=True)
class Pair:
    """A work in batches, beside the same work in other ways; called with True for a run that only shows that it works."""

    name: str
    summary: str
    own: Callable[[bool], Child]
    peers: tuple[Peer, ...]


def _batches(tuples: int, quick_tuples: int, *options: object) -> Callable[[bool], Child]:
    return lambda quick: module_child(
        "bench.transactions.batches", "memory", "--tuples", quick_tuples if quick else tuples, *options, timeout_secs=300
    )


def _plain(way: str) -> Callable[[bool], Child]:
    return lambda quick: module_child("bench.transactions.plain", way, "--tuples", QUICK_TUPLES if quick else TUPLES)


PAIRS = (
    Pair(
        "batches-of-1000",
        "a global count in batches of 1,000 tuples, 2 at once, beside single tuples; per tuple",
        _batches(TUPLES, QUICK_TUPLES, "--pending", 2),
        (
            Peer("acked", "no transactions; each tuple with a message id, acked; 1,000 open", _plain("emit")),
            Peer("acked-in-bursts", "the same, emitted by emit_many, 250 at once", _plain("emit_many")),
        ),
    ),
    Pair(
        "pipelining",
        "batches of 1,000 tuples whose processing waits 10 ms, 4 at once, beside one at a time; per tuple",
        _batches(400_000, 40_000, "--waits", "--pending", 4),
        (Peer("one-at-a-time", "the same with max_spout_pending=1", _batches(400_000, 40_000, "--waits", "--pending", 1)),),
    ),
)


def _small(store: str, quick: bool) -> Child:
    batches = 2_000 if quick else 20_000 if store in ("memory", "sqlite") else 10_000
    return module_child("bench.transactions.batches", store, "--tuples", batches, "--take", 1, "--pending", 8)


ALONE = {
    store: Benchmark(
        "transactions", f"batches-of-1-{store}", f"batches of 1 tuple, 8 at once, state in {store}", (PER_SECOND,), partial(_small, store)
    )
    for store in LEDGERS
}
"""By where the coordinator's state is."""


@dataclass(frozen=True)
class Words:
    """The word count of a topic in a database, beside a peer's from topic to topic."""

    store: str

    @property
    def name(self) -> str:
        """The name of the work."""
        return f"kafka-words-{self.store}"

    @property
    def summary(self) -> str:
        """What is measured."""
        return f"words of a topic counted exactly once in {self.store}, beside a peer's count from topic to topic; per word"

    def child(self, url: str, job: Job) -> Child:
        """Return the command of one run."""
        return module_child("bench.transactions.kafka_words", self.store, url, *job.arguments())


@dataclass(frozen=True)
class QuixWords:
    """The peer's, in one of two ways."""

    name: str
    note: str
    way: str

    def child(self, job: Job) -> Child:
        """Return the command of one run."""
        python = PEERS.interpreter("quixstreams") or ""
        return module_child("bench.transactions.quix_words", self.way, *job.arguments(), python=python)


WORDS = (Words("postgres"), Words("redis"))
QUIX = (
    QuixWords("quixstreams", "exactly once, Kafka to Kafka, a checkpoint every 2 s", "grouped"),
    QuixWords("quixstreams-by-partition", "the same without grouping: counts of each partition, which are no word count", "by-partition"),
)

PAIRED = tuple((work.name, work.summary) for work in (*PAIRS, *WORDS))
"""What is measured in pairs, with what it is."""
NAMES = (*(name for name, _ in PAIRED), *(benchmark.name for benchmark in ALONE.values()))
