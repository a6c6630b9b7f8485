"""A source and a sink beside other clients and engines, on one broker."""

from typing import Any, Final

from bench.registry.runs import PER_SECOND, new_figures, new_percentiles, new_run
from bench.work import Peer, Run, Work


def _reads(function: str, records: int = 1_000_000, package: str = "", **arguments: Any) -> Run:
    """Return a run that reads the full topic of `records` records."""
    prepare, secs = "bench.kafka.topics:fill_with_records", 600
    return new_run(function, {"records": records // 20}, package=package, prepare=prepare, timeout_secs=secs, records=records, **arguments)


def _reads_lines(function: str, **arguments: Any) -> Run:
    """Return a run that reads the full topic of 500,000 lines."""
    prepare = "bench.kafka.topics:fill_with_lines"
    return new_run(function, {"records": 25_000}, prepare=prepare, timeout_secs=600, records=500_000, **arguments)


def _appends(function: str, **arguments: Any) -> Run:
    """Return a run that fills its own topic."""
    return new_run(function, {"records": 15_000}, records=300_000, **arguments)


def _kafka_latency(name: str, summary: str, reader: str) -> Work:
    run = new_run("bench.kafka.latency:measure", {"measured_secs": 3.0}, reader=reader, rate=10_000, measured_secs=10.0)
    return Work("kafka", name, summary, run, new_percentiles("append to ack", "p50", "p99", "p999"), needs=("kafka",))


KAFKA_FIGURES: Final = PER_SECOND + new_figures(
    "s", start_secs="from the start of its process to the first record", whole_secs="from the start of its process to the last record"
)
SOURCE_PEERS: Final = (
    Peer("aiokafka", "a getmany loop on asyncio; counts the lengths of lists", _reads("bench.peers.aiokafka_clients:read_on_asyncio")),
    Peer("aiokafka-uvloop", "the same on uvloop, as the engine is", _reads("bench.peers.aiokafka_clients:read")),
    Peer(
        "bytewax",
        "its Kafka source, one worker; offsets in its recovery store; reads in C, in threads",
        _reads("bench.peers.bytewax_flows:read", package="kafka/bytewax"),
    ),
    Peer("storm", "its Kafka spout, LocalCluster, one acker; uses every core", _reads("bench.peers.storm:read", 3_000_000), ("java",)),
    Peer(
        "quixstreams",
        "one application; reads in C, in threads",
        _reads("bench.peers.quix_apps:read", 300_000, "kafka/quixstreams"),
    ),
    Peer("faust", "one agent, on uvloop", _reads("bench.peers.faust_app:read", 50_000, "kafka/faust-streaming")),
    Peer(
        "librdkafka",
        "confluent-kafka's consume; reads in C, in threads; a line of reference",
        _reads("bench.peers.librdkafka_consumer:read", package="kafka/confluent-kafka"),
    ),
    Peer(
        "librdkafka-fields",
        "the same, and takes the value, key, offset, time and headers of each record, as a source on this client would",
        _reads("bench.peers.librdkafka_consumer:read", package="kafka/confluent-kafka", takes_fields=True),
    ),
)
SINK_PEERS: Final = (
    Peer(
        "aiokafka-producer",
        "send without waiting for each, then flush; on uvloop",
        _appends("bench.peers.aiokafka_clients:append", partition_turns=False),
    ),
    Peer(
        "aiokafka-producer-turns",
        "the same, told the partition of each batch",
        _appends("bench.peers.aiokafka_clients:append", partition_turns=True),
    ),
)
KAFKA: Final = (
    Work(
        "kafka",
        "kafka-source",
        "a topic read whole, every record counted at least once, offsets committed every 2 s",
        _reads("bench.kafka.source:measure"),
        KAFKA_FIGURES,
        "record",
        SOURCE_PEERS,
        ("kafka",),
    ),
    Work(
        "kafka",
        "kafka-word-count",
        "lines of 10 words read and their words counted in bursts, beside clients that only read the lines",
        _reads_lines("bench.kafka.words:measure"),
        KAFKA_FIGURES,
        "line",
        (
            Peer("aiokafka", "a getmany loop on asyncio", _reads_lines("bench.peers.aiokafka_clients:read_on_asyncio", lines=True)),
            Peer("aiokafka-uvloop", "the same on uvloop", _reads_lines("bench.peers.aiokafka_clients:read", lines=True)),
        ),
        ("kafka",),
    ),
    Work(
        "kafka",
        "kafka-sink",
        "records appended to 4 partitions, idempotent, acks=all",
        _appends("bench.kafka.sink:measure"),
        KAFKA_FIGURES,
        "record",
        SINK_PEERS,
        ("kafka",),
    ),
    _kafka_latency("kafka-latency", "KafkaSpout -> null bolt at 10,000 records/s, append to ack", "engine"),
    _kafka_latency("kafka-latency-aiokafka", "a getmany loop at 10,000 records/s, append to its return", "aiokafka"),
    Work(
        "kafka",
        "kafka-memory",
        "4,000,000 records and a poison one that never acks",
        _reads("bench.kafka.memory:measure", 4_000_000),
        new_figures(
            "MB",
            clean_mb="most memory, nothing held back",
            bounded_mb="one poison record, bound of 100,000",
            whole_mb="one poison record, 1,000,000 held back",
        )
        + new_figures("bytes", bytes_per_held="memory of a record that is held back")
        + new_figures("records", beyond="records taken beyond the bound", behind="records of other partitions that did not flow"),
        needs=("kafka",),
    ),
)
