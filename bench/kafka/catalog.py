"""The works on Kafka, who does them, and what is measured alone. Imports no client and no engine: only the children do."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench import java
from bench.benchmark import Benchmark, Figure
from bench.child import Child, module_child
from bench.kafka import storm_peer
from bench.kafka.job import Job
from bench.python_peers import KAFKA as PEERS

RECORDS = 1_000_000


@dataclass(frozen=True)
class Contender:
    """Who reads a topic, or fills one."""

    name: str
    note: str
    child: Callable[[Job], Child]
    records: int = RECORDS
    unavailable: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class Work:
    """The engine beside others; each run handles the contender's number of records."""

    name: str
    summary: str
    own: Contender
    peers: tuple[Contender, ...]
    fills: bool = False
    """Whether a run appends to a topic of its own, instead of reading one that is full."""


def _module(module: str, *arguments: object) -> Callable[[Job], Child]:
    return lambda job: module_child(f"bench.kafka.{module}", *arguments, *job.arguments())


def _peer(name: str, package: str, module: str, note: str, records: int = RECORDS) -> Contender:
    def child(job: Job) -> Child:
        return module_child(f"bench.kafka.{module}", *job.arguments(), python=PEERS.interpreter(package) or "")

    return Contender(name, note, child, records, partial(PEERS.unavailable, package))


SOURCE = Work(
    "kafka-source",
    "a topic read whole, every record counted at least once, offsets committed every 2 s",
    Contender("stormcell", "KafkaSpout -> null bolt", _module("engine_source")),
    (
        Contender("aiokafka", "a getmany loop on asyncio's own loop; counts the lengths of lists", _module("aiokafka_loop", "asyncio")),
        Contender("aiokafka-uvloop", "the same on uvloop, as the engine is", _module("aiokafka_loop", "uvloop")),
        _peer("bytewax", "bytewax", "bytewax_flow", "its Kafka source, one worker; offsets in its recovery store; reads in C, in threads"),
        Contender("storm", "its Kafka spout, LocalCluster, one acker; uses every core", storm_peer.child, 3_000_000, java.unavailable),
        _peer("quixstreams", "quixstreams", "quix_app", "one application; reads in C, in threads", 300_000),
        _peer("faust", "faust-streaming", "faust_app", "one agent, on uvloop", 50_000),
        _peer("librdkafka", "confluent-kafka", "librdkafka_loop", "confluent-kafka's consume; reads in C, in threads; a line of reference"),
    ),
)
SINK = Work(
    "kafka-sink",
    "records appended to 4 partitions, idempotent, acks=all",
    Contender("stormcell", "const spout -> KafkaSink", _module("engine_sink"), 300_000),
    (
        Contender("aiokafka-producer", "send without waiting for each, then flush; on uvloop", _module("aiokafka_sink", "free"), 300_000),
        Contender("aiokafka-producer-turns", "the same, told the partition of each batch", _module("aiokafka_sink", "turns"), 300_000),
    ),
    fills=True,
)
WORKS = (SOURCE, SINK)

LATENCY = (
    Figure("p50_ms", "append to ack, p50", "ms"),
    Figure("p99_ms", "append to ack, p99", "ms"),
    Figure("p999_ms", "append to ack, p99.9", "ms"),
)
MEMORY = (
    Figure("clean_mb", "most memory, nothing held back", "MB"),
    Figure("bounded_mb", "one poison record, bound of 100,000", "MB"),
    Figure("whole_mb", "one poison record, 1,000,000 held back", "MB"),
    Figure("bytes_per_held", "memory of a record that is held back", "bytes"),
    Figure("beyond", "records taken beyond the bound", "records"),
    Figure("behind", "records of other partitions that did not flow", "records"),
)


def _latency(reader: str) -> Callable[[bool], Child]:
    return lambda quick: module_child("bench.kafka.latency", reader, "--secs", 3 if quick else 10)


def _memory(quick: bool) -> Child:
    return module_child("bench.kafka.memory", "--records", 4_000_000 // (20 if quick else 1), timeout_secs=600)


ALONE = (
    Benchmark("kafka", "kafka-latency", "KafkaSpout -> null bolt at 10,000 records/s, append to ack", LATENCY, _latency("engine")),
    Benchmark("kafka", "kafka-latency-aiokafka", "a getmany loop at 10,000 records/s, append to its return", LATENCY, _latency("aiokafka")),
    Benchmark("kafka", "kafka-memory", "4,000,000 records and a poison one that never acks", MEMORY, _memory),
)


def names() -> tuple[str, ...]:
    """Return all that can be asked for: works, peers, and what is measured alone."""
    return (
        *(work.name for work in WORKS),
        *(peer.name for work in WORKS for peer in work.peers),
        *(benchmark.name for benchmark in ALONE),
    )
